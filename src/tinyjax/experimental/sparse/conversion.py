"""From arrays to their stored elements and back; and duplicates, which are summed."""

from __future__ import annotations

import math
from operator import index
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import ConcretizationError, InputError, ShapeError
from tinyjax.experimental.sparse import batches
from tinyjax.experimental.sparse.batches import added, chosen, columns, over_batches, summed, taken
from tinyjax.experimental.sparse.storage import Coordinates, M, across_dense, check_layout, limits
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def bcoo_todense(mat: Coordinates) -> Array:
    """The array that a BCOO stands for: duplicates are summed, padding is left out.

    >>> import numpy as np
    >>> from tinyjax.experimental.sparse import BCOO
    >>> bcoo_todense(BCOO((np.array([1.0, 2.0, 3.0]), np.array([[0], [2], [2]])), shape=(4,)))
    Array([1., 0., 5., 0.], dtype=float64)
    """
    sparse_shape = mat.sparse_shape

    def dense(data: Array, indices: Array) -> Array:
        if not sparse_shape:
            return summed(data, 0)
        return added(tnp.zeros((*sparse_shape, *data.shape[1:]), data.dtype), tuple(columns(indices)), data)

    return over_batches(dense, mat.n_batch)(mat.data, mat.indices)


def stored_elements(
    mat: Array, *, nse: int | None, n_batch: int, n_dense: int, index_dtype: npt.DTypeLike
) -> tuple[Array, Array]:
    """The elements of an array that aren't zero, and their indices, in each batch: `nse` of them, with padding."""
    n_batch, n_sparse, n_dense = check_layout("bcoo_fromdense", mat.ndim, n_batch, n_dense)
    mask = mat != 0
    if n_dense:
        mask = tnp.any(mask, axis=tuple(range(mat.ndim - n_dense, mat.ndim)))
    count = tnp.sum(mask, axis=tuple(range(n_batch, mask.ndim)), dtype=np.int32)
    size = _known("bcoo_fromdense", tnp.max(count, initial=0) if nse is None else nse)

    def found(mask: Array, count: Array, mat: Array) -> tuple[Array, Array]:
        if n_sparse:
            indices = tnp.stack(tnp.nonzero(mask, size=size, fill_value=mask.shape), axis=-1).astype(index_dtype)
            if not mask.size:  # where nothing is found, `nonzero` gives zeros
                indices = tnp.broadcast_to(tnp.asarray(mask.shape, dtype=indices.dtype), indices.shape)
        else:
            indices = tnp.zeros((size, 0), index_dtype)
        # Without indices there is no padding: the first place is the array's, whatever its elements are now.
        there = across_dense(tnp.arange(size) < (count if n_sparse else 1), n_dense)
        return chosen(there, _taken(indices, mat)), indices

    return over_batches(found, n_batch)(mask, count, mat)


def _known(what: str, nse: SupportsIndex) -> int:
    try:
        return index(nse)
    except ConcretizationError:
        raise InputError(
            f"{what}: how many elements are stored depends on values that aren't known while this is traced. Say "
            "how many at most, with nse=."
        ) from None
    except TypeError:
        raise InputError(f"{what}: nse must be a whole number, got {nse!r}") from None


def _taken(indices: Array, mat: Array) -> Array:
    """The elements of one batch at these indices; 0 beyond the array."""
    if not indices.shape[-1]:
        return tnp.broadcast_to(mat, (indices.shape[0], *mat.shape))
    return taken(mat, tuple(columns(indices)))


def bcoo_extract(sparr: M, arr: ArrayLike, *, assume_unique: bool | None = None) -> M:
    """The elements of an array, of the same shape, that a BCOO has a place for.

    Of duplicates, the first has the element and the others 0, so that they sum to it; unless `assume_unique`, by
    default what is known of the indices, says that there are none.

    >>> import numpy as np
    >>> from tinyjax.experimental.sparse import eye
    >>> bcoo_extract(eye(2), np.array([[1.0, 2.0], [3.0, 4.0]])).data
    Array([1., 4.], dtype=float64)
    """
    if not isinstance(sparr, Coordinates):
        raise InputError(f"bcoo_extract takes a BCOO and an array, got {sparr!r}")
    array = as_array(arr)
    if array.shape != sparr.shape:
        raise ShapeError(f"bcoo_extract: the array must have the shape {sparr.shape}, got {array.aval}")
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    return sparr.with_data(extracted(sparr, array, unique))


