"""Identities that say something to a transformation or to the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

from attrs import field, frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import MOVABLE, HostArray
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.tangents import without_zeros
from tinyjax.primitives import numpy_values
from tinyjax.primitives.elementwise import Dtypes, LinearUnary, NumPyFunction

V = TypeVar("V")


@final
@frozen
class Name(LinearUnary):
    """The operand, under a name by which policies of `checkpoint` and lists of residuals know it."""

    label: str = field()
    name: ClassVar[str] = "name"
    accepts: ClassVar[Dtypes] = MOVABLE
    function: ClassVar[NumPyFunction] = numpy_values.identity

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        return ctx.bind(self, *primals), tangents  # the name is that of the value, not of its tangent

    @override
    def transposed(self, ctx: Context[V], ct: V, operand: ShapedArray) -> V:
        return ct


@final
@frozen
class OptimizationBarrier(Primitive):
    """The operands. The compiler moves nothing across and sees no common subexpressions beyond it."""

    name: ClassVar[str] = "optimization_barrier"
    apart: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return args

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        found = iter(ctx.bind(self, *without_zeros(tangents)))
        outs = ctx.bind(self, *primals)
        return outs, [tangent if isinstance(tangent, Zero) else next(found) for tangent in tangents]

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        return ctx.bind(self, *args), axes

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        found = iter(ctx.bind(self, *without_zeros(cotangents)))
        results: list[V | Zero] = [ct if isinstance(ct, Zero) else next(found) for ct in cotangents]
        return [ct if isinstance(arg, UndefPrimal) else None for ct, arg in zip(results, args, strict=True)]


optimization_barrier: Final = OptimizationBarrier()
