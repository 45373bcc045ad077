"""How the incomplete gamma and beta functions are computed: by power series, and by continued fractions.

For elements that are done, steps go on without effect until all are.
"""

from __future__ import annotations

import math
from typing import Final, TypeVar

from tinyjax.ir.dtypes import FLOAT64
from tinyjax.primitives.arithmetic import abs_
from tinyjax.primitives.exponential import exp, log, log1p
from tinyjax.primitives.formula_slopes import slope_in_first
from tinyjax.primitives.formulas import Formula, Loop, Number, Numbers
from tinyjax.primitives.numpy_values import resolution
from tinyjax.primitives.special import digamma, lgamma
from tinyjax.primitives.uniform_expansion import LARGE, uniform
from tinyjax.primitives.wanted import Wanted

V = TypeVar("V")

#: After so many steps a continued fraction is taken as it is.
_MOST_STEPS: Final = 2000


def _resolution(x: Number[V]) -> float:
    return resolution(x.ctx.aval(x.value).dtype)


def _largest_logarithm(x: Number[V]) -> float:
    return 709.78 if x.ctx.aval(x.value).dtype == FLOAT64 else 88.72


def _by_series(
    loop: Loop[V], a: Number[V], x: Number[V], active: Number[V], want: Wanted
) -> tuple[Number[V], Number[V]]:
    """The sum of x**n / ((a + 1) … (a + n)), and its derivative in a, or zero where that isn't asked for."""
    eps, sloped = _resolution(x), want is not Wanted.VALUE

    def step(carry: Numbers[V], constants: Numbers[V]) -> Numbers[V]:
        (active, count, term, total, *slopes), (a, x) = carry, constants
        count = count + 1.0
        r = a + count
        ratio = x / r
        next_term = term * ratio
        sums = [active.where(total + next_term, total)]
        if not sloped:
            return [active & (next_term > sums[0] * eps), count, next_term, *sums]
        term_slope, slope = slopes
        next_slope = term_slope * ratio - next_term / r
        sums.append(active.where(slope + next_slope, slope))
        going = active & (next_slope.of(abs_) > sums[1].of(abs_) * eps)
        return [going, count, next_term, sums[0], next_slope, sums[1]]

    one, zero = a.like(1), a.like(0)
    start = [active, a.number(0), one, one, *([zero, zero] if sloped else [])]
    found = loop(start, [a, x], lambda carry: carry[0].any(), step)
    return found[3], found[5] if sloped else zero


def _by_fraction(
    loop: Loop[V], a: Number[V], x: Number[V], active: Number[V], want: Wanted
) -> tuple[Number[V], Number[V]]:
    """What 1 - P is after x**(a - 1) exp(-x) / gamma(a), and its derivative in a, or zero where that isn't asked for.

    x / (b + 1 (a - 1) / (b + 2 + 2 (a - 2) / (b + 4 + …))) with b = x + 1 - a, forwards by Steed's method: `inverse` is
    one over the n-th denominator, at most 1 / (n + 1) for x > a, and `change` what the n-th fraction adds.
    """
    eps, sloped = _resolution(x), want is not Wanted.VALUE

    def step(carry: Numbers[V], constants: Numbers[V]) -> Numbers[V]:
        (active, count, inverse, change, total, *slopes), (a, b) = carry, constants
        count = count + 1.0
        numerator = (a - count) * count
        quotient = numerator * inverse
        next_inverse = 1.0 / (b + count * 2.0 + quotient)
        ratio = -(quotient * next_inverse)
        next_change = ratio * change
        total = active.where(total + next_change, total)
        going = active & (count < _MOST_STEPS)
        if not sloped:
            going = going & (next_change.of(abs_) > total.of(abs_) * eps)
            return [going, count, next_inverse, next_change, total]
        inverse_slope, change_slope, slope = slopes
        quotient_slope = count * inverse + numerator * inverse_slope
        next_inverse_slope = next_inverse * next_inverse * (1.0 - quotient_slope)
        ratio_slope = -(quotient_slope * next_inverse + quotient * next_inverse_slope)
        next_slope = ratio_slope * change + ratio * change_slope
        slope = active.where(slope + next_slope, slope)
        going = going & (next_slope.of(abs_) > eps)
        return [going, count, next_inverse, next_change, total, next_inverse_slope, next_slope, slope]

    b = x + 1.0 - a
    inverse, first = 1.0 / b, x / b
    slopes = [inverse * inverse, first * inverse, first * inverse] if sloped else []
    start = [active, a.number(0), inverse, first, first, *slopes]
    found = loop(start, [a, b], lambda carry: carry[0].any(), step)
    return found[4], found[7] if sloped else x.like(0)


