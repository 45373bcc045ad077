"""The Pareto distribution of shape b, from loc + scale on."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special.promoted import floats, prepared_for_numbers
from tinyjax.scipy.stats.arguments import outside, standard
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x, -inf where there is none.

    >>> logpdf(2.0, 3.0)
    Array(-1.67397643, dtype=float64, weak_type=True)
    """
    y, width, shape = standard("pareto.logpdf", x, loc, scale, b)
    within = y >= 1
    value = lax.log(shape) - lax.log(width) - (shape + 1) * lax.log(tnp.where(within, y, 1))
    return tnp.where(within, value, outside(y, -math.inf))


@prepared_for_numbers
def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x.

    >>> pdf(2.0, 3.0)
    Array(0.1875, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, b, loc, scale))


@prepared_for_numbers
def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most x.

    >>> cdf(2.0, 3.0)
    Array(0.875, dtype=float64, weak_type=True)
    """
    return -lax.expm1(logsf(x, b, loc, scale))


@prepared_for_numbers
def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(2.0, 3.0)
    Array(-0.13353139, dtype=float64, weak_type=True)
    """
    y, _, shape = standard("pareto.logcdf", x, loc, scale, b)
    within = y > 1
    value = lax.log1p(-(tnp.where(within, y, 2) ** -shape))
    return tnp.where(within, value, outside(y, -math.inf))


@prepared_for_numbers
def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than x.

    >>> sf(2.0, 3.0)
    Array(0.125, dtype=float64, weak_type=True)
    """
    return lax.exp(logsf(x, b, loc, scale))


@prepared_for_numbers
def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(2.0, 3.0)
    Array(-2.07944154, dtype=float64, weak_type=True)
    """
    y, _, shape = standard("pareto.logsf", x, loc, scale, b)
    return -shape * lax.log(tnp.where(y < 1, 1, y))


@prepared_for_numbers
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The point below which the part q of the distribution is; nan unless that is between 0 and 1.

    >>> ppf(0.9, 3.0)
    Array(2.15443469, dtype=float64, weak_type=True)
    """
    part, start, width, shape = floats("pareto.ppf", q, loc, scale, b)
    within = (part >= 0) & (part <= 1)
    return start + width * tnp.where(within, (1 - part) ** (-1 / shape), math.nan)
