"""What only says of a value that it is to be computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import MOVABLE, HostArray
from tinyjax.ir.effects import Effect, Effects
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.primitives.elementwise import check_dtype
from tinyjax.primitives.structure import check_arity

V = TypeVar("V")


@final
@frozen
class KeptEffect(Effect):
    """The equation says that a value is to be computed, though nothing reads it."""

    harmless: ClassVar[bool] = True

    @override
    def __str__(self) -> str:
        return "Kept"


_KEPT: Final[Effects] = frozenset({KeptEffect()})


@final
@frozen
class DceSink(Primitive):
    """Takes a value and has no result, so that passes leave in the program what the value is computed by; with
    `prevent_mlir_dce`, XLA as well."""

    prevent_mlir_dce: bool = False
    name: ClassVar[str] = "dce_sink"

    @property
    @override
    def effects(self) -> Effects:
        return _KEPT

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((0,),)

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        check_dtype(self.name, avals[0].dtype, MOVABLE)
        return ()

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return ()

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        return ctx.bind(self, *primals), []

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        return ctx.bind(self, *args), []

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        return [Zero(arg.aval) if isinstance(arg, UndefPrimal) else None for arg in args]
