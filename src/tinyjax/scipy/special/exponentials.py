"""Exponential integrals: by series near zero, by continued fractions and asymptotic series elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.rules.custom_jvp import custom_jvp
from tinyjax.numpy.signatures import Nested
from tinyjax.prepared.functions import prepared_with_loops
from tinyjax.scipy.special.promoted import strong_floats
from tinyjax.tracing.array import Array, ArrayLike

#: How many steps there were, a sum, its last term, and whether to go on.
_State: TypeAlias = tuple[Array, Array, Array, Array]
_EULER: Final = float(np.euler_gamma)
#: More steps than any number needs.
_MOST: Final = 500


def exp1(x: ArrayLike) -> Array:
    """The integral of exp(-x t) / t over t from 1 to infinity; infinite at 0, nan for negative numbers.

    >>> exp1(1.0)
    Array(0.21938393, dtype=float64)
    """
    (found,) = strong_floats("exp1", x)
    return _integral(lax.full_like(found, 1), found)


def expn(n: Nested, x: Nested) -> Array:
    """The integral of exp(-x t) / t**n over t from 1 to infinity, for a whole number n; it has a derivative in x only.

    >>> expn(2, 1.0)
    Array(0.14849551, dtype=float64)
    """
    order, found = tnp.broadcast_arrays(*strong_floats("expn", tnp.asarray(n), tnp.asarray(x)))
    return _integral(lax.stop_gradient(order), found)


@prepared_with_loops
def _integral(n: Array, x: Array) -> Array:
    return _expn(n, x)


@custom_jvp
def _expn(n: Array, x: Array) -> Array:
    one = lax.full_like(x, 1)
    outside = (n < 0) | (x < 0) | (n != lax.floor(n)) | tnp.isnan(x)
    near = x <= 1
    first, far = lax.max(n, one), ~near & (x < math.inf)
    # Where one way isn't taken, it is given numbers that take few steps.
    small, large = tnp.where(near & (x > 0), x, one * 1e-3), tnp.where(far, x, one * 1e3)
    value = tnp.where(near, _near(first, small), _far(tnp.where(far, first, one), large))
    value = tnp.where(n == 0, lax.exp(-x) / x, value)
    value = tnp.where((x == 0) & (n > 1), 1 / lax.max(n - 1, one * 0.5), value)
    value = tnp.where((x == 0) & (n <= 1), one * math.inf, value)
    value = tnp.where((x == math.inf) & ~outside, one * 0, value)
    return tnp.where(outside, one * math.nan, value)


def _going(change: Array, total: Array) -> Array:
    """Where a change of a sum makes a difference. Further steps leave the other sums as they are, to the bit."""
    return lax.abs(change) > lax.abs(total) * (float(tnp.finfo(total.dtype).eps) / 4)


def _near(n: Array, x: Array) -> Array:
    """A power series; in the term where it would divide by zero there is a logarithm instead."""
    zero = lax.full_like(x, 0)
    own_share = lax.digamma(n) - lax.log(x)

    def step(state: _State) -> _State:
        count, total, term, _ = state  # term: (-x)**count / count!
        own = n - 1 == count
        change = term * tnp.where(own, own_share, -1 / tnp.where(own, n, count - n + 1))
        total, term = total + change, term * -x / (count + 1)
        return count + 1, total, term, tnp.any(_going(term, total) | _going(change, total))

    start = (lax.full_like(x, 0, shape=()), zero, zero + 1, tnp.asarray(True))
    return lax.while_loop(lambda state: state[3] & (state[0] < _MOST), step, start)[1]


def _far(n: Array, x: Array) -> Array:
    """A continued fraction, by Steed's method."""
    first = 1 / (x + n)

    def step(state: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array, Array]:
        count, inverse, change, total, _ = state
        numerator = count * (n - 1 + count)
        quotient = numerator * inverse
        inverse = 1 / (x + n + 2 * count - quotient)
        change = quotient * inverse * change
        total = total + change
        return count + 1, inverse, change, total, tnp.any(_going(change, total))

    start = (lax.full_like(x, 1, shape=()), first, first, first, tnp.asarray(True))
    return lax.while_loop(lambda state: state[4] & (state[0] < _MOST), step, start)[3] * lax.exp(-x)


def _expn_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (n, x), (_, t) = primals, tangents
    # The order before 0 has a formula; elsewhere it is given a number where it has derivatives.
    own = (n == 0) & (x >= 0)
    place = tnp.where(own, x, lax.full_like(x, 1))
    before = (1 / place + 1 / (place * place)) * lax.exp(-place)
    return _expn(n, x), -t * tnp.where(own, before, _expn(lax.max(n - 1, lax.full_like(n, 0)), x))


_expn.defjvp(_expn_jvp)


def expi(x: ArrayLike) -> Array:
    """The principal value of the integral of exp(t) / t over t from minus infinity to x; -inf at 0.

    >>> expi(1.0)
    Array(1.89511782, dtype=float64)
    """
    (found,) = strong_floats("expi", x)
    return _principal(found)


@prepared_with_loops
def _principal(x: Array) -> Array:
    return _expi(x)


@custom_jvp
def _expi(x: Array) -> Array:
    one = lax.full_like(x, 1)
    right = x > 0
    middle = right & (x < 40)
    negative = -_expn(one, tnp.where(right, one * 1e-3, -x))
    small, large = tnp.where(middle, x, one * 1e-3), tnp.where(x >= 40, x, one * 1e3)

    def grow(state: _State) -> _State:
        count, total, term, _ = state
        term = term * small / count
        change = term / count
        total = total + change
        return count + 1, total, term, tnp.any(_going(change, total))

    def fall(state: _State) -> _State:
        count, total, term, _ = state
        term = tnp.where(count < large, term * count / large, 0)  # they grow from there on
        total = total + term
        return count + 1, total, term, tnp.any(_going(term, total))

    def summed(step: Callable[[_State], _State], total: Array) -> Array:
        start = (lax.full_like(x, 1, shape=()), total, one, tnp.asarray(True))
        return lax.while_loop(lambda state: state[3] & (state[0] < _MOST), step, start)[1]

    series = summed(grow, one * 0) + lax.log(small) + _EULER
    far = summed(fall, one) * (lax.exp(large) / large)
    value = tnp.where(middle, series, tnp.where(right, far, negative))
    return tnp.where(x == math.inf, x, tnp.where(tnp.isnan(x), x, value))


def _expi_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    return _expi(x), t * lax.exp(x) / x


_expi.defjvp(_expi_jvp)
