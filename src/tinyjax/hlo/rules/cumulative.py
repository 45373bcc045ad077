"""Lowering rules of cumulative reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tinyjax.hlo.context import SSA, Body, LoweringContext
from tinyjax.hlo.rules.elementwise import convert
from tinyjax.hlo.rules.reducing import (
    Identity,
    array_text,
    beyond,
    combining,
    negative_zero_of,
    one_of,
    widened,
)
from tinyjax.hlo.tables import RULES
from tinyjax.hlo.text import type_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import (
    COMPLEXES,
    DType,
    Scalar,
)
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives import cumulative, reductions
from tinyjax.primitives.annotations import OptimizationBarrier
from tinyjax.primitives.arithmetic import Max, Min
from tinyjax.primitives.cumulative import Cumulative
from tinyjax.primitives.elementwise import add, mul
from tinyjax.primitives.prefix_scan import prefixes
from tinyjax.primitives.shaping import rev

CumulativeRule: TypeAlias = Callable[
    [Cumulative, LoweringContext, Sequence[SSA], Sequence[ShapedArray]], Sequence[SSA]
]  # fmt: skip


def _cumulating(body: Body, identity: Identity, wide: bool = False) -> CumulativeRule:
    """The rule of a cumulative reduction: a window as long as the axis ends, or starts, at each element.

    XLA rewrites these windows to a tree of shorter ones, so the cost isn't quadratic.
    """

    def rule(
        primitive: Cumulative, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        (x,), (out,), axis = args, types, primitive.axis
        if out.size == 0:
            return (SSA(x.name, out),)
        x = widened(ctx, x) if wide else x
        scalar = array_type((), x.aval.dtype)
        before = out.shape[axis] - 1
        padding = [[0, 0] for _ in out.shape]
        padding[axis] = [0, before] if primitive.reverse else [before, 0]
        window = [1] * out.ndim
        window[axis] = out.shape[axis]
        attributes = f"window_dimensions = {array_text(window)}, padding = dense<{padding}> : tensor<{out.ndim}x2xi64>"
        initial = ctx.scalar(identity(scalar.dtype), scalar.dtype).name
        region = ctx.region((scalar, scalar), body)
        signature = f"{types_text([x.aval, scalar])} -> {type_text(x.aval)}"
        operation = f'"stablehlo.reduce_window"({x.name}, {initial}) <{{{attributes}}}> {region} : {signature}'
        return (convert(ctx, ctx.emit(operation, x.aval), out),)

    return rule


def _lowest(dtype: DType) -> Scalar:
    return beyond(reductions.lowest(dtype), array_type((1,), dtype))


def _highest(dtype: DType) -> Scalar:
    return beyond(reductions.highest(dtype), array_type((1,), dtype))


def _logaddexp(ctx: LoweringContext, args: Sequence[SSA]) -> Sequence[SSA]:
    x, y = args
    return (cumulative.logaddexp(ctx, x, y),)


def _in_pairs(combine: Callable[[Context[SSA], SSA, SSA], SSA], real: CumulativeRule) -> CumulativeRule:
    """The rule of a cumulative reduction of complex numbers in the order in which the host goes: in another one, what
    isn't finite becomes another number. Of real ones the rule `real`."""

    def joined(ctx: Context[SSA], left: tuple[SSA, ...], right: tuple[SSA, ...]) -> tuple[SSA, ...]:
        # Each level once: XLA would compute them anew in those that follow.
        return ctx.bind(OptimizationBarrier(), combine(ctx, *left, *right))

    def rule(
        primitive: Cumulative, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        (x,), turned = args, (primitive.axis,) if primitive.reverse else ()
        if x.aval.dtype not in COMPLEXES:
            return real(primitive, ctx, args, types)
        (found,) = prefixes(ctx, (rev(ctx, x, turned),), primitive.axis, joined)
        return (SSA(rev(ctx, found, turned).name, types[0]),)

    return rule


RULES[cumulative.CumSum] = _cumulating(combining(add), negative_zero_of, wide=True)
RULES[cumulative.CumProd] = _in_pairs(mul, _cumulating(combining(mul), one_of, wide=True))
RULES[cumulative.CumMax] = _cumulating(combining(Max()), _lowest)
RULES[cumulative.CumMin] = _cumulating(combining(Min()), _highest)
RULES[cumulative.CumLogSumExp] = _in_pairs(cumulative.logaddexp, _cumulating(_logaddexp, reductions.lowest, wide=True))
