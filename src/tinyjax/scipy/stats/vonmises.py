"""The von Mises distribution on a circle: around 0, of concentration kappa."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special.promoted import floats, prepared_for_numbers
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The logarithm of the density at x; nan unless kappa is positive.

    >>> logpdf(0.5, 2.0)
    Array(-0.90670548, dtype=float64, weak_type=True)
    """
    angle, concentration = floats("vonmises.logpdf", x, kappa)
    positive = concentration > 0
    size = tnp.where(positive, concentration, 1)
    value = size * (lax.cos(angle) - 1) - lax.log(2 * math.pi * lax.bessel_i0e(size))
    return tnp.where(positive, value, math.nan)


@prepared_for_numbers
def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The density at x.

    >>> pdf(0.5, 2.0)
    Array(0.40385253, dtype=float64, weak_type=True)
    """
    return lax.exp(logpdf(x, kappa))
