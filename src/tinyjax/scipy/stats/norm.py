"""The normal distribution of mean loc and standard deviation scale."""

from __future__ import annotations

import math

from tinyjax import lax
from tinyjax.scipy.special import errors
from tinyjax.scipy.special.promoted import floats, prepared_for_numbers
from tinyjax.scipy.stats.arguments import standard
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x.

    >>> logpdf(0.5)
    Array(-1.04393853, dtype=float64, weak_type=True)
    """
    y, width = standard("norm.logpdf", x, loc, scale)
    return -(y * y + math.log(2 * math.pi)) / 2 - lax.log(width)


@prepared_for_numbers
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x.

    >>> pdf(0.5)
    Array(0.35206533, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


@prepared_for_numbers
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.69146246, dtype=float64)
    """
    return errors.ndtr(standard("norm.cdf", x, loc, scale)[0])


@prepared_for_numbers
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5)
    Array(-0.36894642, dtype=float64)
    """
    return errors.log_ndtr(standard("norm.logcdf", x, loc, scale)[0])


@prepared_for_numbers
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5)
    Array(0.30853754, dtype=float64)
    """
    return errors.ndtr(-standard("norm.sf", x, loc, scale)[0])


@prepared_for_numbers
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5)
    Array(-1.17591176, dtype=float64)
    """
    return errors.log_ndtr(-standard("norm.logsf", x, loc, scale)[0])


@prepared_for_numbers
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The point below which the part q of the distribution is; nan unless that is between 0 and 1. It has the dtype of
    the arguments; SciPy, and JAX with `jax_enable_x64`, have float64 here whatever they are.

    >>> ppf(0.9)
    Array(1.28155157, dtype=float64)
    """
    part, middle, width = floats("norm.ppf", q, loc, scale)
    return errors.ndtri(part) * width + middle


@prepared_for_numbers
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The point above which the part q of the distribution is; nan unless that is between 0 and 1. It has the dtype of
    the arguments, as that of `ppf` has.

    >>> isf(0.9)
    Array(-1.28155157, dtype=float64)
    """
    part, middle, width = floats("norm.isf", q, loc, scale)
    return -errors.ndtri(part) * width + middle
