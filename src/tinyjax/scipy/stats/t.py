"""Student's distribution with df degrees of freedom, around loc, of scale scale."""

from __future__ import annotations

import math

from tinyjax import lax
from tinyjax.scipy.special.promoted import prepared_for_numbers
from tinyjax.scipy.stats.arguments import standard
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x.

    >>> logpdf(0.5, 3.0)
    Array(-1.16097426, dtype=float64, weak_type=True)
    """
    y, width, freedom = standard("t.logpdf", x, loc, scale, df)
    half = (freedom + 1) / 2
    constant = lax.lgamma(half) - lax.lgamma(freedom / 2) - lax.log(math.pi * freedom) / 2 - lax.log(width)
    return constant - half * lax.log1p(y * y / freedom)


@prepared_for_numbers
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x.

    >>> pdf(0.5, 3.0)
    Array(0.31318091, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, df, loc, scale))
