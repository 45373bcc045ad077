"""The uniform distribution between loc and loc + scale."""

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
    Array(-0., dtype=float64, weak_type=True)
    """
    y, width = standard("uniform.logpdf", x, loc, scale)
    return tnp.where((y >= 0) & (y <= 1), -lax.log(width), outside(y, -math.inf))


@prepared_for_numbers
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x.

    >>> pdf(0.5)
    Array(1., dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


@prepared_for_numbers
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.5, dtype=float64)
    """
    y, _ = standard("uniform.cdf", x, loc, scale)
    return tnp.clip(y.astype(y.dtype), 0, 1)


@prepared_for_numbers
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The point below which the part q of the distribution is; nan unless that is between 0 and 1.

    >>> ppf(0.9)
    Array(0.9, dtype=float64, weak_type=True)
    """
    part, start, width = floats("uniform.ppf", q, loc, scale)
    return start + width * tnp.where((part >= 0) & (part <= 1), part, math.nan)
