"""Bounds of elementwise functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final, TypeAlias, final

from attrs import frozen

from tinyjax.interpreters.base import RuleContext, register_all
from tinyjax.interpreters.hidden import Hidden
from tinyjax.interpreters.intervals import (
    INTERVAL_RULES,
    Interval,
    Parent,
    outward,
    real,
    replace_nan,
    slack,
    unless_overflow,
    whole,
)
from tinyjax.ir.dtypes import FLOATS, INTEGERS, UNSIGNED
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.result_types import result_types
from tinyjax.primitives.arithmetic import Abs, IntegerPow, Max, Min, Square, abs_, div, integer_pow, max_, min_
from tinyjax.primitives.bitwise import MulHi, logical_and, logical_not, logical_or
from tinyjax.primitives.comparison import eq, ge, gt, le, lt
from tinyjax.primitives.elementwise import Add, Binary, Mul, Neg, Smooth, Sub, add, mul, neg, scale, sub
from tinyjax.primitives.exponential import Cbrt, Exp, Exp2, Expm1, Log, Log1p, Logistic, Pow, Rsqrt, Sqrt, pow_
from tinyjax.primitives.incomplete import RegularizedIncompleteBeta
from tinyjax.primitives.rounding import Ceil, Floor, Round, Sign, ceil, floor, is_finite
from tinyjax.primitives.selection import Clamp, select
from tinyjax.primitives.special import Erf, Erfc, ErfInv
from tinyjax.primitives.structure import constant_like, full
from tinyjax.primitives.trigonometric import (
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atan2,
    Atanh,
    Cos,
    Cosh,
    Sin,
    Sinh,
    Tan,
    Tanh,
    cos,
    cosh,
    sin,
    tan,
)

Ctx: TypeAlias = RuleContext[Interval, bool]
Rule: TypeAlias = Callable[[Primitive, Ctx, Sequence[Interval]], Sequence[Interval]]
INF: Final = math.inf
#: How many units in the last place functions may be off, on any of the machines that compute them.
ULPS: Final = 16.0


@final
@frozen
class Monotone:
    """A function that never falls (or never rises), where it is defined, and how far its values go."""

    rising: bool = True
    domain: tuple[float, float] = (-INF, INF)
    range: tuple[float, float] = (-INF, INF)


_MONOTONE: Final[dict[type[Primitive], Monotone]] = {
    Exp: Monotone(range=(0, INF)),
    Exp2: Monotone(range=(0, INF)),
    Expm1: Monotone(range=(-1, INF)),
    Log: Monotone(domain=(0, INF)),
    Log1p: Monotone(domain=(-1, INF)),
    Logistic: Monotone(range=(0, 1)),
    Sqrt: Monotone(domain=(0, INF), range=(0, INF)),
    Rsqrt: Monotone(rising=False, domain=(0, INF), range=(0, INF)),
    Cbrt: Monotone(),
    Tanh: Monotone(range=(-1, 1)),
    Atanh: Monotone(domain=(-1, 1)),
    Sinh: Monotone(),
    Asinh: Monotone(),
    Acosh: Monotone(domain=(1, INF), range=(0, INF)),
    Asin: Monotone(domain=(-1, 1)),
    Acos: Monotone(rising=False, domain=(-1, 1), range=(0, INF)),
    Atan: Monotone(),
    Erf: Monotone(range=(-1, 1)),
    Erfc: Monotone(rising=False, range=(0, 2)),
    ErfInv: Monotone(domain=(-1, 1)),
}


def _monotone(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    p, (x,), known = ctx.parent, args, _MONOTONE[type(primitive)]
    ends = [clip(p, end, known.domain) for end in ((x.lower, x.upper) if known.rising else (x.upper, x.lower))]
    lower, upper = (p.bind(primitive, end)[0] for end in ends)
    return [_within(p, outward(p, lower, upper, ULPS), known.range)]


def clip(p: Parent, x: Hidden, limits: tuple[float, float]) -> Hidden:
    """x, moved to the nearest of these limits if it is beyond."""
    low, high = limits
    x = x if low == -INF else max_(p, x, constant_like(p, x, low))
    return x if high == INF else min_(p, x, constant_like(p, x, high))


def _within(p: Parent, x: Interval, limits: tuple[float, float]) -> Interval:
    return Interval(clip(p, x.lower, limits), clip(p, x.upper, limits))


def exact(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """A primitive that rises with all operands and doesn't round. Points stay points."""
    p = ctx.parent
    lowers = p.bind(primitive, *[arg.lower for arg in args])
    if all(arg.point for arg in args):
        return [Interval(out, out) for out in lowers]
    return list(map(Interval, lowers, p.bind(primitive, *[arg.upper for arg in args])))


