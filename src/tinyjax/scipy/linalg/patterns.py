"""Matrices that vectors determine: an element of a vector, or nothing, stands in each place."""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np

import tinyjax.numpy as tnp
from tinyjax.arrays.shaping import integer
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.numpy.linalg.intake import inexact
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array, ArrayLike


def _vectors(name: str, x: ArrayLike) -> Array:
    found = tnp.asarray(x)
    if not found.ndim:
        raise ShapeError(f"{name} must be at least 1-dimensional, got a scalar: {found.aval}")
    return found


def _at_least_vectors(x: ArrayLike) -> Array:
    found = tnp.asarray(x)
    return found if found.ndim else tnp.reshape(found, (1,))


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Matrices with one number on each diagonal from right above to left below: `c` is the first column, and `r`, but
    for its first element, the last row; without it zeros. Batches are along leading axes.

    >>> import numpy as np
    >>> hankel(np.array([1, 2, 3]))
    Array([[1, 2, 3],
           [2, 3, 0],
           [3, 0, 0]], dtype=int64)
    """
    column = _vectors("hankel: c", c)
    row = tnp.zeros_like(column) if r is None else _vectors("hankel: r", r)
    m, n = column.shape[-1], row.shape[-1]
    batch = tnp.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    column, row = (tnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (column, row))
    both = tnp.concatenate([column, row[..., 1:]], -1)
    return both.astype(both.dtype)[..., np.arange(m)[:, None] + np.arange(n)]


def circulant(c: ArrayLike) -> Array:
    """Square matrices with the vectors `c` in the first column, and in each next one moved down by one place.

    >>> import numpy as np
    >>> circulant(np.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int64)
    """
    column = _at_least_vectors(c)
    places = np.arange(column.shape[-1])
    return column[..., (places[:, None] - places) % max(len(places), 1)]


def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """Matrices of population growth: fecundities `f` in the first row, survival rates `s` below the diagonal.

    Raises:
      ShapeError: there are less than two fecundities, or not one survival rate less.

    >>> import numpy as np
    >>> leslie(np.array([0.1, 2.0, 1.0]), np.array([0.2, 0.8]))
    Array([[0.1, 2. , 1. ],
           [0.2, 0. , 0. ],
           [0. , 0.8, 0. ]], dtype=float64)
    """
    births, rates = _at_least_vectors(f), _at_least_vectors(s)
    size = births.shape[-1]
    if size < 2:
        raise ShapeError(f"leslie: The length of f along the last axis must be at least 2; got {births.aval}")
    if rates.shape[-1] != size - 1:
        raise ShapeError(
            "leslie: Incorrect lengths for f and s. The length of s along the last axis must be one less than the "
            f"length of f; got {rates.aval} and {births.aval}"
        )
    return _under(births, rates)


def _under(first: Array, below: Array) -> Array:
    """Square matrices with this first row, and this diagonal below the main one."""
    dtype, size = tnp.result_type(first, below), first.shape[-1]
    batch = tnp.broadcast_shapes(first.shape[:-1], below.shape[:-1])
    top = tnp.broadcast_to(first.astype(dtype)[..., None, :], (*batch, 1, size))
    rest = tnp.broadcast_to(below.astype(dtype)[..., :, None], (*batch, size - 1, size))
    return tnp.concatenate([top, tnp.where(np.eye(size - 1, size, dtype=bool), rest, 0)], -2)


def companion(a: ArrayLike) -> Array:
    """The companion matrices of polynomials with coefficients `a`, the highest first: their eigenvalues are the roots.
    Where the first coefficient is 0 they have infinite or nan elements.

    Raises:
      ShapeError: there are less than two coefficients.

    >>> import numpy as np
    >>> companion(np.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float64)
    """
    x = _at_least_vectors(inexact(a))
    if x.shape[-1] < 2:
        raise ShapeError(f"companion: The length of `a` along the last axis must be at least 2; got {x.aval}")
    return _under(-x[..., 1:] / x[..., :1], tnp.ones(x.shape[-1] - 2, x.dtype))


def fiedler(a: ArrayLike) -> Array:
    """Symmetric matrices of the distances between all pairs of elements of vectors.

    >>> import numpy as np
    >>> fiedler(np.array([1, 4, 6]))
    Array([[0, 3, 5],
           [3, 0, 2],
           [5, 2, 0]], dtype=int64)
    """
    x = _at_least_vectors(a)
    return tnp.abs(x[..., :, None] - x[..., None, :])


def fiedler_companion(a: ArrayLike) -> Array:
    """Matrices with the eigenvalues of `companion`, on five diagonals.

    Raises:
      ShapeError: there is no coefficient.

    >>> import numpy as np
    >>> fiedler_companion(np.array([1.0, -6.0, 11.0, -6.0]))
    Array([[  6., -11.,   1.],
           [  1.,   0.,   0.],
           [  0.,   6.,   0.]], dtype=float64)
    """
    x = _at_least_vectors(inexact(a))
    size = x.shape[-1] - 1
    if size < 0:
        raise ShapeError(f"fiedler_companion requires the last axis of 'a' to have nonzero length, got {x.aval}")
    i, j = np.indices((size, size))
    even = i % 2 == 0
    # Even rows have coefficients beside the diagonal, and ones two places to the right; odd ones those to the left.
    which = np.where(even & (j == i + 1), i + 2, np.where(even & (i > 0) & (j == i - 1), i + 1, 0))
    which = np.where((i == 0) & (j == 0), 1, which)
    ones = (even & (j == i + 2)) | (~even & (j == i - 2)) | ((i == 1) & (j == 0))
    picked = (x / x[..., :1])[..., which]
    return tnp.where(which > 0, -picked, ones.astype(x.dtype.name)) if size else picked


@prepared
def convolution_matrix(a: ArrayLike, n: SupportsIndex, mode: str = "full") -> Array:
    """The matrices with `n` columns whose products with vectors v are the convolutions of these with `a`, as `convolve`
    has them in that mode: "full", "same" or "valid".

    Raises:
      ShapeError: `a` is empty, or no vector, or there are no columns.
      ChoiceError: there is no such mode.

    >>> import numpy as np
    >>> convolution_matrix(np.array([1, 2]), 3, "same")
    Array([[1, 0, 0],
           [2, 1, 0],
           [0, 2, 1]], dtype=int64)
    """
    columns, x = integer(n, "convolution_matrix: n"), _vectors("convolution_matrix: a", a)
    if columns <= 0:
        raise ShapeError(f"convolution_matrix: n must be a positive integer; got {columns}")
    size = x.shape[-1]
    if not size:
        raise ShapeError(f"convolution_matrix: len(a) must be at least 1; got {x.aval}")
    if mode not in ("full", "valid", "same"):
        raise ChoiceError(f"convolution_matrix: mode must be one of 'full', 'valid', 'same'; got {mode!r}")
    less = min(size, columns) - 1
    before, after = {"full": (0, 0), "same": (less // 2, less - less // 2), "valid": (less, less)}[mode]
    rows = np.arange(before, size + columns - 1 - after)
    places = rows[:, None] - np.arange(columns)
    inside = (places >= 0) & (places < size)
    return tnp.where(inside, x[..., np.where(inside, places, 0)], tnp.zeros((), x.dtype))
