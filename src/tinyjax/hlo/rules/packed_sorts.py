"""Sorting on CPUs, where XLA calls a comparator of floats, or of several operands, once for each comparison, but sorts
one array of integers by a loop that is compiled for it, several times as fast.

A key of up to 32 bits and the position of its element are one integer of 64 bits:

    sort(key, values)  →  order = sort(key << 32 | position) & 0xffffffff;  key[order], values[order]

So it is stable, and elements are moved as they are: zeros of either sign are equal keys, and so are all nans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.rules.elementwise import convert
from tinyjax.hlo.rules.narrow import of_wider
from tinyjax.hlo.tables import CPU_RULES, RULES
from tinyjax.hlo.text import regions_text, type_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
    INTEGERS,
    UINT32,
    DType,
    bits,
    integer_limits,
)
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.bitwise import logical_and, logical_or, logical_xor, shift_left
from tinyjax.primitives.comparison import eq, gt, lt
from tinyjax.primitives.conversion import BitcastConvertType
from tinyjax.primitives.elementwise import sub
from tinyjax.primitives.gather import permuted
from tinyjax.primitives.reductions import reduce_or
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import Iota, iota
from tinyjax.primitives.sorting import Sort
from tinyjax.primitives.structure import constant_like

#: Floats of which the bits are compared, and the bits of infinity.
_INFINITY: Final = {FLOAT16: 0x7C00, BFLOAT16: 0x7F80, FLOAT32: 0x7F800000, FLOAT64: 0x7FF0000000000000}
_KEYS: Final = frozenset({BOOL, *INTEGERS, *_INFINITY})
#: The bits of a position.
_PLACES: Final = 2**32 - 1
#: The key of -0.0 before it is that of 0.0.
_NEGATIVE_ZERO: Final = -1


@CPU_RULES.register(Sort)
def _sort(primitive: Sort, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    """By integers, if it is by one key, and XLA wouldn't do so by itself."""
    x, axis = args[0], primitive.dimension
    aval, dtype = x.aval, x.aval.dtype
    alone, is_float = len(args) == 1, dtype in _INFINITY
    known = dtype in _KEYS and primitive.num_keys == 1 and 0 < aval.shape[axis] <= _PLACES
    narrow = any(bits(arg.aval.dtype) < 8 for arg in args if arg.aval.dtype != BOOL)
    if not known or narrow or ctx.is_divided or not (is_float if alone else dtype.itemsize <= 4):
        return of_wider(RULES[Sort], 7)(primitive, ctx, args, types)
    if dtype.itemsize > 4:
        return (_alone(primitive, ctx, x),)
    order = _order(ctx, x, axis)
    return [_followed(ctx, arg, order, axis) for arg in args]


def _followed(ctx: LoweringContext, x: SSA, order: SSA, axis: int) -> SSA:
    """The elements of x in this order of positions, which is what an iota becomes."""
    match ctx.made.get(x.name):
        case (Iota(dimension=along), _) if along == axis and x.aval.dtype in INTEGERS:
            return convert(ctx, order, x.aval)
        case _:
            return permuted(ctx, x, order, axis)


def _order(ctx: LoweringContext, x: SSA, axis: int) -> SSA:
    """The positions that the elements come from."""
    dtype, words = x.aval.dtype, array_type(x.aval.shape, INT64)
    key = convert(ctx, _with_one_zero(ctx, _key(ctx, x)) if dtype in _INFINITY else x, words)
    if dtype == UINT32:
        key = sub(ctx, key, ctx.scalar(2**31, INT64))
    key = shift_left(ctx, key, ctx.scalar(32, INT64))
    (packed,) = ctx.bind(Sort(axis, False), logical_or(ctx, key, iota(ctx, INT64, words.shape, axis)))
    return logical_and(ctx, packed, ctx.scalar(_PLACES, INT64))


def _alone(primitive: Sort, ctx: LoweringContext, x: SSA) -> SSA:
    """Floats as wide as what would be packed, in order: with their positions only where their keys don't tell them
    apart, which is where there is a nan, or a -0.0."""
    key = _key(ctx, x)
    greatest = constant_like(ctx, key, integer_limits(_integer(x.aval.dtype))[1])
    alike = logical_or(ctx, eq(ctx, key, constant_like(ctx, key, _NEGATIVE_ZERO)), eq(ctx, key, greatest))
    some = reduce_or(ctx, alike, tuple(range(x.aval.ndim)))

    def with_positions(inner: LoweringContext, _: Sequence[SSA]) -> Sequence[SSA]:
        places = iota(inner, INT64, x.aval.shape, primitive.dimension)
        order = inner.bind(primitive, _with_one_zero(inner, key), places)[1]
        return (permuted(inner, x, order, primitive.dimension),)

    def by_keys(inner: LoweringContext, _: Sequence[SSA]) -> Sequence[SSA]:
        return (_number(inner, inner.bind(primitive, key)[0], x.aval.dtype),)

    regions = regions_text(ctx.region((), with_positions), ctx.region((), by_keys))
    return ctx.emit(f'"stablehlo.if"({some.name}) {regions} : ({type_text(some.aval)}) -> {type_text(x.aval)}', x.aval)


def _integer(dtype: DType) -> DType:
    return np.dtype(f"i{dtype.itemsize}")


def _key(ctx: LoweringContext, x: SSA) -> SSA:
    """Integers in the order of floats, nan last: their bits, all but the sign turned if there is one."""
    dtype = x.aval.dtype
    (word,) = ctx.bind(BitcastConvertType(_integer(dtype)), x)
    greatest = constant_like(ctx, word, integer_limits(_integer(dtype))[1])
    size = logical_and(ctx, word, greatest)
    key = select(ctx, lt(ctx, word, constant_like(ctx, word, 0)), logical_xor(ctx, word, greatest), word)
    return select(ctx, gt(ctx, size, constant_like(ctx, word, _INFINITY[dtype])), greatest, key)


def _with_one_zero(ctx: LoweringContext, key: SSA) -> SSA:
    is_other = eq(ctx, key, constant_like(ctx, key, _NEGATIVE_ZERO))
    return select(ctx, is_other, constant_like(ctx, key, 0), key)


def _number(ctx: LoweringContext, key: SSA, dtype: DType) -> SSA:
    """The floats that have these keys."""
    greatest = constant_like(ctx, key, integer_limits(_integer(dtype))[1])
    word = select(ctx, lt(ctx, key, constant_like(ctx, key, 0)), logical_xor(ctx, key, greatest), key)
    return ctx.bind(BitcastConvertType(dtype), word)[0]
