"""Lowering rules of reductions other than sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.rules.elementwise import convert
from tinyjax.hlo.rules.narrow import of_wider
from tinyjax.hlo.rules.reducing import (
    Identity,
    ReductionRule,
    all_bits_of,
    array_text,
    one_of,
    reduce,
    reducing,
    zero_of,
)
from tinyjax.hlo.tables import CPU_RULES, RULES
from tinyjax.hlo.text import regions_text, results_text, type_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import (
    COMPLEXES,
    FLOAT32,
    FLOAT64,
    FLOATS,
)
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives import reductions
from tinyjax.primitives.annotations import OptimizationBarrier
from tinyjax.primitives.arithmetic import Max, Min
from tinyjax.primitives.bitwise import logical_and, logical_not, logical_or, logical_xor
from tinyjax.primitives.comparison import Comparison, eq, ge, gt, le, lt, ne
from tinyjax.primitives.conversion import BitcastConvertType
from tinyjax.primitives.elementwise import Elementwise, add, mul
from tinyjax.primitives.prefix_scan import combined
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import reshape
from tinyjax.primitives.structure import Reduction, constant_like, permute


def _in_halves(real: ReductionRule) -> ReductionRule:
    """The rule of the product of complex numbers, in the order in which the host goes. Of real ones the rule `real`."""

    def joined(ctx: Context[SSA], left: SSA, right: SSA) -> SSA:
        return ctx.bind(OptimizationBarrier(), mul(ctx, left, right))[0]

    def rule(
        primitive: Reduction, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        (x,), (out,), axes = args, types, primitive.axes
        if out.dtype not in COMPLEXES or x.aval.size == 0:
            return real(primitive, ctx, args, types)
        kept = tuple(axis for axis in range(x.aval.ndim) if axis not in axes)
        factors = reshape(ctx, permute(ctx, x, axes + kept), (x.aval.size // out.size, *out.shape))
        return (SSA(reshape(ctx, combined(ctx, factors, joined), out.shape).name, out),)

    return rule


RULES[reductions.ReduceProd] = _in_halves(reducing("multiply", mul, one_of, wide=True))
RULES[reductions.ReduceMax] = reducing("maximum", Max(), reductions.lowest)
RULES[reductions.ReduceMin] = reducing("minimum", Min(), reductions.highest)
RULES[reductions.ReduceAnd] = reducing("and", logical_and, all_bits_of)
RULES[reductions.ReduceOr] = reducing("or", logical_or, zero_of)
RULES[reductions.ReduceXor] = reducing("xor", logical_xor, zero_of)


def _reducing_on_cpu(op: str, combine: Elementwise, identity: Identity, first_zero: float) -> ReductionRule:
    """The rule of a maximum or a minimum where XLA hands larger reductions to a library that forgets nan, and the signs
    of zeros. A sum, which is as fast, tells where there may be a nan; only then another reduction looks for it. Where
    devices would have to tell each other whether one has a nan, all look for it."""
    plain = reducing(op, combine, identity)

    def rule(
        primitive: Reduction, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        (x,), (found,) = args, plain(primitive, ctx, args, types)
        if x.aval.dtype not in FLOATS or x.aval.size < _LARGE:
            return (found,)
        if isinstance(primitive, reductions.ReduceMax) and primitive.nan_mode is reductions.NanMode.EITHER:
            return (found,)
        if x.aval.dtype not in _ADDED or ctx.is_divided:
            return (_mended(ctx, x, found, primitive.axes, first_zero),)
        total = reduce(ctx, x, primitive.axes, "add", add, zero_of)
        doubtful = logical_or(ctx, ne(ctx, total, total), eq(ctx, found, constant_like(ctx, found, 0)))
        doubt = reduce(ctx, doubtful, range(found.aval.ndim), "or", logical_or, zero_of)

        def mended(inner: LoweringContext, _: Sequence[SSA]) -> Sequence[SSA]:
            return (_mended(inner, x, found, primitive.axes, first_zero),)

        def as_found(inner: LoweringContext, _: Sequence[SSA]) -> Sequence[SSA]:
            return (found,)

        regions = regions_text(ctx.region((), mended), ctx.region((), as_found))
        operation = f'"stablehlo.if"({doubt.name}) {regions} : ({type_text(doubt.aval)}) -> {type_text(found.aval)}'
        return (ctx.emit(operation, found.aval),)

    return rule


def _mended(ctx: LoweringContext, x: SSA, found: SSA, axes: Sequence[int], first_zero: float) -> SSA:
    """The extreme that was found over axes of x: nan where there is one, and of zeros the one that comes first."""
    bits = BitcastConvertType(np.dtype(f"u{x.aval.dtype.itemsize}"))
    zero, other, nan = (constant_like(ctx, found, value) for value in (first_zero, -first_zero, math.nan))
    is_zero = eq(ctx, ctx.bind(bits, x)[0], ctx.bind(bits, zero)[0])
    flags = convert(ctx, is_zero, array_type(x.aval.shape, _FLAGS))
    flags = select(ctx, ne(ctx, x, x), constant_like(ctx, flags, 2), flags)
    # The greatest, as XLA has no "or" of bytes between devices: nan counts more than a zero.
    seen = reduce(ctx, flags, axes, "maximum", Max(), zero_of)
    signed = select(ctx, eq(ctx, seen, constant_like(ctx, seen, 1)), zero, other)
    number = select(ctx, eq(ctx, found, zero), signed, found)
    return select(ctx, ge(ctx, seen, constant_like(ctx, seen, 2)), nan, number)


#: Reductions of fewer elements than this are right.
_LARGE: Final = 4096
_FLAGS: Final = np.dtype(np.uint8)
#: What XLA adds as fast as it compares. Of others it would take sums of wider numbers.
_ADDED: Final = frozenset({FLOAT32, FLOAT64})

CPU_RULES[reductions.ReduceMax] = _reducing_on_cpu("maximum", Max(), reductions.lowest, 0.0)
CPU_RULES[reductions.ReduceMin] = _reducing_on_cpu("minimum", Min(), reductions.highest, -0.0)


def _position(
    better: Comparison, as_good: Comparison, identity: Identity
) -> Callable[[reductions.Position, LoweringContext, Sequence[SSA], Sequence[ShapedArray]], Sequence[SSA]]:
    """The rule of argmax and argmin: a reduction of the elements together with their indices."""

    def body(ctx: LoweringContext, args: Sequence[SSA]) -> Sequence[SSA]:
        x, i, y, j = args
        # The first among equals wins, and nan, which equals nothing, wins over numbers.
        if x.aval.dtype in FLOATS:
            loses = logical_or(ctx, ctx.bind(as_good, y, x)[0], ne(ctx, y, y))
            wins = logical_not(ctx, loses)
            not_worse = logical_or(ctx, ctx.bind(as_good, x, y)[0], ne(ctx, x, x))
        else:
            (wins,) = ctx.bind(better, x, y)
            not_worse = eq(ctx, x, y)
        taken = logical_or(ctx, wins, logical_and(ctx, not_worse, lt(ctx, i, j)))
        return select(ctx, taken, x, y), select(ctx, taken, i, j)

    def rule(
        primitive: reductions.Position, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        (x,), (out,) = args, types
        (axis,) = primitive.axes
        index = array_type(x.aval.shape, primitive.index_dtype)
        indices = ctx.emit(f"stablehlo.iota dim = {axis} : {type_text(index)}", index)
        initial = ctx.scalar(identity(x.aval.dtype), x.aval.dtype), ctx.scalar(0, primitive.index_dtype)
        scalars = [value.aval for value in initial]
        region = ctx.region((*scalars, *scalars), body)
        best = array_type(out.shape, x.aval.dtype)
        names = ", ".join([value.name for value in (x, indices, *initial)])
        signature = f"{types_text([x.aval, index, *scalars])} -> {results_text([best, out])}"
        operation = f'"stablehlo.reduce"({names}) <{{dimensions = {array_text((axis,))}}}> {region} : {signature}'
        return ctx.emit_many(operation, (best, out))[1:]

    return rule


RULES[reductions.ArgMax] = _position(gt, ge, reductions.lowest)
RULES[reductions.ArgMin] = _position(lt, le, reductions.highest)
for _cls in (reductions.ArgMax, reductions.ArgMin):
    CPU_RULES[_cls] = of_wider(RULES[_cls], 7)
