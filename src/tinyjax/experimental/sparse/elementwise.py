"""Element by element: what keeps zeros as they are is done to the stored elements alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.shaping import canonical_axes
from tinyjax.errors import ShapeError, UnsupportedError
from tinyjax.experimental.sparse.batches import chosen, columns, over_batches, padded, summed, taken
from tinyjax.experimental.sparse.conversion import bcoo_sum_duplicates, bcoo_todense, extracted
from tinyjax.experimental.sparse.layouts import bcoo_update_layout
from tinyjax.experimental.sparse.reshaping import bcoo_broadcast_in_dim
from tinyjax.experimental.sparse.storage import Coordinates, M, across_dense, limits, valid
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def bcoo_multiply_dense(sp_mat: Coordinates, v: ArrayLike) -> Array:
    """The data of the product with an array, which is repeated to the shape of the sparse one.

    Raises:
      ShapeError: the product is larger than the sparse array.

    >>> import numpy as np
    >>> from tinyjax.experimental.sparse import eye
    >>> bcoo_multiply_dense(eye(2), np.array([3.0, 4.0]))
    Array([3., 4.], dtype=float64)
    """
    factor, shape = as_array(v), sp_mat.shape
    if not factor.ndim:
        return sp_mat.data * factor
    if factor.shape == shape:
        return sp_mat.data * extracted(sp_mat, factor, True)
    if factor.ndim > len(shape) or any(
        size not in (1, full) for size, full in zip(factor.shape[::-1], shape[::-1], strict=False)
    ):
        raise ShapeError(
            f"a sparse array is multiplied by arrays that can be repeated to its shape, so that the result has no more "
            f"elements: {sp_mat!r} isn't by {factor.aval}. `.todense()` comes first, if that is right."
        )
    factor = lax.expand_dims(factor, range(len(shape) - factor.ndim))
    sparse = factor.shape[sp_mat.n_batch : sp_mat.n_batch + sp_mat.n_sparse]

    def product(data: Array, indices: Array, factor: Array) -> Array:
        if not sparse:
            return data * factor
        at = [
            tnp.where(i < full, 0, 1) if size == 1 else i
            for i, size, full in zip(columns(indices), sparse, sizes, strict=True)
        ]
        return data * taken(factor, tuple(at))

    sizes = sp_mat.sparse_shape
    return over_batches(product, sp_mat.n_batch)(sp_mat.data, sp_mat.indices, factor)


def bcoo_multiply_sparse(lhs: M, rhs: Coordinates) -> M:
    """The product of sparse arrays, element by element; dimensions of size 1 are repeated. It stores each pair of
    elements, as padding if their indices differ.

    >>> from tinyjax.experimental.sparse import eye
    >>> bcoo_multiply_sparse(eye(2), eye(2)).todense()
    Array([[1., 0.],
           [0., 1.]], dtype=float64)
    """
    if lhs.ndim != rhs.ndim or any(a != b and 1 not in (a, b) for a, b in zip(lhs.shape, rhs.shape, strict=False)):
        raise ShapeError(
            f"bcoo_multiply_sparse: {lhs!r} and {rhs!r} must have the same shape, or 1 where one is repeated"
        )
    n_batch, n_dense = min(lhs.n_batch, rhs.n_batch), min(lhs.n_dense, rhs.n_dense)
    x = bcoo_update_layout(lhs, n_batch=n_batch, n_dense=n_dense)
    y = bcoo_update_layout(rhs, n_batch=n_batch, n_dense=n_dense)
    shape = tuple(b if a == 1 else a for a, b in zip(lhs.shape, rhs.shape, strict=True))
    pairs = list(zip(x.sparse_shape, y.sparse_shape, strict=True))
    sizes = shape[n_batch : n_batch + x.n_sparse]
    index_dtype = tnp.result_type(x.indices, y.indices)

    def product(data_x: Array, at_x: Array, data_y: Array, at_y: Array) -> tuple[Array, Array]:
        meet = there(at_x, x.sparse_shape)[:, None] & there(at_y, y.sparse_shape)[None]
        found: list[Array] = []
        for i, (a, b) in enumerate(pairs):
            own, other = at_x[:, None, i], at_y[None, :, i]
            if a == b:
                meet &= own == other
            found.append(tnp.broadcast_to(other if a == 1 else own, meet.shape))
        indices = tnp.stack(found, axis=-1) if found else tnp.zeros((*meet.shape, 0), index_dtype)
        indices = tnp.where(meet[..., None], indices, np.asarray(sizes, indices.dtype))
        data = chosen(across_dense(meet, n_dense), data_x[:, None] * data_y[None])
        count = math.prod(meet.shape)
        return data.reshape(count, *data.shape[2:]), indices.reshape(count, len(pairs))

    def there(at: Array, sizes: Sequence[int]) -> Array:
        return tnp.all(padded(at, sizes) < np.asarray(sizes, at.dtype), axis=-1)

    data, indices = over_batches(product, n_batch)(
        x.data, x.indices.astype(index_dtype), y.data, y.indices.astype(index_dtype)
    )
    return lhs.like(data, indices, shape, unique_indices=x.unique_indices and y.unique_indices)


def multiply(x: M, y: Coordinates | ArrayLike) -> M:
    """The product, as sparse as the first operand at least."""
    if not isinstance(y, Coordinates):
        return x.with_data(bcoo_multiply_dense(x, y))
    if y.indices is x.indices and x.unique_indices and x.shape == y.shape:
        return x.with_data(x.data * y.data)
    rank = max(x.ndim, y.ndim)
    return bcoo_multiply_sparse(_of_rank(x, rank), _of_rank(y, rank))


def _of_rank(x: M, rank: int) -> M:
    missing = rank - x.ndim
    if not missing:
        return x
    return bcoo_broadcast_in_dim(x, shape=(*[1] * missing, *x.shape), broadcast_dimensions=range(missing, rank))


def divide(x: M, y: Coordinates | ArrayLike) -> M:
    """The quotient by an array."""
    if isinstance(y, Coordinates):
        raise UnsupportedError(
            "division by a sparse array isn't defined, as its zeros would give inf or nan. Write .todense() if that is "
            "right."
        )
    return x.with_data(bcoo_multiply_dense(x, tnp.ones((), x.data.dtype) / as_array(y)))


def add(x: M, y: Coordinates | ArrayLike) -> M | Array:
    """The sum: sparse if both are."""
    if not isinstance(y, Coordinates):
        dense = as_array(y)
        if dense.shape != x.shape:
            raise ShapeError(
                f"the sum of a sparse array and another is an array of the same shape: {dense.aval} doesn't fit {x!r}. "
                "`.todense()` comes first, if it is to be repeated."
            )
        return bcoo_todense(x) + dense
    if x.shape != y.shape:
        raise ShapeError(f"sparse arrays of different shapes, {x!r} and {y!r}, aren't added. `.todense()` comes first.")
    if x.indices is y.indices and x.data.ndim == y.data.ndim:
        return x.with_data(x.data + y.data)
    n_batch, n_dense = min(x.n_batch, y.n_batch), min(x.n_dense, y.n_dense)
    one, other = (bcoo_update_layout(mat, n_batch=n_batch, n_dense=n_dense) for mat in (x, y))
    dtype = tnp.result_type(x.data, y.data)
    index_dtype = tnp.result_type(x.indices, y.indices)
    batch = one.batch_shape
    data = [tnp.broadcast_to(mat.data.astype(dtype), (*batch, *mat.data.shape[n_batch:])) for mat in (one, other)]
    found = [mat.indices.astype(index_dtype) for mat in (one, other)]
    if found[0].shape[:n_batch] != found[1].shape[:n_batch]:
        found = [tnp.broadcast_to(indices, (*batch, *indices.shape[n_batch:])) for indices in found]
    return x.like(tnp.concatenate(data, axis=n_batch), tnp.concatenate(found, axis=n_batch), x.shape)


def negative(x: M) -> M:
    return x.with_data(-x.data)


def subtract(x: M, y: Coordinates | ArrayLike) -> M | Array:
    """The difference: sparse if both are."""
    return add(x, negative(y) if isinstance(y, Coordinates) else -as_array(y))


def each(x: M, function: Callable[[Array], Array]) -> M:
    """A function that takes 0 to 0, of each element: duplicates are summed before."""
    found = x if x.unique_indices else bcoo_sum_duplicates(x, x.nse)
    return found.with_data(function(found.data))


def bcoo_reduce_sum(mat: M, *, axes: Sequence[int]) -> M:
    """Sums along some dimensions: their indices are left out, and elements that then have the same ones aren't summed
    yet.

    >>> from tinyjax.experimental.sparse import eye
    >>> bcoo_reduce_sum(eye(2, 3), axes=[0]).todense()
    Array([1., 1., 0.], dtype=float64)
    """
    shape, n, m = mat.shape, mat.n_batch, mat.n_batch + mat.n_sparse
    over = canonical_axes(axes, mat.ndim, "bcoo_reduce_sum")
    batch = [d for d in over if d < n]
    left = [i for i in range(mat.n_sparse) if i + n not in over]
    dense = tuple(d - mat.n_sparse + 1 for d in over if d >= m)
    data = tnp.sum(mat.data, axis=dense)
    indices, there = mat.indices, valid(mat)
    if len(left) < mat.n_sparse:  # padding may be told by the index that goes
        data = chosen(across_dense(there, data.ndim - there.ndim), data)
        indices = tnp.where(there[..., None], indices, limits(mat))[..., np.asarray(left, np.intp)]
    for d in batch:
        full = shape[d]
        if indices.shape[d] == 1 and data.shape[d] != 1:
            data = tnp.sum(data, axis=d, keepdims=True)
        elif data.shape[d] == 1 != indices.shape[d]:
            data = tnp.broadcast_to(data, (*data.shape[:d], full, *data.shape[d + 1 :]))
    kept = [d for d in range(n) if d not in batch]
    order = [*kept, *batch]
    nse = mat.nse * math.prod(data.shape[d] for d in batch)
    data = data.transpose([*order, *range(n, data.ndim)])
    indices = indices.transpose([*order, n, n + 1])
    data = data.reshape(*data.shape[: len(kept)], nse, *data.shape[n + 1 :])
    indices = indices.reshape(*indices.shape[: len(kept)], nse, len(left))
    return mat.like(data, indices, [size for d, size in enumerate(shape) if d not in over])


def total(mat: M, axes: Sequence[int]) -> M | Array:
    """The same; an array if nothing is left to be sparse along."""
    found = bcoo_reduce_sum(mat, axes=axes)
    return found if found.ndim else summed(found.data, 0)
