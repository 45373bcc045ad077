"""The exponential distribution: of mean scale, from loc on."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special.promoted import floats, prepared_for_numbers
from tinyjax.scipy.stats.arguments import outside, standard
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x, -inf where there is none.

    >>> logpdf(0.5)
    Array(-0.5, dtype=float64, weak_type=True)
    """
    y, width = standard("expon.logpdf", x, loc, scale)
    return tnp.where(y < 0, -math.inf, -y - lax.log(width))


@prepared_for_numbers
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x.

    >>> pdf(0.5)
    Array(0.60653066, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


@prepared_for_numbers
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.39346934, dtype=float64, weak_type=True)
    """
    y, _ = standard("expon.cdf", x, loc, scale)
    return tnp.where(y < 0, 0, -lax.expm1(-y))


@prepared_for_numbers
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5)
    Array(-0.93275213, dtype=float64, weak_type=True)
    """
    y, _ = standard("expon.logcdf", x, loc, scale)
    positive = y > 0
    return tnp.where(positive, lax.log(-lax.expm1(-tnp.where(positive, y, 1))), outside(y, -math.inf))


@prepared_for_numbers
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5)
    Array(0.60653066, dtype=float64, weak_type=True)
    """
    return lax.exp(logsf(x, loc, scale))


@prepared_for_numbers
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5)
    Array(-0.5, dtype=float64, weak_type=True)
    """
    y, _ = standard("expon.logsf", x, loc, scale)
    return tnp.where(y < 0, 0, -y)


@prepared_for_numbers
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The point below which the part q of the distribution is; nan unless that is between 0 and 1.

    >>> ppf(0.9)
    Array(2.30258509, dtype=float64, weak_type=True)
    """
    part, start, width = floats("expon.ppf", q, loc, scale)
    within = (part >= 0) & (part <= 1)
    return start - tnp.where(within, lax.log1p(-part), math.nan) * width
