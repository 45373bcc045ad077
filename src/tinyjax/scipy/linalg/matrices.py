"""Matrices of a special form."""

from __future__ import annotations

import tinyjax.numpy as tnp
from tinyjax.errors import ShapeError
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array, ArrayLike


@prepared
def block_diag(*arrs: ArrayLike) -> Array:
    """A matrix with these on its diagonal, and zeros elsewhere. A vector is a row, a number a matrix of one element.

    Raises:
      ShapeError: one has more than two axes.

    >>> import numpy as np
    >>> block_diag(np.ones((1, 2)), 3.0)
    Array([[1., 1., 0.],
           [0., 0., 3.]], dtype=float64)
    """
    blocks = [_matrix(tnp.asarray(x)) for x in arrs] or [tnp.zeros((1, 0))]
    if any(block.ndim > 2 for block in blocks):
        listed = ", ".join(str(block.aval) for block in blocks)
        raise ShapeError(f"Arguments to block_diag must have at most 2 dimensions, got {listed}")
    dtype, width = tnp.result_type(*blocks), sum([block.shape[1] for block in blocks])
    rows: list[Array] = []
    start = 0
    for block in blocks:
        before, after = start, width - start - block.shape[1]
        rows.append(tnp.pad(block.astype(dtype), ((0, 0), (before, after))))
        start += block.shape[1]
    return tnp.concatenate(rows, 0)


def _matrix(x: Array) -> Array:
    return x if x.ndim > 1 else tnp.reshape(x, (1, -1))


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Matrices with one number on each diagonal: `c` is the first column, and `r`, but for its first element, the first
    row. Without `r` that is the conjugate of `c`. Batches are along leading axes.

    >>> import numpy as np
    >>> toeplitz(np.array([1, 2]), np.array([0, 3, 4]))
    Array([[1, 3, 4],
           [2, 1, 3]], dtype=int64)
    """
    column = tnp.asarray(c)
    row = column.conj() if r is None else tnp.asarray(r)
    column, row = (x if x.ndim else tnp.reshape(x, (1,)) for x in (column, row))
    m, n = column.shape[-1], row.shape[-1]
    batch = tnp.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    column, row = (tnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (column, row))
    both = tnp.concatenate([tnp.flip(column, -1), row[..., 1:]], -1)
    places = tnp.arange(m - 1, -1, -1)[:, None] + tnp.arange(n)
    return tnp.take(both, places, axis=-1, mode="clip")
