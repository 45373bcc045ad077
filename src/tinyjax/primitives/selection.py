"""Choosing among operands, element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import LinearityError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import BOOL, MOVABLE, SUPPORTED, HostArray
from tinyjax.ir.primitive import Outputs, UndefPrimal, Zero
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives import complex_values, kernels, numpy_values
from tinyjax.primitives.bitwise import BITS, logical_and
from tinyjax.primitives.comparison import eq, gt, lt
from tinyjax.primitives.elementwise import (
    Dtypes,
    Elementwise,
    NumPyFunction,
    add,
    check_dtype,
    common_dtype,
    common_shape,
)
from tinyjax.primitives.structure import broadcast_scalar, constant_like, unbroadcast

V = TypeVar("V")


@final
@frozen
class SelectN(Elementwise):
    """Takes each element from the operand that the first one names: `cases[which]`.

    `which` is an integer, or bool with two cases: False for the first, True for the second. An integer out of range
    names the nearest case.
    """

    name: ClassVar[str] = "select_n"
    accepts: ClassVar[Dtypes] = MOVABLE
    function: ClassVar[NumPyFunction] = numpy_values.select

    def __call__(self, ctx: Context[V], which: V, *cases: V) -> V:
        return ctx.bind(self, which, *cases)[0]

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return (range(1, arity),)

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        if len(avals) < 2:
            raise TypingError(f"{self.name} needs a selector and at least one case, got {len(avals)} operands")
        which, *cases = avals
        check_dtype(f"the selector of {self.name}", which.dtype, BITS)
        if which.dtype == BOOL and len(cases) > 2:
            raise TypingError(f"{self.name} with a bool selector has at most 2 cases, got {len(cases)}")
        dtype = common_dtype(self.name, cases)
        check_dtype(self.name, dtype, self.accepts)
        weak = dtype != BOOL and all(case.weak_type for case in cases)
        return (array_type(common_shape(self.name, avals), dtype, weak),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return kernels.selection(avals[0], avals[1:])

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        outs = ctx.bind(self, *primals)
        aval = ctx.aval(outs[0])
        moving = [t for t in tangents[1:] if not isinstance(t, Zero)]
        if not moving:
            return outs, [Zero(aval.tangent)]
        if all(t is moving[0] for t in tangents[1:]):  # whichever is chosen
            return outs, [broadcast_scalar(ctx, moving[0], aval.shape)]
        zero = constant_like(ctx, moving[0], 0)
        cases = [zero if isinstance(t, Zero) else t for t in tangents[1:]]
        return outs, [broadcast_scalar(ctx, ctx.bind(self, primals[0], *cases)[0], aval.shape)]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (which, *cases) = cotangents, args
        if isinstance(which, UndefPrimal):
            raise LinearityError(f"{self.name} is linear in its cases, but not in the selector")
        if isinstance(ct, Zero):
            return [None] * len(args)
        zero = constant_like(ctx, ct, 0)
        results: list[V | Zero | None] = [None]
        for i, case in enumerate(cases):
            if not isinstance(case, UndefPrimal):
                results.append(None)
                continue
            if ctx.aval(which).dtype != BOOL:
                part = select(ctx, eq(ctx, which, constant_like(ctx, which, i)), ct, zero)
            else:
                part = select(ctx, which, ct, zero) if i else select(ctx, which, zero, ct)
            results.append(unbroadcast(ctx, part, case.aval.shape))
        return results


@final
@frozen
class Clamp(Elementwise):
    """`min(max(low, x), high)`, for operands in this order: low, x, high."""

    name: ClassVar[str] = "clamp"
    accepts: ClassVar[Dtypes] = SUPPORTED
    arity: ClassVar[int] = 3
    function: ClassVar[NumPyFunction] = numpy_values.clamp
    of_floats: ClassVar[NumPyFunction | None] = numpy_values.clamp_floats
    of_complex: ClassVar[NumPyFunction | None] = complex_values.clamp

    def __call__(self, ctx: Context[V], low: V, x: V, high: V) -> V:
        return ctx.bind(self, low, x, high)[0]

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        low, x, high = primals
        t_low, t_x, t_high = tangents
        outs = ctx.bind(self, low, x, high)
        aval = ctx.aval(outs[0])
        parts: list[V] = []
        if not isinstance(t_low, Zero):
            at_low = logical_and(ctx, gt(ctx, low, x), lt(ctx, low, high))
            parts.append(select(ctx, at_low, t_low, constant_like(ctx, t_low, 0)))
        if not isinstance(t_x, Zero):
            inside = logical_and(ctx, gt(ctx, x, low), lt(ctx, x, high))
            parts.append(select(ctx, inside, t_x, constant_like(ctx, t_x, 0)))
        if not isinstance(t_high, Zero):
            parts.append(select(ctx, lt(ctx, high, x), t_high, constant_like(ctx, t_high, 0)))
        if not parts:
            return outs, [Zero(aval.tangent)]
        total = parts[0]
        for part in parts[1:]:
            total = add(ctx, total, part)
        return outs, [broadcast_scalar(ctx, total, aval.shape)]


# The vocabulary.

select_n: Final = SelectN()
clamp: Final = Clamp()


def select(ctx: Context[V], predicate: V, on_true: V, on_false: V) -> V:
    """`on_true` where the predicate holds, `on_false` elsewhere."""
    return select_n(ctx, predicate, on_false, on_true)