# Sums and products.


def wrapping(rule: Rule) -> Rule:
    """The rule, which holds for real numbers, for integers too: where results may overflow, they may be anything."""

    def guarded(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
        outs = rule(primitive, ctx, args)
        if ctx.aval(outs[0]).dtype not in INTEGERS:
            return outs
        exactly = rule(primitive, ctx, [real(ctx.parent, arg) for arg in args])
        return [unless_overflow(ctx.parent, out, bound) for out, bound in zip(outs, exactly, strict=True)]

    return guarded


@INTERVAL_RULES.register(Neg)
@wrapping
def _neg(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x,) = args
    return [Interval(neg(ctx.parent, x.upper), neg(ctx.parent, x.lower))]


@INTERVAL_RULES.register(Add)
@wrapping
def _add(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x, y), p = args, ctx.parent
    return [outward(p, add(p, x.lower, y.lower), add(p, x.upper, y.upper))]


@INTERVAL_RULES.register(Sub)
@wrapping
def _sub(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x, y), p = args, ctx.parent
    return [outward(p, sub(p, x.lower, y.upper), sub(p, x.upper, y.lower))]


def corners(p: Parent, primitive: Primitive, x: Interval, y: Interval, nan: float | None = None) -> Interval:
    """The least and the greatest value at the corners: bounds of what is monotone in each operand, the other fixed."""
    xs = [x.lower] if x.point else [x.lower, x.upper]
    ys = [y.lower] if y.point else [y.lower, y.upper]
    found = [p.bind(primitive, a, b)[0] for a in xs for b in ys]
    if nan is not None and p.aval(found[0]).dtype in FLOATS:
        found = [replace_nan(p, value, constant_like(p, value, nan)) for value in found]
    return Interval(reduce(lambda a, b: min_(p, a, b), found), reduce(lambda a, b: max_(p, a, b), found))


def _product(p: Parent, x: Interval, y: Interval) -> Interval:
    found = corners(p, mul, x, y, nan=0)  # 0 times an infinite bound: no number is infinite
    return outward(p, found.lower, found.upper)


@INTERVAL_RULES.register(Mul)
@wrapping
def _mul(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    return [_product(ctx.parent, *args)]


@INTERVAL_RULES.register(MulHi)
def _mulhi(primitive: MulHi, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    x, y = args
    return [corners(ctx.parent, primitive, x, y)]


def quotient(p: Parent, x: Interval, y: Interval) -> Interval:
    zero = constant_like(p, y.lower, 0)
    # A bound that is zero is one from the side where the numbers are.
    low = select(p, eq(p, y.lower, zero), zero, y.lower)
    high = select(p, eq(p, y.upper, zero), constant_like(p, y.upper, -0.0), y.upper)
    found = corners(p, div, x, Interval(low, high), nan=0)
    found = outward(p, found.lower, found.upper)
    one_sided = logical_or(p, ge(p, y.lower, zero), le(p, y.upper, zero))
    return Interval(
        select(p, one_sided, found.lower, constant_like(p, found.lower, -INF)),
        select(p, one_sided, found.upper, constant_like(p, found.upper, INF)),
    )


def remainder(p: Parent, x: Interval, y: Interval) -> Interval:
    """No larger than either operand, with the sign of the first."""
    largest = min_(p, magnitude(p, x).upper, magnitude(p, y).upper)
    zero = constant_like(p, largest, 0)
    below, above = lt(p, x.lower, zero), gt(p, x.upper, zero)
    return Interval(select(p, below, neg(p, largest), zero), select(p, above, largest, zero))


# Even functions, and powers.


def magnitude(p: Parent, x: Interval) -> Interval:
    """Bounds of the absolute value."""
    if p.aval(x.lower).dtype in UNSIGNED:
        return x
    if x.point:
        return Interval(*p.bind(abs_, x.lower) * 2)
    smallest = max_(p, max_(p, x.lower, neg(p, x.upper)), constant_like(p, x.lower, 0))
    return Interval(smallest, max_(p, abs_(p, x.lower), abs_(p, x.upper)))


@INTERVAL_RULES.register(Abs)
@wrapping
def _abs(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    return [magnitude(ctx.parent, args[0])]


@INTERVAL_RULES.register(Square)
@wrapping
def _square(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    return [_power(ctx.parent, args[0], 2)]


@INTERVAL_RULES.register(Cosh)
def _cosh(primitive: Cosh, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    p, x = ctx.parent, magnitude(ctx.parent, args[0])
    lower, upper = (cosh(p, end) for end in (x.lower, x.upper))
    return [_within(p, outward(p, lower, upper, ULPS), (1, INF))]


def _power(p: Parent, x: Interval, n: int) -> Interval:
    if n % 2 == 0:
        x = magnitude(p, x)
    lower, upper = (integer_pow(p, end, n) for end in (x.lower, x.upper))
    found = outward(p, lower, upper, ULPS + n)
    return _within(p, found, (0, INF)) if n % 2 == 0 else found


@INTERVAL_RULES.register(IntegerPow)
@wrapping
def _integer_pow(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    p, n = ctx.parent, primitive.y if isinstance(primitive, IntegerPow) else 1
    if n == 0:
        return exact(primitive, ctx, args)
    power = _power(p, args[0], abs(n))
    if n > 0:
        return [power]
    one = constant_like(p, power.lower, 1)
    return [quotient(p, Interval(one, one), power)]


@INTERVAL_RULES.register(Pow)
def _pow(primitive: Pow, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Of a base that may be negative nothing is known, but for that of whole powers that are known `integer_pow` is."""
    (x, y), p = args, ctx.parent
    positive = _within(p, x, (0, INF))
    found = corners(p, pow_, positive, y, nan=1)
    found = _within(p, outward(p, found.lower, found.upper, ULPS), (0, INF))
    safe = ge(p, x.lower, constant_like(p, x.lower, 0))
    return [
        Interval(
            select(p, safe, found.lower, constant_like(p, found.lower, -INF)),
            select(p, safe, found.upper, constant_like(p, found.upper, INF)),
        )
    ]


# Periodic functions.


def _meets(p: Parent, x: Interval, first: float, period: float) -> Hidden:
    """Whether one of the points `first + k * period` may be between the bounds."""
    margins = [slack(p, add(p, abs_(p, end), constant_like(p, end, 1)), ULPS) for end in (x.lower, x.upper)]
    low, high = sub(p, x.lower, margins[0]), add(p, x.upper, margins[1])
    turns = [scale(p, sub(p, end, constant_like(p, end, first)), 1 / period) for end in (low, high)]
    met = ge(p, floor(p, turns[1]), ceil(p, turns[0]))
    unbounded = logical_not(p, logical_and(p, is_finite(p, low), is_finite(p, high)))
    return logical_or(p, met, unbounded)


def _wave(p: Parent, primitive: Primitive, x: Interval, crest: float) -> Interval:
    one = constant_like(p, x.lower, 1)
    ends = [p.bind(primitive, end)[0] for end in (x.lower, x.upper)]
    between = outward(p, min_(p, *ends), max_(p, *ends), ULPS)
    upper = select(p, _meets(p, x, crest, math.tau), one, between.upper)
    lower = select(p, _meets(p, x, crest + math.pi, math.tau), neg(p, one), between.lower)
    return _within(p, Interval(lower, upper), (-1, 1))


@INTERVAL_RULES.register(Sin)
def _sin(primitive: Sin, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    return [_wave(ctx.parent, sin, args[0], math.pi / 2)]


@INTERVAL_RULES.register(Cos)
def _cos(primitive: Cos, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    return [_wave(ctx.parent, cos, args[0], 0.0)]


@INTERVAL_RULES.register(Tan)
def _tan(primitive: Tan, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x,), p = args, ctx.parent
    found = outward(p, tan(p, x.lower), tan(p, x.upper), ULPS)
    pole = _meets(p, x, math.pi / 2, math.pi)
    infinity = constant_like(p, x.lower, INF)
    return [Interval(select(p, pole, neg(p, infinity), found.lower), select(p, pole, infinity, found.upper))]


@INTERVAL_RULES.register(Atan2)
def _atan2(primitive: Atan2, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """On the right half-plane the angle is monotone in each coordinate; elsewhere it may be any."""
    (y, x), p = args, ctx.parent
    found = corners(p, primitive, y, x)
    found = outward(p, found.lower, found.upper, ULPS)
    right = gt(p, x.lower, constant_like(p, x.lower, 0))
    half = constant_like(p, found.upper, 3.15)
    return [Interval(select(p, right, found.lower, neg(p, half)), select(p, right, found.upper, half))]


def _smooth(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Of a function of which nothing is said, nothing is known but its type."""
    p = ctx.parent
    (aval,) = result_types(primitive, [p.aval(arg.lower) for arg in args])
    like = full(p, aval, 0)
    return [whole(p, Interval(like, like))]


register_all(INTERVAL_RULES, _monotone, tuple(_MONOTONE))
register_all(INTERVAL_RULES, _smooth, (Smooth, Binary, RegularizedIncompleteBeta))
register_all(INTERVAL_RULES, exact, (Max, Min, Clamp, Floor, Ceil, Round, Sign))