def _gamma(loop: Loop[V], a: Number[V], x: Number[V], want: Wanted, *, upper: bool = False) -> Number[V]:
    """P(a, x), or 1 - P if `upper`, or a derivative: for positive a and x, and not beyond the smallest numbers."""
    inside = (x > 0.0) & (a > 0.0) & (x < math.inf) & (a < math.inf)
    one = x.like(1)
    # Where one way isn't taken, it is given numbers that it can do with.
    near = inside & (a > LARGE) & ((x - a).of(abs_) < a * 0.5)
    expanded = uniform(near.where(a, one * LARGE), near.where(x, one * LARGE), want, upper=upper)
    a, x = near.where(one, a), near.where(one, x)
    if want is Wanted.SAMPLE:  # its limit, where a is so large that the loops would overflow
        far = inside & (a > 1 / _resolution(x))
        logarithm = x.of(log) - a.of(log)
        limit = logarithm / a * x / (far.where(x / a, one * 2.0) - 1.0)
        expanded, near = far.where(limit, expanded), near | far
        a, x = far.where(one, a), far.where(one, x)
    return near.where(expanded, _by_loops(loop, a, x, inside & ~near, want, upper=upper))


def _by_loops(loop: Loop[V], a: Number[V], x: Number[V], active: Number[V], want: Wanted, *, upper: bool) -> Number[V]:
    fraction = (x > 1.0) & (x > a)
    # By gamma(a + 1) = a gamma(a), which is finite for the smallest a.
    logarithm = a * x.of(log) - x - (a + 1.0).of(lgamma)
    if want is not Wanted.SAMPLE:
        active = active & (logarithm >= -_largest_logarithm(x))
    one = x.like(1)
    series, series_slope = _by_series(loop, a, fraction.where(one, x), active & ~fraction, want)
    rest, rest_slope = _by_fraction(loop, a, fraction.where(x, one), active & fraction, want)
    root = (logarithm * 0.5).of(exp)  # its square would be lost where what it multiplies is large
    if want is Wanted.VALUE:
        below, above = series * root * root, rest * a / x * root * root
        found = fraction.where(above, 1.0 - below) if upper else fraction.where(1.0 - above, below)
        return (found < 0.0).where(one * 0.0, found)
    slope = x.of(log) - (a + 1.0).of(digamma)  # that of the logarithm
    below, above = series * slope + series_slope, rest * (slope * a + 1.0) + rest_slope * a
    if want is Wanted.SAMPLE:
        return fraction.where(above, -(below * x)) / a
    return fraction.where(-(above / x * root * root), below * root * root)


def lower_gamma(loop: Loop[V], *args: Number[V]) -> Number[V]:
    """P(a, x)."""
    a, x = args
    found = _gamma(loop, a, x, Wanted.VALUE)
    found = (x.equals(0.0) | a.equals(math.inf)).where(x.like(0), found)
    found = (x.equals(math.inf) | a.equals(0.0)).where(x.like(1), found)
    return _outside(a, x).where(x.like(math.nan), found)


def upper_gamma(loop: Loop[V], *args: Number[V]) -> Number[V]:
    """1 - P(a, x)."""
    a, x = args
    found = _gamma(loop, a, x, Wanted.VALUE, upper=True)
    found = (x.equals(0.0) | a.equals(math.inf)).where(x.like(1), found)
    found = (x.equals(math.inf) | a.equals(0.0)).where(x.like(0), found)
    return _outside(a, x).where(x.like(math.nan), found)


def _outside(a: Number[V], x: Number[V]) -> Number[V]:
    both = (a.equals(0.0) & x.equals(0.0)) | (a.equals(math.inf) & x.equals(math.inf))
    return both | (x < 0.0) | (a < 0.0) | a.is_nan() | x.is_nan()


