"""The normal distribution of vectors: of a mean and a matrix of covariances."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.errors import ShapeError, UnsupportedError
from tinyjax.prepared.functions import prepared
from tinyjax.scipy.special.promoted import prepared_for_numbers
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


@prepared
def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """The logarithm of the density at vectors along the last axis of x. The covariances are a matrix, or several; or a
    number, the variance of each element.

    Raises:
      ShapeError: the shapes don't go together.
      UnsupportedError: `allow_singular` is given.

    >>> import numpy as np
    >>> logpdf(np.array([0.5, 1.0]), np.zeros(2), np.eye(2))
    Array(-2.46287707, dtype=float64)
    """
    if allow_singular is not None:
        raise UnsupportedError("multivariate_normal.logpdf: allow_singular isn't supported; leave it out")
    points, middle, spread = promote_inexact(as_array(x), as_array(mean), as_array(cov))
    if not middle.ndim and not spread.ndim:
        return -tnp.square(points - middle) / spread / 2 - (math.log(2 * math.pi) + lax.log(spread)) / 2
    if not middle.ndim or (spread.ndim and (spread.ndim < 2 or spread.shape[-2:] != middle.shape[-1:] * 2)):
        raise ShapeError(
            "multivariate_normal.logpdf: cov has as many rows and columns as the mean has elements; got "
            f"{middle.aval} and {spread.aval}"
        )
    size = middle.shape[-1]
    if not spread.ndim:
        squares = tnp.sum(tnp.square(points - middle), -1)
        return -squares / spread / 2 - size / 2 * (math.log(2 * math.pi) + lax.log(spread))
    factor = lax.linalg.cholesky(spread)
    away = points - middle
    batch = tnp.broadcast_shapes(away.shape[:-1], factor.shape[:-2])
    factors, vectors = tnp.broadcast_to(factor, (*batch, size, size)), tnp.broadcast_to(away, (*batch, size))
    solved = lax.linalg.triangular_solve(factors, vectors[..., None], left_side=True, lower=True)[..., 0]
    scale = tnp.sum(lax.log(tnp.diagonal(factor, axis1=-2, axis2=-1)), -1)
    return -tnp.sum(tnp.square(solved), -1) / 2 - size / 2 * math.log(2 * math.pi) - scale


@prepared_for_numbers
def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The density at x.

    >>> import numpy as np
    >>> pdf(np.array([0.5, 1.0]), np.zeros(2), np.eye(2))
    Array(0.0851895, dtype=float64)
    """
    return lax.exp(logpdf(x, mean, cov))
