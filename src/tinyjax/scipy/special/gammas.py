"""Gamma, beta and zeta functions, and what is made of them."""

from __future__ import annotations

import math
from typing import SupportsIndex

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.shaping import integer
from tinyjax.errors import ShapeError, UnsupportedError
from tinyjax.ir.dtypes import COMPLEXES
from tinyjax.prepared.functions import prepared
from tinyjax.primitives import incomplete
from tinyjax.primitives import special as primitives
from tinyjax.scipy.special.integrals import loggamma
from tinyjax.scipy.special.promoted import applied, floats, prepared_for_numbers, strong_floats
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


@prepared_for_numbers
def gammaln(x: ArrayLike) -> Array:
    """The logarithm of the magnitude of the gamma function.

    >>> gammaln(5.0)
    Array(3.17805383, dtype=float64, weak_type=True)
    """
    return applied("gammaln", primitives.lgamma, x)


@prepared
def gammasgn(x: ArrayLike) -> Array:
    """The sign of the gamma function; nan at the negative integers, its poles.

    >>> gammasgn(np.array([0.5, -0.5, -1.5]))
    Array([ 1., -1.,  1.], dtype=float64)
    """
    (found,) = strong_floats("gammasgn", x)
    below = lax.floor(found)
    negative = found < 0
    odd = lax.ne(lax.rem(below, lax.full_like(below, 2)), lax.full_like(below, 0))
    one = lax.full_like(found, 1)
    sign = tnp.where(negative & odd, -one, one)
    sign = tnp.where((found == 0) & tnp.signbit(found), -one, sign)
    return tnp.where((negative & (below == found)) | tnp.isnan(found), lax.full_like(found, math.nan), sign)


@prepared
def gamma(x: ArrayLike) -> Array:
    """The gamma function, of complex numbers too; infinite at 0, with its sign, and nan at the negative integers.
    Complex, it is nan at 0 too.

    >>> import numpy as np
    >>> gamma(np.array([5.0, 0.5, -0.5]))
    Array([24.        ,  1.77245385, -3.5449077 ], dtype=float64)
    """
    given = as_array(x)
    if given.dtype in COMPLEXES:
        real, imag = tnp.real(given), tnp.imag(given)
        pole = (imag == 0) & (real <= 0) & (real == lax.floor(real))
        return tnp.where(pole, complex(math.nan, math.nan), lax.exp(loggamma(tnp.where(pole, 0.5, given))))
    (found,) = floats("gamma", given)
    value = gammasgn(found) * lax.exp(lax.lgamma(found))
    return tnp.where(found == -math.inf, lax.full_like(found, math.nan), value)


@prepared
def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """gamma(n + 1), a float; 0 for negative n. Only `exact=False` is here: integers would overflow.

    >>> factorial(np.array([0, 1, 4]))
    Array([ 1.,  1., 24.], dtype=float64)
    """
    if exact:
        raise UnsupportedError("factorial: integers would overflow, so only exact=False is supported")
    (found,) = floats("factorial", n)
    negative = found < 0
    safe = tnp.where(negative, lax.full_like(found, 0), found)
    return tnp.where(negative, lax.full_like(found, 0), lax.exp(lax.lgamma(safe + 1)))


@prepared
def comb(N: ArrayLike, k: ArrayLike, exact: bool = False, repetition: bool = False) -> Array:
    """In how many ways k of N things can be chosen, a float; with `repetition`, each of them more than once.
    0 where one is negative or k is larger than N. Only `exact=False` is here: integers would overflow.

    >>> comb(np.array([5.0, 2.0]), 2.0)
    Array([10.,  1.], dtype=float64)
    """
    if exact:
        raise UnsupportedError("comb: integers would overflow, so only exact=False is supported")
    things, chosen = floats("comb", N, k)
    if repetition:
        none = chosen == 0
        found = comb(tnp.where(none, things, things + chosen - 1), chosen)
        return tnp.where(none & (things >= 0), lax.full_like(found, 1), found)
    outside = (things < 0) | (chosen < 0) | (chosen > things)
    zero = lax.full_like(things, 0)
    n, m = tnp.where(outside, zero, things), tnp.where(outside, zero, chosen)
    value = lax.exp(lax.lgamma(n + 1) - lax.lgamma(m + 1) - lax.lgamma(n - m + 1))
    return tnp.where(outside, zero, value)


@prepared
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """The rising factorial gamma(z + m) / gamma(z).

    >>> poch(2.0, 3.0)
    Array(24., dtype=float64)
    """
    start, count = floats("poch", z, m)
    sign = gammasgn(start + count) * gammasgn(start)
    value = sign * lax.exp(lax.lgamma(start + count) - lax.lgamma(start))
    # Where there are no factors, also at poles; elsewhere this would hide the derivative in m.
    return tnp.where((count == 0) & tnp.isnan(value), lax.full_like(value, 1), value)


