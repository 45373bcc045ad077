"""The generalized normal distribution: its density falls as exp(-abs(x) ** beta)."""

from __future__ import annotations

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special.promoted import floats, prepared_for_numbers
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The logarithm of the density at x.

    >>> logpdf(0.5, 2.0)
    Array(-0.82236494, dtype=float64, weak_type=True)
    """
    y, power = floats("gennorm.logpdf", x, beta)
    return lax.log(power / 2) - lax.lgamma(1 / power) - lax.abs(y) ** power


@prepared_for_numbers
def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The density at x.

    >>> pdf(0.5, 2.0)
    Array(0.43939129, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, beta))


@prepared_for_numbers
def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The probability of at most x.

    >>> cdf(0.5, 2.0)
    Array(0.76024994, dtype=float64, weak_type=True)
    """
    y, power = floats("gennorm.cdf", x, beta)
    centre = y == 0
    safe = tnp.where(centre, 1, y)
    value = (1 + lax.sign(safe) * lax.igamma(1 / power, lax.abs(safe) ** power)) / 2
    return tnp.where(centre, 0.5 + y * pdf(0, power), value)  # where |y| has no slope
