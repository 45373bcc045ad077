"""Bounds of what is done to integers: division, bits and shifts. What may overflow is in `interval_rules`."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.interpreters.base import register_all
from tinyjax.interpreters.hidden import Hidden
from tinyjax.interpreters.interval_rules import Ctx, corners, quotient, remainder
from tinyjax.interpreters.intervals import INTERVAL_RULES, Interval, Parent, chosen, real, unless_overflow, whole
from tinyjax.ir.dtypes import BOOL, FLOATS, SIGNED
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives.arithmetic import Div, Rem, div, max_, min_
from tinyjax.primitives.bitwise import (
    And,
    Clz,
    Not,
    Or,
    PopulationCount,
    Shift,
    ShiftLeft,
    ShiftRightLogical,
    Xor,
    clz,
    logical_and,
    logical_not,
    logical_or,
    shift_right_logical,
)
from tinyjax.primitives.comparison import ge, gt, le, lt
from tinyjax.primitives.conversion import BitcastConvertType
from tinyjax.primitives.elementwise import mul, neg, sub
from tinyjax.primitives.exponential import exp2
from tinyjax.primitives.reductions import ReduceAnd, ReduceOr, ReduceXor, reduce_max, reduce_min
from tinyjax.primitives.selection import select
from tinyjax.primitives.structure import broadcast_scalar, constant_like, full

# Division. A divisor of zero gives all bits for a quotient, and leaves the dividend for a remainder.


@INTERVAL_RULES.register(Div)
def _div(primitive: Div, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    floating = ctx.aval(args[0]).dtype in FLOATS
    return [(quotient if floating else _divided)(ctx.parent, *args)]


def _divided(p: Parent, x: Interval, y: Interval) -> Interval:
    """The quotient, rounded towards zero."""
    found = corners(p, div, x, y)
    # The least integer divided by -1 overflows.
    one_sided = logical_and(p, logical_not(p, _contains(p, y, 0)), _no_overflow(p, x, y))
    return chosen(p, one_sided, found, whole(p, found))


def _no_overflow(p: Parent, x: Interval, y: Interval) -> Hidden:
    dtype = p.aval(x.lower).dtype
    if dtype not in SIGNED:
        return ge(p, x.upper, x.lower)
    least = constant_like(p, x.lower, -(1 << (8 * dtype.itemsize - 1)))
    return logical_or(p, gt(p, x.lower, least), logical_not(p, _contains(p, y, -1)))


def _contains(p: Parent, x: Interval, value: int) -> Hidden:
    """Whether a number is between the bounds."""
    at = constant_like(p, x.lower, value)
    return logical_and(p, le(p, x.lower, at), ge(p, x.upper, at))


@INTERVAL_RULES.register(Rem)
def _rem(primitive: Rem, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    floating = ctx.aval(args[0]).dtype in FLOATS
    return [(remainder if floating else _remaining)(ctx.parent, *args)]


def _remaining(p: Parent, x: Interval, y: Interval) -> Interval:
    """The remainder: it has the sign of the dividend, is no further from zero, and nearer than the divisor."""
    zero, one = constant_like(p, x.lower, 0), constant_like(p, y.lower, 1)
    largest = sub(p, y.upper, one)
    if p.aval(y.lower).dtype in SIGNED:
        largest = max_(p, largest, logical_not(p, y.lower))  # ~y is -y - 1
    low, high = min_(p, x.lower, zero), max_(p, x.upper, zero)
    nearer = Interval(max_(p, low, neg(p, largest)), min_(p, high, largest))
    if p.aval(y.lower).dtype not in SIGNED:
        nearer = Interval(max_(p, low, zero), nearer.upper)
    # What is nearer to zero than any divisor is left as it is.
    found = chosen(p, _inside(p, x, y), x, nearer)
    return chosen(p, _contains(p, y, 0), Interval(low, high), found)


def _inside(p: Parent, x: Interval, y: Interval) -> Hidden:
    """Whether dividends are certainly nearer to zero than divisors, where both are positive."""
    zero = constant_like(p, x.lower, 0)
    return logical_and(p, ge(p, x.lower, zero), lt(p, x.upper, y.lower))


# Bits.


@INTERVAL_RULES.register(Not)
def _not(primitive: Not, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Of truth values and of integers: it falls with its operand."""
    (x,), p = args, ctx.parent
    return [Interval(logical_not(p, x.upper), logical_not(p, x.lower))]