@prepared_for_numbers
def digamma(x: ArrayLike) -> Array:
    """The derivative of `gammaln`.

    >>> digamma(1.0)
    Array(-0.57721566, dtype=float64, weak_type=True)
    """
    return applied("digamma", primitives.digamma, x)


@prepared_for_numbers
def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The n-th derivative of `digamma`.

    >>> polygamma(1, 1.0)
    Array(1.64493407, dtype=float64, weak_type=True)
    """
    return applied("polygamma", primitives.polygamma, n, x)


@prepared
def multigammaln(a: ArrayLike, d: SupportsIndex) -> Array:
    """The logarithm of the multivariate gamma function of dimension d, for a > (d - 1) / 2.

    >>> multigammaln(3.0, 2)
    Array(1.55019499, dtype=float64)
    """
    size = integer(d, "multigammaln: the dimension d")
    found, _ = strong_floats("multigammaln", a, size)  # bools become integers by it
    if size < 1:
        raise ShapeError(f"multigammaln: the dimension d is at least 1, got {size}")
    total = tnp.sum(lax.lgamma(tnp.expand_dims(found, -1) - np.arange(size, dtype=found.dtype) / 2), -1)
    return total + size * (size - 1) / 4 * math.log(math.pi)


@prepared_for_numbers
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """The logarithm of the magnitude of the beta function.

    >>> betaln(2.0, 3.0)
    Array(-2.48490665, dtype=float64, weak_type=True)
    """
    x, y = floats("betaln", a, b)
    less, more = tnp.where(x < y, x, y), tnp.where(x < y, y, x)
    large = (more >= 8) & (less > 0)
    small = lax.lgamma(less) + (lax.lgamma(more) - lax.lgamma(less + more))
    return tnp.where(large, lax.lgamma(less) + _quotient(less, tnp.where(large, more, 8)), small)


def _quotient(a: Array, b: Array) -> Array:
    """The logarithm of gamma(b) / gamma(a + b) for b >= 8, by Stirling's series, where what is equal cancels."""
    both = a + b
    return a - (b - 0.5) * lax.log1p(a / b) - a * lax.log(both) + _stirling(b) - _stirling(both)


def _stirling(x: Array) -> Array:
    inverse = 1 / x
    square = inverse * inverse
    total = square * (-691 / 360360)
    for coefficient in (1 / 1188, -1 / 1680, 1 / 1260, -1 / 360):
        total = (total + coefficient) * square
    return (total + 1 / 12) * inverse


@prepared
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """The beta function: gamma(a) gamma(b) / gamma(a + b).

    >>> beta(2.0, 3.0)
    Array(0.08333333, dtype=float64)
    """
    x, y = floats("beta", a, b)
    return gammasgn(x) * gammasgn(y) * gammasgn(x + y) * lax.exp(betaln(x, y))


@prepared
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function. It has a derivative in x only.

    >>> betainc(2.0, 1.0, 0.5)
    Array(0.25, dtype=float64, weak_type=True)
    """
    return applied("betainc", incomplete.regularized_incomplete_beta, a, b, x)


@prepared_for_numbers
def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function.

    >>> gammainc(1.0, 0.5)
    Array(0.39346934, dtype=float64, weak_type=True)
    """
    return applied("gammainc", incomplete.igamma, a, x)


@prepared_for_numbers
def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized upper incomplete gamma function.

    >>> gammaincc(1.0, 0.5)
    Array(0.60653066, dtype=float64, weak_type=True)
    """
    return applied("gammaincc", incomplete.igammac, a, x)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """The Hurwitz zeta function, or without q Riemann's, for x > 1.

    >>> zeta(2.0)
    Array(1.64493407, dtype=float64, weak_type=True)
    """
    return applied("zeta", primitives.zeta, x, 1.0 if q is None else q)


def bernoulli(n: SupportsIndex) -> Array:
    """The Bernoulli numbers from B0 to Bn, with B1 = -1/2.

    >>> bernoulli(4)
    Array([ 1.        , -0.5       ,  0.16666667,  0.        , -0.03333333], dtype=float64)
    """
    from scipy import special

    count = integer(n, "bernoulli: n")
    if count < 0:
        raise ShapeError(f"bernoulli: n is at least 0, got {count}")
    # SciPy's first ones are off where there are fewer than two.
    return tnp.asarray(np.asarray(special.bernoulli(max(count, 2)))[: count + 1])