def extracted(mat: Coordinates, array: Array, unique: bool) -> Array:
    """The data of `bcoo_extract`."""

    def each(indices: Array, array: Array) -> Array:
        found = _taken(indices, array)
        if unique:
            return found
        return chosen(across_dense(batches.first_of_equal(indices), mat.n_dense), found)

    return over_batches(each, mat.n_batch)(mat.indices, array)


def bcoo_sort_indices(mat: M) -> M:
    """The same array, with indices in lexicographic order in each batch.

    >>> import numpy as np
    >>> from tinyjax.experimental.sparse import BCOO
    >>> mat = bcoo_sort_indices(BCOO((np.array([1.0, 2.0]), np.array([[2], [0]])), shape=(4,)))
    >>> mat.data, mat.indices_sorted
    (Array([2., 1.], dtype=float64), True)
    """
    indices, perm = over_batches(batches.order, mat.n_batch)(mat.indices)
    data = over_batches(lambda data, perm: data[perm], mat.n_batch)(mat.data, perm)
    return mat.like(data, indices, mat.shape, indices_sorted=True, unique_indices=mat.unique_indices)


def bcoo_sum_duplicates(mat: M, nse: int | None = None) -> M:
    """The same array, with indices in order, and no two of them equal in a batch.

    `nse` is how many elements the result stores: what is missing is padding, what is too much is left out, so that it
    may be used where the indices aren't known, as in `jit`. By default it is as many as there are.

    >>> import numpy as np
    >>> from tinyjax.experimental.sparse import BCOO
    >>> mat = BCOO((np.array([1.0, 2.0, 3.0]), np.array([[2], [0], [2]])), shape=(4,))
    >>> bcoo_sum_duplicates(mat).data
    Array([2., 4.], dtype=float64)
    """
    sizes = mat.sparse_shape
    found, of_each, count = over_batches(lambda x: batches.groups(x, sizes), mat.n_batch)(mat.indices)
    if nse is None and not mat.n_sparse:
        nse = 1
    size = _known("bcoo_sum_duplicates", tnp.max(count, initial=0) if nse is None else nse)
    fill = tnp.broadcast_to(limits(mat), (*found.shape[:-2], max(size - mat.nse, 0), mat.n_sparse))
    indices = tnp.concatenate([found[..., :size, :], fill], axis=-2)

    def joined(data: Array, of_each: Array) -> Array:
        return added(tnp.zeros((size, *data.shape[1:]), data.dtype), of_each, data)

    data = over_batches(joined, mat.n_batch)(mat.data, of_each)
    return mat.like(data, indices, mat.shape, indices_sorted=True, unique_indices=True)


def without_zeros(mat: M, nse: int | None = None) -> M:
    """The same without elements that are zero, and without duplicates. Its derivatives are those of what is left."""
    zero = tnp.all(mat.data == 0, axis=tuple(range(mat.n_batch + 1, mat.data.ndim)))
    repeated = tuple(i for i in range(mat.n_batch) if mat.indices.shape[i] == 1)
    zero = tnp.all(zero, axis=repeated, keepdims=True) if repeated else zero
    indices = tnp.where(zero[..., None], limits(mat), mat.indices)
    return bcoo_sum_duplicates(mat.like(mat.data, indices, mat.shape), nse)


def resized(mat: M, nse: int) -> M:
    """The same with padding, up to so many elements; or without the last ones, down to so many."""
    missing = nse - mat.nse
    n_batch = mat.n_batch
    if missing <= 0:
        data, indices = lax.slice_in_dim(mat.data, 0, nse, axis=n_batch), mat.indices[..., :nse, :]
    else:
        fill = tnp.broadcast_to(limits(mat), (*mat.indices.shape[:-2], missing, mat.n_sparse))
        zeros = tnp.zeros((*mat.data.shape[:n_batch], missing, *mat.dense_shape), mat.dtype)
        data = tnp.concatenate([mat.data, zeros], axis=n_batch)
        indices = tnp.concatenate([mat.indices, fill], axis=-2)
    return mat.like(data, indices, mat.shape, indices_sorted=mat.indices_sorted, unique_indices=mat.unique_indices)


def most(mat: Coordinates) -> int:
    """How many different elements there may be in each batch."""
    return math.prod(mat.sparse_shape)
