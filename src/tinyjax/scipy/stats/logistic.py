"""The logistic distribution around loc, of scale scale."""

from __future__ import annotations

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special import entropies
from tinyjax.scipy.special.promoted import floats, prepared_for_numbers
from tinyjax.scipy.stats.arguments import standard
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x.

    >>> logpdf(0.5)
    Array(-1.44815397, dtype=float64, weak_type=True)
    """
    y, width = standard("logistic.logpdf", x, loc, scale)
    return -2 * tnp.logaddexp(y / 2, -y / 2) - lax.log(width)


@prepared_for_numbers
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x.

    >>> pdf(0.5)
    Array(0.23500371, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


@prepared_for_numbers
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.62245933, dtype=float64, weak_type=True)
    """
    return entropies.expit(standard("logistic.cdf", x, loc, scale)[0])


@prepared_for_numbers
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5)
    Array(0.37754067, dtype=float64, weak_type=True)
    """
    return entropies.expit(-standard("logistic.sf", x, loc, scale)[0])


@prepared_for_numbers
def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The point below which the part x of the distribution is; nan unless that is between 0 and 1.

    >>> ppf(0.5)
    Array(0., dtype=float64, weak_type=True)
    """
    part, middle, width = floats("logistic.ppf", x, loc, scale)
    return entropies.logit(part) * width + middle


@prepared_for_numbers
def isf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The point above which the part x of the distribution is; nan unless that is between 0 and 1.

    >>> isf(0.5)
    Array(0., dtype=float64, weak_type=True)
    """
    part, middle, width = floats("logistic.isf", x, loc, scale)
    return -entropies.logit(part) * width + middle
