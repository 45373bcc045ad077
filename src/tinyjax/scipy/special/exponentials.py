"""Exponential integrals: by series near zero, by continued fractions and asymptotic series elsewhere."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.rules.custom_jvp import custom_jvp
from tinyjax.scipy.special.promoted import floats
from tinyjax.tracing.array import Array, ArrayLike

_EULER: Final = float(np.euler_gamma)
#: Steps that suffice for float64, at the ends of the ranges where each way is taken.
_SERIES, _FRACTION, _LONG_SERIES, _ASYMPTOTIC = 30, 120, 140, 40


def exp1(x: ArrayLike) -> Array:
    """The integral of exp(-x t) / t over t from 1 to infinity; infinite at 0, nan for negative numbers.

    >>> exp1(1.0)
    Array(0.21938393, dtype=float64)
    """
    (found,) = floats("exp1", x)
    return _expn(lax.full_like(found, 1), found)


def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The integral of exp(-x t) / t**n over t from 1 to infinity, for a whole number n; it has a derivative in x only.

    >>> expn(2, 1.0)
    Array(0.14849551, dtype=float64)
    """
    order, found = floats("expn", n, x)
    return _expn(lax.stop_gradient(order), found)


@custom_jvp
def _expn(n: Array, x: Array) -> Array:
    one = lax.full_like(x, 1)
    outside = (n < 0) | (x < 0) | (n != lax.floor(n)) | tnp.isnan(x)
    near = x <= 1
    first = lax.max(n, one)
    value = tnp.where(near, _near(first, tnp.where(near & (x > 0), x, one)), _far(first, tnp.where(near, one, x)))
    value = tnp.where(n == 0, lax.exp(-x) / x, value)
    value = tnp.where((x == 0) & (n > 1), 1 / lax.max(n - 1, one * 0.5), value)
    value = tnp.where((x == 0) & (n <= 1), one * math.inf, value)
    value = tnp.where((x == math.inf) & ~outside, one * 0, value)
    return tnp.where(outside, one * math.nan, value)


def _near(n: Array, x: Array) -> Array:
    """A power series; in the term where it would divide by zero there is a logarithm instead."""
    zero = lax.full_like(x, 0)

    def step(m: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        total, term = state  # term: (-x)**m / m!
        count = lax.convert_element_type(m, x.dtype)
        own = n - 1 == count
        share = tnp.where(own, lax.digamma(n) - lax.log(x), -1 / tnp.where(own, n, count - n + 1))
        return total + term * share, term * -x / (count + 1)

    return lax.fori_loop(0, _SERIES, step, (zero, zero + 1))[0]


def _far(n: Array, x: Array) -> Array:
    """A continued fraction, by Lentz's method."""
    one = lax.full_like(x, 1)
    d = 1 / (x + n)

    def step(i: Array, state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        b, c, d, total = state
        count = lax.convert_element_type(i, x.dtype)
        a, b = -count * (n - 1 + count), b + 2
        d, c = 1 / (a * d + b), b + a / c
        return b, c, d, total * (c * d)

    total = lax.fori_loop(1, _FRACTION, step, (x + n, one / float(np.finfo(np.float32).tiny), d, d))[3]
    return total * lax.exp(-x)


def _expn_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (n, x), (_, t) = primals, tangents
    return _expn(n, x), -t * _expn(lax.max(n - 1, lax.full_like(n, 0)), x)


_expn.defjvp(_expn_jvp)


def expi(x: ArrayLike) -> Array:
    """The principal value of the integral of exp(t) / t over t from minus infinity to x; -inf at 0.

    >>> expi(1.0)
    Array(1.89511782, dtype=float64)
    """
    (found,) = floats("expi", x)
    return _expi(found)


@custom_jvp
def _expi(x: Array) -> Array:
    one = lax.full_like(x, 1)
    right = x > 0
    middle = right & (x < 40)
    negative = -_expn(one, tnp.where(right, one, -x))
    small, large = tnp.where(middle, x, one), tnp.where(x >= 40, x, one * 40)

    def grow(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        total, term = state
        count = lax.convert_element_type(k, x.dtype)
        term = term * small / count
        return total + term / count, term

    def fall(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        total, term = state
        term = term * lax.convert_element_type(k, x.dtype) / large
        return total + term, term

    series = lax.fori_loop(1, _LONG_SERIES, grow, (one * 0, one))[0] + lax.log(small) + _EULER
    far = lax.fori_loop(1, _ASYMPTOTIC, fall, (one, one))[0] * (lax.exp(large) / large)
    value = tnp.where(middle, series, tnp.where(right, far, negative))
    return tnp.where(x == math.inf, x, tnp.where(tnp.isnan(x), x, value))


def _expi_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    return _expi(x), t * lax.exp(x) / x


_expi.defjvp(_expi_jvp)