def gamma_slope(loop: Loop[V], *args: Number[V]) -> Number[V]:
    """The derivative of P(a, x) in a."""
    return _of_slope(loop, *args, want=Wanted.SLOPE)


def sample_slope(loop: Loop[V], *args: Number[V]) -> Number[V]:
    """The derivative in a of a sample x."""
    return _of_slope(loop, *args, want=Wanted.SAMPLE)


def sample_derivative(order: int) -> Formula:
    """The derivative of this order, in a, of that slope."""
    formula: Formula = sample_slope
    for _ in range(order):
        formula = slope_in_first(formula)
    return formula


def _of_slope(loop: Loop[V], a: Number[V], x: Number[V], *, want: Wanted) -> Number[V]:
    found = _gamma(loop, a, x, want)
    found = x.equals(0.0).where(x.like(0), found)
    return ((x < 0.0) | (a <= 0.0) | a.is_nan() | x.is_nan()).where(x.like(math.nan), found)


def beta(loop: Loop[V], *args: Number[V]) -> Number[V]:
    """The part of the beta distribution of shapes a and b that is below x: a continued fraction for x, or for 1 - x
    where that one is found sooner."""
    a, b, x = args
    direct = x < (a + 1.0) / (a + b + 2.0)
    p, q, y = direct.where(a, b), direct.where(b, a), direct.where(x, 1.0 - x)
    inside = (a > 0.0) & (b > 0.0) & (x > 0.0) & (x < 1.0) & (a < math.inf) & (b < math.inf)
    one = x.like(1)
    p, q, y = inside.where(p, one), inside.where(q, one), inside.where(y, one * 0.5)
    logs = p * y.of(log) + q * (-y).of(log1p) + (p + q).of(lgamma) - q.of(lgamma)
    # gamma(p + 1) = p gamma(p) is finite for the smallest p.
    factor = (logs - (p + 1.0).of(lgamma)).of(exp)
    found = factor * _beta_fraction(loop, p, q, y)
    return beta_edges(a, b, x, direct.where(found, 1.0 - found))


def beta_edges(a: Number[V], b: Number[V], x: Number[V], inside: Number[V]) -> Number[V]:
    """The values at the ends of the distribution, and where it has become a point."""
    at_start = a.equals(0.0) | b.equals(math.inf)
    at_end = b.equals(0.0) | a.equals(math.inf)
    below, above = x.equals(0.0), x.equals(1.0)
    found = ((at_end & ~above) | below).where(x.like(0), inside)
    found = ((at_start & ~below) | above).where(x.like(1), found)
    wrong = (a < 0.0) | (b < 0.0) | (x < 0.0) | (x > 1.0) | a.is_nan() | b.is_nan() | x.is_nan()
    return (wrong | (at_start & at_end)).where(x.like(math.nan), found)


def _beta_fraction(loop: Loop[V], a: Number[V], b: Number[V], x: Number[V]) -> Number[V]:
    """1 / (1 + d1 / (1 + d2 / (1 + …))), by Lentz's method, two d at a step."""
    wide = x.ctx.aval(x.value).dtype == FLOAT64
    eps, most = _resolution(x) / 2, 300 if wide else 100

    def nonzero(v: Number[V]) -> Number[V]:
        return (v.of(abs_) < eps).where(v.like(eps), v)

    def step(carry: Numbers[V], constants: Numbers[V]) -> Numbers[V]:
        (_, m, c, d, h), (a, b, x) = carry, constants
        m = m + 1.0
        twice = a + m * 2.0
        even = m * (b - m) * x / ((twice - 1.0) * twice)
        odd = -((a + m) * (a + b + m) * x / (twice * (twice + 1.0)))
        change = h
        for numerator in (even, odd):
            d = 1.0 / nonzero(numerator * d + 1.0)
            c = nonzero(numerator / c + 1.0)
            change = d * c
            h = h * change
        going = (change - 1.0).of(abs_) >= eps
        return [going & (m < most), m, c, d, h]

    d = 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0))
    found = loop([x.equals(x), x.like(0), x.like(1), d, d], [a, b, x], lambda carry: carry[0].any(), step)
    return found[4]