def _bitwise(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """No more bits than the operands have. What isn't negative on one side bounds an `and`, and on both an `or`."""
    (x, y), p = args, ctx.parent
    if ctx.aval(x).dtype == BOOL:
        return [corners(p, primitive, x, y)]
    largest = _filled(p, max_(p, _farthest(p, x), _farthest(p, y)))
    signed = ctx.aval(x).dtype in SIGNED
    zero = constant_like(p, x.lower, 0)
    found = Interval(logical_not(p, largest) if signed else zero, largest)
    natural = [ge(p, operand.lower, zero) for operand in (x, y)]
    both = logical_and(p, *natural)
    if isinstance(primitive, And):
        either = logical_or(p, *natural)
        for operand, is_natural in zip((x, y), natural, strict=True):
            found = Interval(found.lower, select(p, is_natural, min_(p, found.upper, operand.upper), found.upper))
        return [Interval(select(p, either, zero, found.lower), found.upper)]
    least = max_(p, x.lower, y.lower) if isinstance(primitive, Or) else zero
    return [Interval(select(p, both, least, found.lower), found.upper)]


def _farthest(p: Parent, x: Interval) -> Hidden:
    """The greatest of the numbers, and of the complements of those that are negative."""
    return max_(p, x.upper, logical_not(p, x.lower)) if p.aval(x.lower).dtype in SIGNED else x.upper


def _filled(p: Parent, x: Hidden) -> Hidden:
    """x with all bits below its highest one set."""
    shift, width = 1, 8 * p.aval(x).dtype.itemsize
    while shift < width:
        x = logical_or(p, x, shift_right_logical(p, x, constant_like(p, x, shift)))
        shift *= 2
    return x


@INTERVAL_RULES.register(PopulationCount)
def _population_count(primitive: PopulationCount, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x,), p = args, ctx.parent
    bits = 8 * ctx.aval(x).dtype.itemsize
    zero, count = (constant_like(p, x.lower, value) for value in (0, bits))
    some = logical_not(p, _contains(p, x, 0))
    # No more than there are up to the highest bit.
    highest = sub(p, count, clz(p, _farthest(p, x)))
    upper = select(p, ge(p, x.lower, zero), highest, count)
    return [Interval(select(p, some, full(p, p.aval(x.lower), 1), zero), upper)]


@INTERVAL_RULES.register(Clz)
def _clz(primitive: Clz, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """It falls from zero on; negative numbers have none."""
    (x,), p = args, ctx.parent
    zero, count = (constant_like(p, x.lower, value) for value in (0, 8 * ctx.aval(x).dtype.itemsize))
    low, high = (p.bind(primitive, end)[0] for end in (x.upper, x.lower))
    natural = ge(p, x.lower, zero)
    all_negative = lt(p, x.upper, zero)
    below = select(p, all_negative, broadcast_scalar(p, zero, p.aval(low).shape), count)
    return [Interval(select(p, natural, low, zero), select(p, natural, high, below))]


@INTERVAL_RULES.register(ReduceXor)
def _reduce_xor(primitive: ReduceXor, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """No more bits than the operands have."""
    (x,), p = args, ctx.parent
    return [_reduced(p, x, primitive.axes)]


def _reduced(p: Parent, x: Interval, axes: tuple[int, ...]) -> Interval:
    if p.aval(x.lower).dtype == BOOL:
        some = reduce_max(p, x.upper, axes)
        return Interval(logical_and(p, some, logical_not(p, some)), some)
    largest = _filled(p, reduce_max(p, _farthest(p, x), axes))
    zero = constant_like(p, largest, 0)
    if p.aval(x.lower).dtype not in SIGNED:
        return Interval(broadcast_scalar(p, zero, p.aval(largest).shape), largest)
    natural = ge(p, reduce_min(p, x.lower, axes), zero)
    return Interval(select(p, natural, zero, logical_not(p, largest)), largest)


def _reduce_bits(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Of truth values both rise; of integers, no more bits than the operands have."""
    (x,), p = args, ctx.parent
    if ctx.aval(x).dtype == BOOL:
        return [Interval(*[p.bind(primitive, end)[0] for end in (x.lower, x.upper)])]
    return [_reduced(p, x, primitive.axes)] if isinstance(primitive, ReduceAnd | ReduceOr) else []


@INTERVAL_RULES.register(BitcastConvertType)
def _bitcast(primitive: BitcastConvertType, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Anything, as the order of numbers isn't that of their bits."""
    (out,) = ctx.parent.bind(primitive, args[0].lower)
    return [whole(ctx.parent, Interval(out, out))]


# Shifts, by amounts that are read as unsigned.


def _shift(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Multiplied or divided by a power of two; by an amount that may be out of range, anything."""
    (x, amount), p = args, ctx.parent
    found = corners(p, primitive, x, amount)
    limit = constant_like(p, amount.lower, 8 * ctx.aval(x).dtype.itemsize)
    fits = lt(p, amount.upper, limit)
    if ctx.aval(amount).dtype in SIGNED:
        fits = logical_and(p, fits, ge(p, amount.lower, constant_like(p, amount.lower, 0)))
    if isinstance(primitive, ShiftLeft):
        by = real(p, amount)
        powers = Interval(*[exp2(p, end) for end in (by.lower, by.upper)])
        found = unless_overflow(p, found, corners(p, mul, real(p, x), powers, nan=0))
    elif ctx.aval(x).dtype not in SIGNED or isinstance(primitive, ShiftRightLogical):
        # A sign bit is like others where zeros come in, and like no other where it is repeated.
        bit = constant_like(p, x.lower, (1 << (8 * ctx.aval(x).dtype.itemsize - 1)) - 1)
        zero = constant_like(p, x.lower, 0)
        plain = logical_and(p, ge(p, x.lower, zero), le(p, x.upper, bit))
        fits = logical_and(p, fits, plain)
    return [chosen(p, fits, found, whole(p, found))]


register_all(INTERVAL_RULES, _bitwise, (And, Or, Xor))
register_all(INTERVAL_RULES, _reduce_bits, (ReduceAnd, ReduceOr))
register_all(INTERVAL_RULES, _shift, (Shift,))
