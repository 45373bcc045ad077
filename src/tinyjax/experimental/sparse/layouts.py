"""What changes where elements are, and none of them: layouts, and the order, number and sizes of dimensions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from operator import index

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.shaping import canonical_axes
from tinyjax.errors import AxisError, ChoiceError, ShapeError, UnsupportedError
from tinyjax.experimental.sparse.base import SparseEfficiencyError, SparseEfficiencyWarning
from tinyjax.experimental.sparse.batches import added, chosen, columns, over_batches
from tinyjax.experimental.sparse.storage import M, across_dense, check_layout, limits, valid
from tinyjax.tracing.array import Array


def bcoo_update_layout(
    mat: M, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
) -> M:
    """The same array with other numbers of batch and dense dimensions.

    With more of them, zeros are stored along the new ones: if they are longer than 1, `on_inefficient` says what is to
    be done, "error", "warn" or, with None, nothing.

    Raises:
      ChoiceError: a ValueError; there are no such layouts.
      SparseEfficiencyError: many zeros would be stored.

    >>> import numpy as np
    >>> from tinyjax.experimental.sparse import BCOO
    >>> mat = BCOO.fromdense(np.ones((2, 3)), n_batch=1)
    >>> bcoo_update_layout(mat, n_batch=0)
    BCOO(float64[2, 3], nse=6)
    """
    what = "bcoo_update_layout"
    batch = mat.n_batch if n_batch is None else n_batch
    dense = mat.n_dense if n_dense is None else n_dense
    batch, _, dense = check_layout(what, mat.ndim, batch, dense)
    if on_inefficient not in ("error", "warn", None):
        raise ChoiceError(f"{what}: on_inefficient is 'error', 'warn' or None, not {on_inefficient!r}")
    shape = mat.shape
    for kind, more, before, sizes in (
        ("dense", dense, mat.n_dense, shape[mat.ndim - dense : mat.ndim - mat.n_dense]),
        ("batch", batch, mat.n_batch, shape[mat.n_batch : batch]),
    ):
        if more > before and any(size > 1 for size in sizes):
            said = f"{what}: n_{kind}={more} instead of {before} stores zeros along {sizes} of {mat!r}"
            if on_inefficient == "error":
                raise SparseEfficiencyError(f"{said}. If that is right, say on_inefficient=None, or 'warn'.")
            if on_inefficient == "warn":
                warnings.warn(f"{said} (on_inefficient='warn')", SparseEfficiencyWarning, stacklevel=2)
    if dense < mat.n_dense:
        mat = _fewer_dense(mat, dense)
    if batch < mat.n_batch:
        mat = _fewer_batches(mat, batch)
    if dense > mat.n_dense:
        mat = _more_dense(mat, dense)
    return _more_batches(mat, batch) if batch > mat.n_batch else mat


def _grid(sizes: Sequence[int], dtype: np.dtype[np.generic]) -> Array:
    """All indices of an array of these sizes, in order: (number of elements, number of sizes)."""
    found = np.indices(tuple(sizes)).reshape(len(sizes), -1).T
    return tnp.asarray(found.astype(dtype))


def _fewer_dense(mat: M, n_dense: int) -> M:
    """The first dense dimensions become sparse ones."""
    n = mat.n_dense - n_dense
    grid = _grid(mat.dense_shape[:n], mat.indices.dtype)
    count = grid.shape[0]
    before, nse = mat.n_batch, mat.nse * count
    data = mat.data.reshape(*mat.data.shape[:before], nse, *mat.dense_shape[n:])
    lead = mat.indices.shape[:before]
    own = tnp.broadcast_to(mat.indices[..., None, :], (*lead, mat.nse, count, mat.n_sparse))
    new = tnp.broadcast_to(grid, (*lead, mat.nse, count, n))
    indices = tnp.concatenate([own, new], axis=-1).reshape(*lead, nse, mat.n_sparse + n)
    return mat.like(data, indices, mat.shape)


def _fewer_batches(mat: M, n_batch: int) -> M:
    """The last batch dimensions become the first sparse ones."""
    n, sizes = mat.n_batch - n_batch, mat.batch_shape[n_batch:]
    grid = _grid(sizes, mat.indices.dtype)
    count = grid.shape[0]
    nse = mat.nse * count
    data_lead, lead = mat.data.shape[:n_batch], mat.indices.shape[:n_batch]
    data = tnp.broadcast_to(mat.data, (*data_lead, *sizes, *mat.data.shape[mat.n_batch :]))
    data = data.reshape(*data_lead, nse, *mat.dense_shape)
    own = tnp.broadcast_to(mat.indices, (*lead, *sizes, mat.nse, mat.n_sparse))
    own = own.reshape(*lead, count, mat.nse, mat.n_sparse)
    new = tnp.broadcast_to(grid[:, None], (*lead, count, mat.nse, n))
    indices = tnp.concatenate([new, own], axis=-1).reshape(*lead, nse, n + mat.n_sparse)
    # What was padding in one batch is still beyond the shape.
    return mat.like(data, indices, mat.shape)


def _more_dense(mat: M, n_dense: int) -> M:
    """The last sparse dimensions become the first dense ones."""
    n, sizes = n_dense - mat.n_dense, mat.shape[mat.ndim - n_dense :]
    kept = mat.n_sparse - n

    def spread(data: Array, indices: Array) -> Array:
        place = (tnp.arange(mat.nse), *columns(indices)[kept:])
        return added(tnp.zeros((mat.nse, *sizes), data.dtype), place, data)

    data = over_batches(spread, mat.n_batch)(mat.data, mat.indices)
    indices = tnp.where(valid(mat)[..., None], mat.indices, limits(mat))[..., :kept]
    return mat.like(data, indices, mat.shape)


def _more_batches(mat: M, n_batch: int) -> M:
    """The first sparse dimensions become the last batch ones: each element is stored in each of the new batches."""
    n, sizes = n_batch - mat.n_batch, mat.shape[mat.n_batch : n_batch]

    def spread(data: Array, indices: Array) -> tuple[Array, Array]:
        place = (*columns(indices)[:n], tnp.arange(mat.nse))
        zeros = tnp.zeros((*sizes, *data.shape), data.dtype)
        rest = tnp.broadcast_to(indices[:, n:], (*sizes, mat.nse, mat.n_sparse - n))
        return added(zeros, place, data), rest

    data, indices = over_batches(spread, mat.n_batch)(mat.data, mat.indices)
    return mat.like(data, indices, mat.shape)


def bcoo_transpose(mat: M, *, permutation: Sequence[int]) -> M:
    """The dimensions in another order, batch, sparse and dense ones each among themselves.

    Raises:
      AxisError: it isn't an order of the dimensions.
      UnsupportedError: it would mix dimensions of different kinds.

    >>> from tinyjax.experimental.sparse import eye
    >>> bcoo_transpose(eye(2, 3), permutation=(1, 0))
    BCOO(float64[3, 2], nse=2)
    """
    batch, sparse, dense = _permuted("bcoo_transpose", mat, permutation)
    n = mat.n_batch
    indices = mat.indices.transpose(*batch, n, n + 1)[..., np.asarray(sparse, np.intp)]
    data = mat.data.transpose(*batch, n, *[d + n + 1 for d in dense])
    return mat.like(
        data,
        indices,
        [mat.shape[i] for i in permutation],
        indices_sorted=mat.indices_sorted and sparse == sorted(sparse),
        unique_indices=mat.unique_indices,
    )


def _permuted(what: str, mat: M, permutation: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """An order of the dimensions as those of each kind."""
    found = [index(i) for i in permutation]
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    if sorted(found) != list(range(mat.ndim)):
        raise AxisError(f"{what}: {tuple(found)} isn't an order of the {mat.ndim} dimensions of {mat!r}")
    batch, sparse, dense = found[:n], found[n:m], found[m:]
    if sorted(batch) != list(range(n)) or sorted(dense) != list(range(m, mat.ndim)):
        raise UnsupportedError(
            f"{what}: {tuple(found)} mixes batch, sparse and dense dimensions of {mat!r}. update_layout can make them "
            "of one kind first."
        )
    return batch, [i - n for i in sparse], [i - m for i in dense]


def bcoo_rev(operand: M, dimensions: Sequence[int]) -> M:
    """The array in reverse order along some dimensions.

    >>> import numpy as np
    >>> from tinyjax.experimental.sparse import BCOO
    >>> bcoo_rev(BCOO.fromdense(np.array([1.0, 0.0, 2.0, 0.0])), [0]).indices
    Array([[3],
           [1]], dtype=int32)
    """
    axes = canonical_axes(dimensions, operand.ndim, "bcoo_rev")
    n, m = operand.n_batch, operand.n_batch + operand.n_sparse
    batch = [d for d in axes if d < n]
    data = lax.rev(operand.data, [*batch, *[d + 1 - operand.n_sparse for d in axes if d >= m]])
    indices = lax.rev(operand.indices, batch)
    sparse = [d - n for d in axes if n <= d < m]
    if sparse:
        turned = limits(operand) - 1 - indices
        beyond = tnp.any(indices >= limits(operand), axis=-1, keepdims=True)
        chosen = tnp.where(np.isin(np.arange(operand.n_sparse), sparse), turned, indices)
        indices = tnp.where(beyond, limits(operand), chosen)
    return operand.like(data, indices, operand.shape, unique_indices=operand.unique_indices)


def bcoo_squeeze(arr: M, *, dimensions: Sequence[int]) -> M:
    """The array without some dimensions, which have size 1.

    >>> from tinyjax.experimental.sparse import eye
    >>> bcoo_squeeze(eye(1, 3), dimensions=[0])
    BCOO(float64[3], nse=1)
    """
    axes = canonical_axes(dimensions, arr.ndim, "bcoo_squeeze")
    if any(arr.shape[d] != 1 for d in axes):
        raise ShapeError(f"bcoo_squeeze: dimensions {tuple(axes)} of {arr!r} must have size 1")
    n, m = arr.n_batch, arr.n_batch + arr.n_sparse
    batch = [d for d in axes if d < n]
    left = [i for i in range(arr.n_sparse) if i + n not in axes]
    data, indices = arr.data, arr.indices
    if len(left) < arr.n_sparse:  # padding may be told by the index that goes
        there = valid(arr)
        data = chosen(across_dense(there, arr.n_dense), data)
        indices = tnp.where(there[..., None], indices, limits(arr))[..., np.asarray(left, np.intp)]
    data = lax.squeeze(data, [*batch, *[d - arr.n_sparse + 1 for d in axes if d >= m]])
    indices = lax.squeeze(indices, batch)
    shape = [size for i, size in enumerate(arr.shape) if i not in axes]
    return arr.like(data, indices, shape, indices_sorted=arr.indices_sorted, unique_indices=arr.unique_indices)


def moved(mat: M, permutation: Sequence[int]) -> M:
    """The dimensions in another order, also of different kinds: they become sparse ones."""
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    kinds = [0 if d < n else 1 if d < m else 2 for d in permutation]
    if kinds != sorted(kinds):
        mat = bcoo_update_layout(mat, n_batch=0, n_dense=0)
    return bcoo_transpose(mat, permutation=permutation)
