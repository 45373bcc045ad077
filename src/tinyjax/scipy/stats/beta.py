"""The beta distribution of shapes a and b, between loc and loc + scale."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special import entropies, gammas
from tinyjax.scipy.special.promoted import prepared_for_numbers
from tinyjax.scipy.stats.arguments import outside, standard
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x, -inf where there is none.

    >>> logpdf(0.5, 2.0, 3.0)
    Array(0.40546511, dtype=float64, weak_type=True)
    """
    y, width, first, second = standard("beta.logpdf", x, loc, scale, a, b)
    within = (y >= 0) & (y <= 1)
    safe = tnp.where(within, y, 0.5)
    powers = entropies.xlogy(first - 1, safe) + entropies.xlog1py(second - 1, -safe)
    value = powers - gammas.betaln(first, second) - lax.log(width)
    value = tnp.where(within, value, outside(y, -math.inf))
    return tnp.where((first > 0) & (second > 0) & (width > 0), value, math.nan)


@prepared_for_numbers
def pdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x.

    >>> pdf(0.5, 2.0, 3.0)
    Array(1.5, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, a, b, loc, scale))


@prepared_for_numbers
def cdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5, 2.0, 3.0)
    Array(0.6875, dtype=float64, weak_type=True)
    """
    y, _, first, second = standard("beta.cdf", x, loc, scale, a, b)
    outside = _outside(y, first, second)
    inner = lax.betainc(first, second, tnp.where(outside, 0.5, y))
    return tnp.where(outside, tnp.where(y < 0, 0, 1), inner)


@prepared_for_numbers
def logcdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5, 2.0, 3.0)
    Array(-0.37469345, dtype=float64, weak_type=True)
    """
    return lax.log(cdf(x, a, b, loc, scale))


@prepared_for_numbers
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5, 2.0, 3.0)
    Array(0.3125, dtype=float64, weak_type=True)
    """
    y, _, first, second = standard("beta.sf", x, loc, scale, a, b)
    outside = _outside(y, first, second)
    inner = lax.betainc(second, first, 1 - tnp.where(outside, 0.5, y))
    return tnp.where(outside, tnp.where(y < 0, 1, 0), inner)


@prepared_for_numbers
def logsf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5, 2.0, 3.0)
    Array(-1.16315081, dtype=float64, weak_type=True)
    """
    return lax.log(sf(x, a, b, loc, scale))


def _outside(y: Array, first: Array, second: Array) -> Array:
    """Where the distribution has no density, though it is one."""
    return ((y < 0) | (y > 1)) & (first > 0) & (second > 0)
