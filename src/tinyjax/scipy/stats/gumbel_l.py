"""The Gumbel distribution of smallest values: around loc, of scale scale. It is that of largest ones, turned around."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special.promoted import floats, prepared_for_numbers
from tinyjax.scipy.stats import gumbel_r
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x.

    >>> logpdf(0.5)
    Array(-1.14872127, dtype=float64, weak_type=True)
    """
    return gumbel_r.logpdf(*_turned("gumbel_l.logpdf", x, loc, scale))


@prepared_for_numbers
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x.

    >>> pdf(0.5)
    Array(0.31704192, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


@prepared_for_numbers
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.80770435, dtype=float64, weak_type=True)
    """
    return gumbel_r.sf(*_turned("gumbel_l.cdf", x, loc, scale))


@prepared_for_numbers
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5)
    Array(-0.21355919, dtype=float64, weak_type=True)
    """
    return lax.log(cdf(x, loc, scale))


@prepared_for_numbers
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5)
    Array(0.19229565, dtype=float64, weak_type=True)
    """
    return lax.exp(logsf(x, loc, scale))


@prepared_for_numbers
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5)
    Array(-1.64872127, dtype=float64, weak_type=True)
    """
    return gumbel_r.logcdf(*_turned("gumbel_l.logsf", x, loc, scale))


@prepared_for_numbers
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The point below which the part p of the distribution is; nan unless that is between 0 and 1.

    >>> ppf(0.9)
    Array(0.83403245, dtype=float64, weak_type=True)
    """
    part, middle, width = floats("gumbel_l.ppf", p, loc, scale)
    within = tnp.where((part >= 0) & (part <= 1), part, math.nan)
    return middle + width * lax.log(-lax.log1p(-within))


def _turned(name: str, x: ArrayLike, loc: ArrayLike, scale: ArrayLike) -> tuple[Array, Array, Array]:
    point, middle, width = floats(name, x, loc, scale)
    return -point, -middle, width
