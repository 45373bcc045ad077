"""Samplers that need linear algebra: normal vectors with a covariance, and rotations."""

from __future__ import annotations

from typing import SupportsIndex

import numpy.typing as npt

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.elementwise import broadcast_shapes, promote_inexact
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.ir.dtypes import DType
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.lax.layouts import OutSharding, laid_out
from tinyjax.prepared.functions import prepared
from tinyjax.random.arguments import ShapeLike, check_shapes, dtype_of, index, single
from tinyjax.random.drawing import gaussian
from tinyjax.tracing.array import Array, ArrayLike


def multivariate_normal(
    key: ArrayLike, mean: ArrayLike, cov: ArrayLike, shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None, method: str = "cholesky", *,  out_sharding: OutSharding = None,
) -> Array:  # fmt: skip
    """Normal vectors with this mean and covariance, along the last axis. Differentiable in both.

    The shape is that of the other axes. `method` says how the covariance is factored: "svd" and "eigh" are for
    singular ones, too.

    Raises:
      ShapeError: the covariance isn't a matrix, or several, of the size of the mean.
      ChoiceError: there is no such method.

    >>> from tinyjax.random import key
    >>> multivariate_normal(key(0), [1.0, 2.0], [[1.0, 0.5], [0.5, 2.0]])
    Array([0.79415786, 0.85893139], dtype=float64)
    """
    one = single("multivariate_normal", key)
    if method not in ("svd", "eigh", "cholesky"):
        raise ChoiceError(f"method must be one of 'svd', 'eigh', 'cholesky', got {method!r}")
    middle, spread = promote_inexact(tnp.asarray(mean), tnp.asarray(cov))
    found = dtype_of("multivariate_normal", middle.aval.dtype if dtype is None else dtype, float)
    if middle.ndim < 1:
        raise ShapeError("multivariate_normal requires mean.ndim >= 1, got mean.ndim == 0")
    if spread.ndim < 2:
        raise ShapeError(f"multivariate_normal requires cov.ndim >= 2, got cov.ndim == {spread.ndim}")
    n = middle.aval.shape[-1]
    if spread.aval.shape[-2:] != (n, n):
        raise ShapeError(
            f"multivariate_normal requires cov.shape == (..., n, n) for n={n}, but got "
            f"cov.shape == {spread.aval.shape}."
        )
    batches = [middle.aval.shape[:-1], spread.aval.shape[:-2]]
    sizes = broadcast_shapes(*batches) if shape is None else as_shape(shape)
    check_shapes("multivariate_normal", sizes, batches)
    return laid_out(_multivariate(one, middle, spread, (*sizes, n), found, method), out_sharding)


@prepared
def _multivariate(key: Array, mean: Array, cov: Array, shape: Shape, dtype: DType, method: str) -> Array:
    drawn = gaussian(key, shape, dtype)
    return mean + tnp.matmul(_root(cov, method), drawn[..., None])[..., 0]


def _root(cov: Array, method: str) -> Array:
    """A matrix whose product with its transpose is this one."""
    if method == "svd":
        u, s, _ = lax.linalg.svd(cov)
        return u * lax.sqrt(s)[..., None, :]
    if method == "eigh":
        v, w = lax.linalg.eigh(cov)
        return v * lax.sqrt(w)[..., None, :]
    return lax.linalg.cholesky(cov)


def orthogonal(
    key: ArrayLike, n: SupportsIndex, shape: ShapeLike = (), dtype: npt.DTypeLike | None = None,
    m: SupportsIndex | None = None, *,  out_sharding: OutSharding = None,
) -> Array:  # fmt: skip
    """Matrices with n rows and m columns, n unless it is given, of which the lesser number are orthonormal.

    Complex ones are unitary. All are equally probable.

    >>> from tinyjax.random import key
    >>> orthogonal(key(0), 2)
    Array([[-0.11262267, -0.99363783],
           [ 0.99363783, -0.11262267]], dtype=float64)
    """
    one, found = single("orthogonal", key), dtype_of("orthogonal", dtype, float, "a float or complex")
    rows = index("orthogonal", "n", n)
    columns = rows if m is None else index("orthogonal", "m", m)
    return laid_out(_orthogonal(one, as_shape(shape), rows, columns, found), out_sharding)


@prepared
def _orthogonal(key: Array, shape: Shape, rows: int, columns: int, dtype: DType) -> Array:
    drawn = gaussian(key, (*shape, max(rows, columns), min(rows, columns)), dtype)
    q, r = lax.linalg.qr(drawn, full_matrices=False)
    q = q * tnp.sign(tnp.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
    return q.mT if rows < columns else q
