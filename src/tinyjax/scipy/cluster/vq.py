"""Vector quantisation, as `scipy.cluster.vq` has it."""

from __future__ import annotations

import tinyjax.numpy as tnp
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.errors import ShapeError
from tinyjax.tracebacks import filter_package
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

__all__ = ["vq"]


def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """For each of n observations the nearest of the codes, and the distance to it: integers and floats of shape (n,).

    Observations and codes are rows with the same number of features, or one number each. `check_finite` has no effect,
    because values may be traced.

    Raises:
      ShapeError: observations and codes have different numbers of features.

    >>> import numpy as np
    >>> vq(np.array([[1.0, 1.0], [8.0, 9.0]]), np.array([[0.0, 0.0], [8.0, 8.0]]))
    (Array([0, 1], dtype=int64), Array([1.41421356, 1.        ], dtype=float64))
    """
    points, codes = promote_inexact(as_array(obs), as_array(code_book))
    if points.ndim != codes.ndim or points.ndim not in (1, 2) or points.shape[1:] != codes.shape[1:]:
        raise ShapeError(
            f"vq takes observations and codes as rows of the same length, got shapes {points.shape} and {codes.shape}"
        )
    if points.ndim == 1:
        points, codes = points[:, None], codes[:, None]
    squares = tnp.sum((points[:, None] - codes[None]) ** 2, -1)
    nearest = tnp.argmin(squares, -1)
    return nearest, tnp.sqrt(tnp.min(squares, -1))


filter_package(__name__, ["vq"])
