"""The Dirichlet distribution of concentrations alpha, on vectors of positive numbers that add up to 1."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.errors import ShapeError
from tinyjax.scipy.special import entropies
from tinyjax.scipy.special.promoted import prepared_for_numbers
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


@prepared_for_numbers
def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the density at vectors along the first axis of x, the last elements of which may be left out;
    -inf where they don't add up to 1.

    Raises:
      ShapeError: alpha isn't a vector, or x hasn't as many rows, or one fewer.

    >>> import numpy as np
    >>> logpdf(np.array([0.2, 0.8]), np.array([1.0, 2.0]))
    Array(0.47000363, dtype=float64)
    """
    points, powers = promote_inexact(as_array(x), as_array(alpha))
    if powers.ndim != 1 or not points.ndim or points.shape[0] not in (powers.size, powers.size - 1):
        raise ShapeError(
            f"dirichlet: alpha is a vector, and x has as many rows, or one fewer; got {points.aval} and {powers.aval}"
        )
    if points.shape[0] < powers.size:
        points = tnp.concatenate([points, 1 - tnp.sum(points, 0, keepdims=True)], 0)
    constant = lax.lgamma(tnp.sum(powers)) - tnp.sum(lax.lgamma(powers))
    weights = tnp.reshape(powers, (-1, *(1,) * (points.ndim - 1)))
    value = tnp.sum(entropies.xlogy(tnp.broadcast_to(weights - 1, points.shape), points), 0) + constant
    within = tnp.all(points > 0, 0) & (tnp.abs(tnp.sum(points, 0) - 1) < 1e-6)
    return tnp.where(within, value, -math.inf)


@prepared_for_numbers
def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The density at x.

    >>> import numpy as np
    >>> pdf(np.array([0.2, 0.8]), np.array([1.0, 2.0]))
    Array(1.6, dtype=float64)
    """
    return lax.exp(logpdf(x, alpha))
