"""The generalized normal distribution: its density falls as exp(-abs(x) ** beta)."""

from __future__ import annotations

from tinyjax import lax
from tinyjax.scipy.special.promoted import floats
from tinyjax.tracing.array import Array, ArrayLike


def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The logarithm of the density at x.

    >>> logpdf(0.5, 2.0)
    Array(-0.82236494, dtype=float64, weak_type=True)
    """
    y, power = floats("gennorm.logpdf", x, beta)
    return lax.log(power / 2) - lax.lgamma(1 / power) - lax.abs(y) ** power


def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The density at x.

    >>> pdf(0.5, 2.0)
    Array(0.43939129, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, beta))


def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The probability of at most x.

    >>> cdf(0.5, 2.0)
    Array(0.76024994, dtype=float64, weak_type=True)
    """
    y, power = floats("gennorm.cdf", x, beta)
    return (1 + lax.sign(y) * lax.igamma(1 / power, lax.abs(y) ** power)) / 2
