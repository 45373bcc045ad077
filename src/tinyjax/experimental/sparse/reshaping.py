"""Arrays made of others: repeated, put together, and in other shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.shaping import canonical_axis
from tinyjax.errors import ChoiceError, InputError, ShapeError, UnsupportedError
from tinyjax.experimental.sparse.batches import chosen, columns
from tinyjax.experimental.sparse.conversion import resized
from tinyjax.experimental.sparse.layouts import bcoo_transpose, bcoo_update_layout
from tinyjax.experimental.sparse.storage import M, limits
from tinyjax.ir.shapes import as_shape
from tinyjax.tracing.array import Array


def bcoo_broadcast_in_dim(
    mat: M, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: None = None
) -> M:
    """`lax.broadcast_in_dim`. What is put before sparse dimensions becomes batch dimensions; between them, the new ones
    must have size 1.

    >>> from tinyjax.experimental.sparse import eye
    >>> bcoo_broadcast_in_dim(eye(2), shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    BCOO(float64[3, 2, 2], nse=2, n_batch=1)
    """
    del sharding
    what = "bcoo_broadcast_in_dim"
    sizes, dims = as_shape(shape), [index(d) for d in broadcast_dimensions]
    # It says what is wrong with shapes.
    lax.broadcast_in_dim(tnp.broadcast_to(tnp.zeros((), bool), mat.shape), sizes, dims)
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    batch, sparse, dense = dims[:n], dims[n:m], dims[m:]
    if max(batch, default=-1) > min([*sparse, *dense], default=len(sizes)) or max(sparse, default=-1) > min(
        dense, default=len(sizes)
    ):
        raise ChoiceError(f"{what}: {tuple(dims)} mixes batch, sparse and dense dimensions of {mat!r}")
    n_batch = min(dims[n:], default=len(sizes))
    n_dense = len(sizes) - min(dense) if dense else 0
    n_sparse = len(sizes) - n_batch - n_dense
    if math.prod(mat.sparse_shape) != math.prod(sizes[n_batch : n_batch + n_sparse]):
        raise UnsupportedError(f"{what}: sparse dimensions of {mat!r} would be repeated. `.todense()` comes first.")
    data, indices = mat.data, mat.indices
    lead, tail = sizes[:n_batch], sizes[n_batch + n_sparse :]
    if (n_batch, n_dense) != (n, mat.n_dense) or lead != mat.batch_shape or tail != mat.dense_shape:
        places = [*batch, n_batch]
        data = lax.broadcast_in_dim(data, (*lead, mat.nse, *tail), [*places, *[d + 1 - n_sparse for d in dense]])
        indices = lax.broadcast_in_dim(indices, (*lead, mat.nse, mat.n_sparse), [*places, n_batch + 1])
    if n_sparse != mat.n_sparse:
        beyond = tnp.any(indices >= limits(mat), axis=-1, keepdims=True)
        at = np.asarray([d - n_batch for d in sparse], np.intp)
        target = tnp.where(beyond, 1, tnp.zeros((*indices.shape[:-1], n_sparse), indices.dtype))
        indices = target.astype(indices.dtype).at[..., at].set(indices)
    return mat.like(data, indices, sizes)


def bcoo_concatenate(operands: Sequence[M], *, dimension: int) -> M:
    """Arrays of the same layout, one after the other along a batch or sparse dimension.

    >>> from tinyjax.experimental.sparse import eye
    >>> bcoo_concatenate([eye(2), eye(2)], dimension=0)
    BCOO(float64[4, 2], nse=4)
    """
    what = "bcoo_concatenate"
    mats = list(operands)
    if not mats:
        raise InputError(f"{what} needs at least one array")
    first = mats[0]
    axis = canonical_axis(dimension, first.ndim, what)
    rests = {(*mat.shape[:axis], *mat.shape[axis + 1 :]) for mat in mats if mat.ndim == first.ndim}
    if len(rests) != 1 or any(mat.ndim != first.ndim for mat in mats):
        raise ShapeError(f"{what}: shapes must agree but along {axis}, got {[mat.shape for mat in mats]}")
    if len({mat.n_batch for mat in mats}) > 1:
        mats = [bcoo_update_layout(mat, n_batch=min(mat.n_batch for mat in mats)) for mat in mats]
    n = mats[0].n_batch
    if len({mat.n_dense for mat in mats}) > 1:
        raise ShapeError(f"{what}: arrays must have the same n_dense, got {mats}. update_layout changes it.")
    if axis >= n + first.n_sparse and axis >= first.ndim - mats[0].n_dense:
        raise UnsupportedError(
            f"{what}: {axis} is a dense dimension of {first!r}. update_layout makes it a sparse one."
        )
    dtype = tnp.result_type(*[mat.data for mat in mats])
    index_dtype = tnp.result_type(*[mat.indices for mat in mats])
    size = sum(mat.shape[axis] for mat in mats)
    shape = (*first.shape[:axis], size, *first.shape[axis + 1 :])
    if axis < n:
        nse = max(mat.nse for mat in mats)
        mats = [resized(mat, nse) for mat in mats]
    parts: list[tuple[Array, Array]] = []
    start = 0
    for mat in mats:
        batch = mat.batch_shape
        data = tnp.broadcast_to(mat.data.astype(dtype), (*batch, *mat.data.shape[n:]))
        indices = tnp.broadcast_to(mat.indices.astype(index_dtype), (*batch, *mat.indices.shape[n:]))
        if axis >= n:
            beyond = tnp.any(indices >= limits(mat).astype(index_dtype), axis=-1, keepdims=True)
            moved = indices.at[..., axis - n].add(start)
            indices = tnp.where(beyond, tnp.asarray(shape[n : n + mat.n_sparse], dtype=index_dtype), moved)
            start += mat.shape[axis]
        parts.append((data, indices))
    along = min(n, axis)
    data, indices = (tnp.concatenate(arrays, axis=along) for arrays in zip(*parts, strict=True))
    return first.like(data, indices, shape)


def bcoo_reshape(
    mat: M, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, sharding: None = None
) -> M:
    """`lax.reshape`, for shapes that mix none of batch, sparse and dense dimensions. `dimensions`: the order in which
    the dimensions are taken, by default as they are.

    >>> from tinyjax.experimental.sparse import eye
    >>> bcoo_reshape(eye(2), new_sizes=(4,)).indices
    Array([[0],
           [3]], dtype=int32)
    """
    del sharding
    what = "bcoo_reshape"
    sizes = tuple(map(index, new_sizes))
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    if math.prod(sizes) != mat.size:
        raise ShapeError(f"{what}: {mat!r} doesn't have as many elements as the shape {sizes}")
    ends = [math.prod(sizes[:i]) for i in range(len(sizes) + 1)]
    batch_size = math.prod(mat.batch_shape)
    both = batch_size * math.prod(mat.sparse_shape)

    def cut(size: int, kind: bool) -> int:
        """Where the dimensions of these kinds end: as late as may be, unless there are none."""
        found = [i for i, end in enumerate(ends) if end == size]
        if not found:
            raise ChoiceError(
                f"{what}: {sizes} mixes batch, sparse and dense dimensions of {mat!r}. update_layout changes them."
            )
        return found[-1] if kind else found[0]

    if mat.size:
        i = cut(batch_size, bool(mat.n_batch))
        j = max(i, cut(both, True)) if mat.n_dense or mat.n_sparse else i
        j = len(sizes) if not mat.n_dense else j
    else:
        i, j = _cut_empty(what, mat, sizes)
    batch, sparse, dense = sizes[:i], sizes[i:j], sizes[j:]
    old = mat.batch_shape
    data = tnp.broadcast_to(mat.data, (*old, *mat.data.shape[mat.n_batch :])).reshape(*batch, mat.nse, *dense)
    own = tnp.broadcast_to(mat.indices, (*old, *mat.indices.shape[mat.n_batch :]))
    own = own.reshape(*batch, mat.nse, mat.n_sparse)
    beyond = tnp.any(own >= limits(mat), axis=-1, keepdims=True)
    if sparse == mat.sparse_shape:
        return mat.like(data, own, sizes, indices_sorted=mat.indices_sorted, unique_indices=mat.unique_indices)
    flat = tnp.zeros(own.shape[:-1], np.int64)
    for column, size in zip(columns(own), mat.sparse_shape, strict=True):
        flat = flat * size + tnp.minimum(column, max(size - 1, 0))
    new: list[Array] = []
    for size in reversed(sparse):
        new.append(flat % max(size, 1))
        flat = flat // max(size, 1)
    if not new:
        found = tnp.zeros((*own.shape[:-1], 0), own.dtype)
        data = chosen(lax.expand_dims(~beyond[..., 0], range(i + 1, i + 1 + len(dense))), data)
    else:
        found = tnp.stack(new[::-1], axis=-1).astype(own.dtype)
        found = tnp.where(beyond, tnp.asarray(sparse, dtype=own.dtype), found)
    return mat.like(data, found, sizes)


def _cut_empty(what: str, mat: M, sizes: tuple[int, ...]) -> tuple[int, int]:
    """Where kinds end in a shape without elements: as they were, where the sizes allow it."""
    n, m = mat.n_batch, mat.n_dense
    for i in range(len(sizes) + 1):
        for j in range(len(sizes), i - 1, -1):
            pairs = ((sizes[:i], mat.batch_shape), (sizes[i:j], mat.sparse_shape), (sizes[j:], mat.dense_shape))
            if all(math.prod(a) == math.prod(b) for a, b in pairs) and (n or not i) and (m or j == len(sizes)):
                return i, j
    raise ChoiceError(f"{what}: {sizes} mixes batch, sparse and dense dimensions of {mat!r}")
