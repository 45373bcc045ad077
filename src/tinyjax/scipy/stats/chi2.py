"""The chi-squared distribution with df degrees of freedom: a sum of so many squares."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special.promoted import prepared_for_numbers
from tinyjax.scipy.stats.arguments import from_zero, outside, standard
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x, -inf where there is none.

    >>> logpdf(0.5, 3.0)
    Array(-1.51551212, dtype=float64, weak_type=True)
    """
    y, width, freedom = standard("chi2.logpdf", x, loc, scale, df)
    within, half = y >= 0, freedom / 2
    safe = tnp.where(within, y, 1)
    value = (half - 1) * lax.log(safe) - safe / 2 - lax.lgamma(half) - math.log(2) * half - lax.log(width)
    return tnp.where(within, value, outside(y, -math.inf))


@prepared_for_numbers
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x.

    >>> pdf(0.5, 3.0)
    Array(0.21969564, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, df, loc, scale))


@prepared_for_numbers
def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5, 3.0)
    Array(0.08110859, dtype=float64, weak_type=True)
    """
    y, _, freedom = standard("chi2.cdf", x, loc, scale, df)
    return from_zero(lax.igamma, freedom / 2, y / 2, 0)


@prepared_for_numbers
def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5, 3.0)
    Array(-2.51196643, dtype=float64, weak_type=True)
    """
    return lax.log(cdf(x, df, loc, scale))


@prepared_for_numbers
def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5, 3.0)
    Array(0.91889141, dtype=float64, weak_type=True)
    """
    y, _, freedom = standard("chi2.sf", x, loc, scale, df)
    return from_zero(lax.igammac, freedom / 2, y / 2, 1)


@prepared_for_numbers
def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5, 3.0)
    Array(-0.08458732, dtype=float64, weak_type=True)
    """
    return lax.log(sf(x, df, loc, scale))
