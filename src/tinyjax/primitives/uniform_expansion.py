"""The incomplete gamma function P(a, x) for large a and x not far from it: Temme's uniform expansion.

With x = (1 + m) a and e ** 2 / 2 = m - log(1 + m), where e has the sign of m,

    P = erfc(-e sqrt(a / 2)) / 2 - f(e sqrt(a)) / sqrt(a) * (c0(e) + c1(e) / a + c2(e) / a ** 2 + ...)

where f is the density of the normal distribution. Power series and continued fractions need about sqrt(a) steps there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar

from tinyjax.primitives.exponential import exp, log1p, sqrt
from tinyjax.primitives.formulas import Number
from tinyjax.primitives.numpy_values import resolution
from tinyjax.primitives.special import erfc
from tinyjax.primitives.wanted import Wanted

V = TypeVar("V")
_Row: TypeAlias = tuple[float, ...]
#: From which a on it is used, and where |m| < 1/2: then |e| is less than this.
LARGE: Final = 1000.0
_WIDEST: Final = 0.63
_TERMS: Final = 28


@functools.cache
def _coefficients(eps: float) -> tuple[tuple[_Row, ...], _Row]:
    """Those of c0, c1, ... in powers of e, as far as they matter; and of the series in 1 / a of gamma(a), divided by
    Stirling's leading term.

    m solves m m' = e (1 + m); c0 = 1 / m - 1 / e, and c(k) = c(k - 1)' / e + g(k) / m, where g(k) takes the pole away.
    """
    count = _TERMS + 12
    m = [Fraction(0), Fraction(1)]
    for n in range(2, count + 2):
        known = sum((m[i] * m[n + 1 - i] * (n + 1 - i) for i in range(2, n)), Fraction(0))
        m.append((m[n - 1] - known) / (n + 1))
    inverse = [Fraction(1)]  # of m / e
    for n in range(1, count + 1):
        inverse.append(-sum((inverse[i] * m[n - i + 1] for i in range(n)), Fraction(0)))
    rows, signs = [inverse[1:]], [Fraction(1)]
    while len(rows) < 6:
        last = rows[-1]
        pole = -last[1]
        signs.append(pole)
        rows.append([(n + 2) * last[n + 2] + pole * inverse[n + 1] for n in range(len(last) - 2)])
    least = eps / 64
    kept = []
    for k, row in enumerate(rows):
        sizes = [abs(float(c)) * _WIDEST**n * max(n, 1) / LARGE**k for n, c in enumerate(row[:_TERMS])]
        size = max((n + 1 for n, found in enumerate(sizes) if found > least), default=0)
        kept.append(tuple(map(float, row[:size])))
    stirling = tuple(float(s * (-1) ** k) for k, s in enumerate(signs))
    return tuple(row for row in kept if row), stirling


def _polynomial(x: Number[V], coefficients: Sequence[float]) -> Number[V]:
    found = x.like(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        found = found * x + coefficient
    return found


def _derivative(row: _Row) -> _Row:
    return tuple(n * c for n, c in enumerate(row))[1:] or (0.0,)


def _excess(m: Number[V]) -> Number[V]:
    """(m - log(1 + m)) / m ** 2, without cancellation: log(1 + m) is 2 atanh(s) with s = m / (2 + m)."""
    s = m / (m + 2.0)
    # m - 2 s = m s, and m / s = 2 + m
    odd = _polynomial(s * s, [1 / (2 * n + 3) for n in range(16)])
    return (1.0 - s * odd * 2.0 / (m + 2.0)) / (m + 2.0)


def uniform(a: Number[V], x: Number[V], want: Wanted, *, upper: bool) -> Number[V]:
    """P(a, x), or 1 - P if `upper`, or a derivative."""
    rows, stirling = _coefficients(resolution(x.ctx.aval(x.value).dtype))
    m = (x - a) / a
    slant = (_excess(m) * 2.0).of(sqrt)  # e / m
    e = m * slant
    inverse = 1.0 / a
    sums = _polynomial_of(inverse, [_polynomial(e, row) for row in rows])
    exponent = e * e * a * 0.5
    density = (-exponent).of(exp) / math.sqrt(2 * math.pi)
    root = a.of(sqrt)
    if want is Wanted.VALUE:
        y = e * root * math.sqrt(0.5)
        rest = density / root * sums
        return y.of(erfc) * 0.5 + rest if upper else (-y).of(erfc) * 0.5 - rest
    moved = _polynomial_of(inverse, [_polynomial(e, _derivative(row)) for row in rows]) / slant
    lower = _polynomial_of(inverse, [_polynomial(e, row) * float(k) for k, row in enumerate(rows)])
    bracket = e * 0.5 - 1.0 / slant - sums * (m.of(log1p) - inverse * 0.5) + (moved + lower) * inverse
    if want is Wanted.SLOPE:
        return density / root * bracket
    return -(x / a * _polynomial(inverse, stirling) * bracket)


def _polynomial_of(x: Number[V], coefficients: Sequence[Number[V]]) -> Number[V]:
    found = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        found = found * x + coefficient
    return found
