"""Bounds of comparisons, choices and conversions.

A truth value that isn't known is the interval from False to True: its bounds say whether it is certainly true, and
whether it is possibly true.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tinyjax.interpreters.base import register_all
from tinyjax.interpreters.hidden import Hidden
from tinyjax.interpreters.interval_rules import Ctx, exact
from tinyjax.interpreters.intervals import INTERVAL_RULES, Interval, Parent, outward, real, unless_overflow
from tinyjax.ir.dtypes import BOOL, INTEGERS
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives.arithmetic import (
    max_,
    min_,
)
from tinyjax.primitives.bitwise import logical_and, logical_not, logical_or
from tinyjax.primitives.comparison import Eq, Ge, Gt, Le, Lt, Ne, eq, ge, le, lt
from tinyjax.primitives.conversion import ConvertElementType
from tinyjax.primitives.reductions import highest, lowest
from tinyjax.primitives.rounding import IsFinite, is_finite
from tinyjax.primitives.selection import SelectN, select
from tinyjax.primitives.structure import constant_like

# Comparisons: certainly true, and possibly true.


def _less(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x, y), p = args, ctx.parent
    return [Interval(p.bind(primitive, x.upper, y.lower)[0], p.bind(primitive, x.lower, y.upper)[0])]


def _greater(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x, y), p = args, ctx.parent
    return [Interval(p.bind(primitive, x.lower, y.upper)[0], p.bind(primitive, x.upper, y.lower)[0])]


register_all(INTERVAL_RULES, _less, (Lt, Le))
register_all(INTERVAL_RULES, _greater, (Gt, Ge))


@INTERVAL_RULES.register(Eq)
def _eq(primitive: Eq, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x, y), p = args, ctx.parent
    certain = logical_and(p, ge(p, x.lower, y.upper), le(p, x.upper, y.lower))
    return [Interval(certain, logical_and(p, le(p, x.lower, y.upper), ge(p, x.upper, y.lower)))]


@INTERVAL_RULES.register(Ne)
def _ne(primitive: Ne, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (equal,) = _eq(eq, ctx, args)
    return [_negated(ctx.parent, equal)]


def _negated(p: Parent, x: Interval) -> Interval:
    return Interval(logical_not(p, x.upper), logical_not(p, x.lower))


@INTERVAL_RULES.register(IsFinite)
def _is_finite(primitive: IsFinite, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x,), p = args, ctx.parent
    low, high = is_finite(p, x.lower), is_finite(p, x.upper)
    return [Interval(logical_and(p, low, high), logical_or(p, logical_or(p, low, high), lt(p, x.lower, x.upper)))]


# Choices and conversions.


@INTERVAL_RULES.register(SelectN)
def _select(primitive: SelectN, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (which, *cases), p = args, ctx.parent
    return [hull(p, [possible(p, which, i, len(cases)) for i in range(len(cases))], cases)]


def possible(p: Parent, which: Interval, i: int, count: int) -> Hidden:
    """Whether a selector may name case i. One out of range names the nearest."""
    if p.aval(which.lower).dtype == BOOL:
        return which.upper if i else logical_not(p, which.lower)
    at = constant_like(p, which.lower, i)
    below, above = le(p, which.lower, at), ge(p, which.upper, at)
    if count == 1:
        return logical_or(p, below, above)
    return below if i == 0 else above if i == count - 1 else logical_and(p, below, above)


def hull(p: Parent, chosen: Sequence[Hidden], cases: Sequence[Interval]) -> Interval:
    """Bounds of all the cases that may be chosen."""
    dtype = p.aval(cases[0].lower).dtype
    top, bottom = (constant_like(p, cases[0].lower, value) for value in (highest(dtype), lowest(dtype)))
    lowers = [select(p, may, case.lower, top) for may, case in zip(chosen, cases, strict=True)]
    uppers = [select(p, may, case.upper, bottom) for may, case in zip(chosen, cases, strict=True)]
    return Interval(reduce(lambda a, b: min_(p, a, b), lowers), reduce(lambda a, b: max_(p, a, b), uppers))


@INTERVAL_RULES.register(ConvertElementType)
def _convert(primitive: ConvertElementType, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x,), p = args, ctx.parent
    if primitive.new_dtype == BOOL:
        zero = constant_like(p, x.lower, 0)
        return _ne(Ne(), ctx, [x, Interval(zero, zero)])
    (found,) = exact(primitive, ctx, args)
    source = p.aval(x.lower).dtype
    if source in (primitive.new_dtype, BOOL):
        return [found]
    if primitive.new_dtype in INTEGERS:
        return [unless_overflow(p, found, real(p, x))]
    return [outward(p, found.lower, found.upper)]
