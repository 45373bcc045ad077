"""The gamma distribution of shape a and scale scale, from loc on."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special import entropies
from tinyjax.scipy.special.promoted import prepared_for_numbers
from tinyjax.scipy.stats.arguments import from_zero, outside, standard
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x, -inf where there is none.

    >>> logpdf(0.5, 2.0)
    Array(-1.19314718, dtype=float64, weak_type=True)
    """
    y, width, shape = standard("gamma.logpdf", x, loc, scale, a)
    within = y >= 0
    safe = tnp.where(within, y, 1)
    value = entropies.xlogy(shape - 1, safe) - safe - lax.lgamma(shape) - lax.log(width)
    return tnp.where(within, value, outside(y, -math.inf))


@prepared_for_numbers
def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x.

    >>> pdf(0.5, 2.0)
    Array(0.30326533, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, a, loc, scale))


@prepared_for_numbers
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5, 2.0)
    Array(0.09020401, dtype=float64, weak_type=True)
    """
    y, _, shape = standard("gamma.cdf", x, loc, scale, a)
    return from_zero(lax.igamma, shape, y, 0)


@prepared_for_numbers
def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5, 2.0)
    Array(-2.40568139, dtype=float64, weak_type=True)
    """
    return lax.log(cdf(x, a, loc, scale))


@prepared_for_numbers
def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5, 2.0)
    Array(0.90979599, dtype=float64, weak_type=True)
    """
    y, _, shape = standard("gamma.sf", x, loc, scale, a)
    return from_zero(lax.igammac, shape, y, 1)


@prepared_for_numbers
def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5, 2.0)
    Array(-0.09453489, dtype=float64, weak_type=True)
    """
    return lax.log(sf(x, a, loc, scale))
