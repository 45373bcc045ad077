"""The Cauchy distribution wrapped around a circle, for angles between 0 and 2 pi, of concentration c."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special.promoted import floats, prepared_for_numbers
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The logarithm of the density at x, -inf for other angles; nan unless c is between 0 and 1.

    >>> logpdf(0.5, 0.5)
    Array(-1.13781923, dtype=float64, weak_type=True)
    """
    angle, part = floats("wrapcauchy.logpdf", x, c)
    density = (1 - part * part) / (2 * math.pi) / (1 + part * part - 2 * part * lax.cos(angle))
    within = (angle >= 0) & (angle <= 2 * math.pi)
    defined = (part > 0) & (part < 1)
    value = tnp.where(within, lax.log(tnp.where(defined, density, 1)), -math.inf)
    return tnp.where(defined, value, math.nan)


@prepared_for_numbers
def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The density at x.

    >>> pdf(0.5, 0.5)
    Array(0.32051723, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, c))
