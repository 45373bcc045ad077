"""The Gumbel distribution of largest values: around loc, of scale scale."""

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
    Array(-1.10653066, dtype=float64, weak_type=True)
    """
    y, width = _standard("gumbel_r.logpdf", x, loc, scale)
    return -y - lax.exp(-y) - lax.log(width)


@prepared_for_numbers
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x.

    >>> pdf(0.5)
    Array(0.3307043, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


@prepared_for_numbers
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.54523921, dtype=float64, weak_type=True)
    """
    return lax.exp(logcdf(x, loc, scale))


@prepared_for_numbers
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5)
    Array(-0.60653066, dtype=float64, weak_type=True)
    """
    y, _ = _standard("gumbel_r.logcdf", x, loc, scale)
    return -lax.exp(-y)


@prepared_for_numbers
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5)
    Array(0.45476079, dtype=float64, weak_type=True)
    """
    y, _ = _standard("gumbel_r.sf", x, loc, scale)
    return -lax.expm1(-lax.exp(-y))


@prepared_for_numbers
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5)
    Array(-0.78798374, dtype=float64, weak_type=True)
    """
    return lax.log(sf(x, loc, scale))


@prepared_for_numbers
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The point below which the part p of the distribution is; nan unless that is between 0 and 1.

    >>> ppf(0.9)
    Array(2.25036733, dtype=float64, weak_type=True)
    """
    part, middle, width = floats("gumbel_r.ppf", p, loc, scale)
    within = tnp.where((part >= 0) & (part <= 1), part, math.nan)
    return middle - width * lax.log(-lax.log(within))


def _standard(name: str, x: ArrayLike, loc: ArrayLike, scale: ArrayLike) -> tuple[Array, Array]:
    """nan for a scale that isn't positive."""
    y, width = standard(name, x, loc, scale)
    return tnp.where(width > 0, y, math.nan), width
