"""The normal distribution between a and b standard deviations from its mean loc."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special import errors
from tinyjax.scipy.special.promoted import prepared_for_numbers
from tinyjax.scipy.stats import norm
from tinyjax.scipy.stats.arguments import standard
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x, -inf where there is none.

    >>> logpdf(0.5, -1.0, 2.0)
    Array(-0.84377224, dtype=float64)
    """
    y, width, low, high = standard("truncnorm.logpdf", x, loc, scale, a, b)
    value = norm.logpdf(y) - lax.log(width) - _logarithm_between(low, high)
    return _bounded(low, high, tnp.where((y < low) | (y > high), -math.inf, value))


@prepared_for_numbers
def pdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x.

    >>> pdf(0.5, -1.0, 2.0)
    Array(0.43008508, dtype=float64)
    """
    return lax.exp(logpdf(x, a, b, loc, scale))


@prepared_for_numbers
def cdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5, -1.0, 2.0)
    Array(0.65088042, dtype=float64)
    """
    return lax.exp(logcdf(x, a, b, loc, scale))


@prepared_for_numbers
def logcdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5, -1.0, 2.0)
    Array(-0.42942934, dtype=float64)
    """
    y, _, low, high = standard("truncnorm.logcdf", x, loc, scale, a, b)
    return _bounded(low, high, _logarithm_below(y, low, high))


@prepared_for_numbers
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5, -1.0, 2.0)
    Array(0.34911958, dtype=float64)
    """
    return lax.exp(logsf(x, a, b, loc, scale))


@prepared_for_numbers
def logsf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5, -1.0, 2.0)
    Array(-1.05234078, dtype=float64)
    """
    y, _, low, high = standard("truncnorm.logsf", x, loc, scale, a, b)
    return _bounded(low, high, _logarithm_below(-y, -high, -low))


def _bounded(low: Array, high: Array, value: Array) -> Array:
    return tnp.where(low >= high, math.nan, value)


def _logarithm_between(low: Array, high: Array) -> Array:
    """That of how much of the normal distribution is between two points, by the tail that both are in."""
    right, central = low > 0, (low <= 0) & (high > 0)
    near, far = tnp.where(right, -low, high), tnp.where(right, -high, low)
    upper, lower = errors.log_ndtr(near), errors.log_ndtr(far)
    tail = upper + lax.log(-lax.expm1(tnp.where(central | (near <= far), -1, lower - upper)))
    return tnp.where(central, lax.log1p(-errors.ndtr(low) - errors.ndtr(-high)), tail)


def _between(low: Array, high: Array) -> Array:
    """A point between two, one or both of which may be infinite."""
    start, end = tnp.isinf(low), tnp.isinf(high)
    middle = (tnp.where(start, 0, low) + tnp.where(end, 0, high)) / 2
    return tnp.where(start, tnp.where(end, 0, high - 1), tnp.where(end, low + 1, middle))


def _logarithm_below(y: Array, low: Array, high: Array) -> Array:
    outside = (y <= low) | (y >= high)
    within = tnp.where(outside, _between(low, high), y)
    whole = _logarithm_between(low, high)
    below, above = _logarithm_between(low, within) - whole, _logarithm_between(within, high) - whole
    value = tnp.where(below > -0.1, lax.log1p(-lax.exp(above)), below)
    return tnp.where(y >= high, 0, tnp.where(y <= low, -math.inf, value))
