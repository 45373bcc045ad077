"""The Cauchy distribution around loc, of half width scale."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special.promoted import floats, prepared_for_numbers
from tinyjax.scipy.stats.arguments import standard
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x.

    >>> logpdf(0.5)
    Array(-1.36787344, dtype=float64, weak_type=True)
    """
    y, width = standard("cauchy.logpdf", x, loc, scale)
    return -math.log(math.pi) - lax.log(width) - lax.log1p(y * y)


@prepared_for_numbers
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x.

    >>> pdf(0.5)
    Array(0.25464791, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


@prepared_for_numbers
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.64758362, dtype=float64, weak_type=True)
    """
    y, _ = standard("cauchy.cdf", x, loc, scale)
    return tnp.arctan2(1, -y) / math.pi


@prepared_for_numbers
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5)
    Array(-0.43450735, dtype=float64, weak_type=True)
    """
    return lax.log(cdf(x, loc, scale))


@prepared_for_numbers
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5)
    Array(0.35241638, dtype=float64, weak_type=True)
    """
    y, _ = standard("cauchy.sf", x, loc, scale)
    return tnp.arctan2(1, y) / math.pi


@prepared_for_numbers
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5)
    Array(-1.0429419, dtype=float64, weak_type=True)
    """
    return lax.log(sf(x, loc, scale))


@prepared_for_numbers
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The point below which the part q of the distribution is; nan unless that is between 0 and 1.

    >>> ppf(0.9)
    Array(3.07768354, dtype=float64, weak_type=True)
    """
    part, middle, width = floats("cauchy.ppf", q, loc, scale)
    return _quantile(part) * width + middle


@prepared_for_numbers
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The point above which the part q of the distribution is; nan unless that is between 0 and 1.

    >>> isf(0.9)
    Array(-3.07768354, dtype=float64, weak_type=True)
    """
    part, middle, width = floats("cauchy.isf", q, loc, scale)
    return -_quantile(part) * width + middle


def _quantile(q: Array) -> Array:
    within = (q > 0) & (q < 1)
    ends = tnp.where(q == 0, -math.inf, tnp.where(q == 1, math.inf, math.nan))
    return tnp.where(within, tnp.tan(math.pi * (tnp.where(within, q, 0.5) - 0.5)), ends)
