"""Bounds of special functions, of products along an axis, and of what happens outside of the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tinyjax.control.callbacks import DebugCallback, IOCallback, PureCallback
from tinyjax.control.exported import CallExported
from tinyjax.control.foreign import FfiCall
from tinyjax.interpreters.base import register_all
from tinyjax.interpreters.hidden import Hidden
from tinyjax.interpreters.interval_rules import ULPS, Ctx, corners, exact
from tinyjax.interpreters.intervals import INTERVAL_RULES, Interval, Parent, chosen, outward, slack, whole, widened
from tinyjax.primitives.arithmetic import NextAfter, abs_, max_, min_
from tinyjax.primitives.bitwise import logical_and
from tinyjax.primitives.checks import Check
from tinyjax.primitives.collectives import AxisIndex
from tinyjax.primitives.comparison import eq, ge, gt, le
from tinyjax.primitives.complex import Complex, Conj, Imag, Real
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.cumulative import CumLogSumExp, CumProd
from tinyjax.primitives.elementwise import add, mul
from tinyjax.primitives.fourier import Fft
from tinyjax.primitives.hidden_state import RngUniform
from tinyjax.primitives.matrices import OfMatrices
from tinyjax.primitives.platforms import PlatformIndex
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import Iota
from tinyjax.primitives.sinks import DceSink
from tinyjax.primitives.slicing import pad
from tinyjax.primitives.special import Digamma, Lgamma, Polygamma
from tinyjax.primitives.structure import constant_like, full
from tinyjax.primitives.threefry import Discrete

# Near a root, values are off by as much as they are elsewhere.


def _rounded(p: Parent, lower: Hidden, upper: Hidden, ulps: float = 16 * ULPS) -> Interval:
    one = constant_like(p, lower, 1)
    below, above = (slack(p, add(p, abs_(p, end), one), ulps) for end in (lower, upper))
    return widened(p, lower, upper, below, above)


def _positive(p: Parent, x: Interval) -> Hidden:
    return gt(p, x.lower, constant_like(p, x.lower, 0))


#: Where the gamma function is least, for positive arguments, and the logarithm of its value there.
_LEAST_AT: Final = 1.4616321449683622
_LEAST: Final = -0.12148629053584961


@INTERVAL_RULES.register(Lgamma)
def _lgamma(primitive: Lgamma, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Of positive numbers it falls to its least value, and rises from there; of others it may be anything."""
    (x,), p = args, ctx.parent
    first, last = (p.bind(primitive, end)[0] for end in (x.lower, x.upper))
    least, at = (constant_like(p, x.lower, value) for value in (_LEAST, _LEAST_AT))
    between = logical_and(p, le(p, x.lower, at), ge(p, x.upper, at))
    lower = min_(p, first, last)
    found = _rounded(p, select(p, between, min_(p, lower, least), lower), max_(p, first, last))
    # Rounding may have moved the least value beyond a bound that is next to it.
    found = Interval(min_(p, found.lower, lower), found.upper)
    return [chosen(p, _positive(p, x), found, whole(p, found))]


@INTERVAL_RULES.register(Digamma)
def _digamma(primitive: Digamma, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x,), p = args, ctx.parent
    lower, upper = (p.bind(primitive, end)[0] for end in (x.lower, x.upper))
    found = _rounded(p, lower, upper)
    return [chosen(p, _positive(p, x), found, whole(p, found))]


@INTERVAL_RULES.register(Polygamma)
def _polygamma(primitive: Polygamma, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Of a known order and positive numbers, it rises or falls throughout."""
    (order, x), p = args, ctx.parent
    ends = Interval(order.lower, order.lower)
    found = corners(p, primitive, ends, x)
    found = _rounded(p, found.lower, found.upper, 64 * ULPS)
    known = logical_and(p, eq(p, order.lower, order.upper), _positive(p, x))
    return [chosen(p, known, found, whole(p, found))]


@INTERVAL_RULES.register(NextAfter)
def _next_after(primitive: NextAfter, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    return [outward(ctx.parent, args[0].lower, args[0].upper, 2)]


# Along an axis.


@INTERVAL_RULES.register(CumProd)
def _cumprod(primitive: CumProd, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Products with what stands one place before, then two, then four, and so on."""
    (x,) = args
    shape, shift = ctx.aval(x).shape, 1
    while shift < shape[primitive.axis]:
        moved = (-shift, shift, 0) if primitive.reverse else (shift, -shift, 0)
        config = tuple(moved if i == primitive.axis else (0, 0, 0) for i in range(len(shape)))
        x = mul(ctx, x, pad(ctx, x, config, 1))
        shift *= 2
    return [x]


@INTERVAL_RULES.register(CumLogSumExp)
def _cumlogsumexp(primitive: CumLogSumExp, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x,), p = args, ctx.parent
    lower, upper = (p.bind(primitive, end)[0] for end in (x.lower, x.upper))
    return [_rounded(p, lower, upper, ULPS + 4 * ctx.aval(x).shape[primitive.axis])]


# Outside of the program.


@INTERVAL_RULES.register(PureCallback)
def _pure_callback(primitive: PureCallback, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Of known arguments, what the function returns; of others, anything."""
    p = ctx.parent
    if all(arg.point for arg in args):
        return exact(primitive, ctx, args)
    outs = [full(p, aval, 0) for aval in primitive.results]
    return [whole(p, Interval(out, out)) for out in outs]


@INTERVAL_RULES.register(DebugCallback)
def _debug_callback(primitive: DebugCallback, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Shows the lower bounds, then the upper ones."""
    return exact(primitive, ctx, args)


register_all(INTERVAL_RULES, exact, (Constant, Iota, AxisIndex, PlatformIndex, DceSink))
_UNORDERED: Final = "complex numbers have no order, so there are no bounds"
for _cls in (Complex, Conj, Imag, Real, Fft):
    INTERVAL_RULES.lacks(_cls, _UNORDERED)
INTERVAL_RULES.lacks(OfMatrices, "bounds of elements say little of what is found for a whole matrix")
INTERVAL_RULES.lacks(Check, "whether one fails depends on values; `checkify` makes a result of it")
INTERVAL_RULES.lacks(IOCallback, "it would be called for arguments that the program may never have")
INTERVAL_RULES.lacks(CallExported, "of the function only the StableHLO is known")
INTERVAL_RULES.lacks(FfiCall, "what a compiled function from elsewhere returns isn't known")
INTERVAL_RULES.lacks(Discrete, "a key is no number, and the bits that it stands for may be any")
INTERVAL_RULES.lacks(RngUniform, "its numbers are other ones each time, also within the bounds' own bounds")
