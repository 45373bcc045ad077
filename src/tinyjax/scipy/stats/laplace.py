"""The Laplace distribution around loc, of scale scale."""

from __future__ import annotations

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special.promoted import prepared_for_numbers
from tinyjax.scipy.stats.arguments import standard
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x.

    >>> logpdf(0.5)
    Array(-1.19314718, dtype=float64, weak_type=True)
    """
    y, width = standard("laplace.logpdf", x, loc, scale)
    return -lax.abs(y) - lax.log(2 * width)


@prepared_for_numbers
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x.

    >>> pdf(0.5)
    Array(0.30326533, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


@prepared_for_numbers
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.69673467, dtype=float64, weak_type=True)
    """
    y, _ = standard("laplace.cdf", x, loc, scale)
    tail = lax.exp(-lax.abs(y)) / 2
    return tnp.where(y <= 0, tail, 1 - tail)
