"""Products and sums of products: what stands in the places of stored elements is gathered, and sums are scattered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.make_jaxpr import eval_shape
from tinyjax.errors import ShapeError, UnsupportedError
from tinyjax.experimental.sparse.batches import added, chosen, columns, over_batches, padded, summed, taken
from tinyjax.experimental.sparse.conversion import bcoo_sum_duplicates
from tinyjax.experimental.sparse.layouts import bcoo_squeeze, bcoo_transpose, bcoo_update_layout, moved
from tinyjax.experimental.sparse.storage import Coordinates, M, check_layout
from tinyjax.ir.aval import ShapedArray
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

#: Contracting axes of both operands, then batch axes of both.
DotDimensionNumbers: TypeAlias = tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]


@overload
def bcoo_dot_general(
    lhs: M, rhs: M, *, dimension_numbers: DotDimensionNumbers, precision: object = None,
    preferred_element_type: npt.DTypeLike | None = None, out_sharding: None = None,
) -> M: ...  # fmt: skip
@overload
def bcoo_dot_general(
    lhs: Coordinates, rhs: ArrayLike, *, dimension_numbers: DotDimensionNumbers, precision: object = None,
    preferred_element_type: npt.DTypeLike | None = None, out_sharding: None = None,
) -> Array: ...  # fmt: skip
@overload
def bcoo_dot_general(
    lhs: ArrayLike, rhs: Coordinates | ArrayLike, *, dimension_numbers: DotDimensionNumbers, precision: object = None,
    preferred_element_type: npt.DTypeLike | None = None, out_sharding: None = None,
) -> Array: ...  # fmt: skip
@overload
def bcoo_dot_general(
    lhs: Coordinates | ArrayLike, rhs: Coordinates | ArrayLike, *, dimension_numbers: DotDimensionNumbers,
    precision: object = None, preferred_element_type: npt.DTypeLike | None = None, out_sharding: None = None,
) -> Coordinates | Array: ...  # fmt: skip
def bcoo_dot_general(
    lhs: Coordinates | ArrayLike, rhs: Coordinates | ArrayLike, *, dimension_numbers: DotDimensionNumbers,
    precision: object = None, preferred_element_type: npt.DTypeLike | None = None, out_sharding: None = None,
) -> Coordinates | Array:  # fmt: skip
    """`lax.dot_general` of sparse arrays and others: an array, or if both operands are sparse, a sparse one.

    Batch axes of a sparse operand must be among its batch dimensions, or else `UnsupportedError`: `update_layout` makes
    them so.

    >>> import numpy as np
    >>> from tinyjax.experimental.sparse import eye
    >>> bcoo_dot_general(eye(2), np.array([3.0, 4.0]), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([3., 4.], dtype=float64)
    """
    del precision, out_sharding
    (left, right), (left_batch, right_batch) = (tuple(tuple(map(int, d)) for d in pair) for pair in dimension_numbers)
    numbers = ((left, right), (left_batch, right_batch))
    aval = _result(lhs, rhs, numbers, preferred_element_type)
    if isinstance(lhs, Coordinates):
        if isinstance(rhs, Coordinates):
            return _both_sparse(lhs, rhs, numbers, aval)
        return _sparse_dense(lhs, as_array(rhs), numbers, aval)
    if not isinstance(rhs, Coordinates):
        return lax.dot_general(lhs, rhs, numbers, preferred_element_type=preferred_element_type)
    found = _sparse_dense(rhs, as_array(lhs), ((right, left), (right_batch, left_batch)), aval)
    n_batch, own = len(left_batch), rhs.ndim - len(right)
    return found.transpose([*range(n_batch), *range(own, found.ndim), *range(n_batch, own)])


def _type(x: Coordinates | ArrayLike) -> ShapedArray:
    return ShapedArray(x.shape, x.dtype) if isinstance(x, Coordinates) else as_array(x).aval


def _result(
    lhs: Coordinates | ArrayLike,
    rhs: Coordinates | ArrayLike,
    numbers: DotDimensionNumbers,
    dtype: npt.DTypeLike | None,
) -> ShapedArray:
    """The type of the product of arrays; the errors of `lax.dot_general`."""
    types = [_type(x) for x in (lhs, rhs)]
    common = tnp.result_type(*[aval.dtype for aval in types])
    found: ShapedArray = eval_shape(
        lambda x, y: lax.dot_general(x, y, numbers, preferred_element_type=dtype),
        *[ShapedArray(aval.shape, common) for aval in types],
    )
    return found


def _apart(count: int, *taken: Sequence[int]) -> list[int]:
    """What is left of so many axes."""
    return [i for i in range(count) if not any(i in some for some in taken)]


Pairs: TypeAlias = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


def _sparse_dense(lhs: Coordinates, rhs: Array, numbers: Pairs, aval: ShapedArray) -> Array:
    (left, right), (left_batch, right_batch) = numbers
    if any(d >= lhs.n_batch for d in left_batch):
        raise _no_batch(lhs, left_batch)
    # The batch dimensions that are summed over come last, and become sparse ones.
    n, m = lhs.n_batch, lhs.n_batch + lhs.n_sparse
    over = [d for d in left if d < n]
    free = _apart(n, left_batch, over)
    lhs = bcoo_transpose(lhs, permutation=[*left_batch, *free, *over, *range(n, lhs.ndim)])
    lhs = bcoo_update_layout(lhs, n_batch=n - len(over))
    pairs = dict(zip(left, right, strict=True))
    sparse = [d for d in left if n <= d < m]
    dense = [d for d in left if d >= m]
    places = [*range(len(over)), *[d - n + len(over) for d in sparse]]
    order = [*right_batch, *[pairs[d] for d in (*over, *sparse, *dense)], *_apart(rhs.ndim, right_batch, right)]
    rhs = rhs.astype(aval.dtype).transpose(order)
    rhs = lax.expand_dims(rhs, range(len(left_batch), lhs.n_batch))
    kept = _apart(lhs.n_sparse, places)
    sizes = [lhs.sparse_shape[i] for i in kept]
    inner = tuple(d - m + 1 for d in dense)

    def product(data: Array, indices: Array, rhs: Array) -> Array:
        found = columns(indices)
        at = tuple(found[i] for i in places)
        if at:
            factor = taken(rhs, at)
        elif kept:
            factor = tnp.broadcast_to(rhs, (indices.shape[0], *rhs.shape))
        else:
            return lax.dot_general(summed(data, 0), rhs, (([d - 1 for d in inner], range(len(inner))), ((), ())))
        axes = range(1, 1 + len(inner))
        if not kept:  # the sum over stored elements is one of products
            return lax.dot_general(data, factor, (([0, *inner], [0, *axes]), ((), ())))
        terms = lax.dot_general(data, factor, ((inner, axes), ((0,), (0,))))
        target = tnp.zeros((*sizes, *terms.shape[1:]), terms.dtype)
        return added(target, tuple(found[i] for i in kept), terms)

    return over_batches(product, lhs.n_batch)(lhs.data.astype(aval.dtype), lhs.indices, rhs)


def _no_batch(mat: Coordinates, dims: Sequence[int]) -> UnsupportedError:
    return UnsupportedError(
        f"bcoo_dot_general: the batch axes {tuple(dims)} of {mat!r} must be among its batch dimensions. "
        f"update_layout(n_batch={max(dims) + 1}) makes them so."
    )


def _both_sparse(lhs: M, rhs: Coordinates, numbers: Pairs, aval: ShapedArray) -> M:
    """All pairs of elements are multiplied whose indices agree; those of equal indices are summed."""
    (left, right), (left_batch, right_batch) = numbers
    for mat, dims in ((lhs, left_batch), (rhs, right_batch)):
        if any(d >= mat.n_batch for d in dims):
            raise _no_batch(mat, dims)
    x, left = _batches_first(lhs, left_batch, left)
    y, right = _batches_first(rhs, right_batch, right)
    shared = len(left_batch)
    keep_x, keep_y = _apart(x.n_sparse, left), _apart(y.n_sparse, right)
    # The result's batch dimensions come first: those of the second operand can't if sparse ones of the first precede.
    if y.n_batch > shared and keep_x:
        y = bcoo_update_layout(y, n_batch=shared)
        right = tuple(d + rhs.n_batch - shared for d in right)
        keep_y = _apart(y.n_sparse, right)
    shape_x, shape_y = x.sparse_shape, y.sparse_shape
    sizes = (*[shape_x[i] for i in keep_x], *[shape_y[i] for i in keep_y])
    n_x, n_y = x.n_batch - shared, y.n_batch - shared

    def product(data_x: Array, at_x: Array, data_y: Array, at_y: Array) -> tuple[Array, Array]:
        at_x, at_y = padded(at_x, shape_x), padded(at_y, shape_y)
        there_x = tnp.all(at_x < np.asarray(shape_x, at_x.dtype), axis=-1)
        there_y = tnp.all(at_y < np.asarray(shape_y, at_y.dtype), axis=-1)
        meet = there_x[:, None] & there_y[None]
        for i, j in zip(left, right, strict=True):
            meet &= at_x[:, None, i] == at_y[None, :, j]
        data = chosen(meet, data_x[:, None] * data_y[None]).reshape(-1)
        pairs = meet.shape
        found = [tnp.broadcast_to(at_x[:, None, i], pairs) for i in keep_x]
        found += [tnp.broadcast_to(at_y[None, :, j], pairs) for j in keep_y]
        indices = tnp.stack(found, axis=-1) if found else tnp.zeros((*pairs, 0), at_x.dtype)
        beyond = np.asarray(sizes, indices.dtype)
        return data, tnp.where(meet[..., None], indices, beyond).reshape(data.shape[0], len(sizes))

    def each_y(data_x: Array, at_x: Array, data_y: Array, at_y: Array) -> tuple[Array, Array]:
        def run(data_y: Array, at_y: Array) -> tuple[Array, Array]:
            return product(data_x, at_x, data_y, at_y)

        return over_batches(run, n_y)(data_y, at_y)

    def each_x(data_x: Array, at_x: Array, data_y: Array, at_y: Array) -> tuple[Array, Array]:
        def run(data_x: Array, at_x: Array) -> tuple[Array, Array]:
            return each_y(data_x, at_x, data_y, at_y)

        return over_batches(run, n_x)(data_x, at_x)

    index_dtype = tnp.result_type(x.indices, y.indices)
    data, indices = over_batches(each_x, shared)(
        x.data.astype(aval.dtype),
        x.indices.astype(index_dtype),
        y.data.astype(aval.dtype),
        y.indices.astype(index_dtype),
    )
    found = lhs.like(data, indices, aval.shape)
    nse = min((x.nse if keep_x else 1) * (y.nse if keep_y else 1), math.prod(sizes))
    return bcoo_sum_duplicates(found, nse)


def _batches_first(mat: M, batch: Sequence[int], over: Sequence[int]) -> tuple[M, tuple[int, ...]]:
    """An operand whose batch axes come first, all of whose axes that are summed over are sparse, as none is dense; and
    which of the sparse ones those are."""
    if mat.n_dense:
        mat = bcoo_update_layout(mat, n_dense=0)
    n = mat.n_batch
    inner = [d for d in over if d < n]
    order = [*batch, *_apart(n, batch, inner), *inner, *range(n, mat.ndim)]
    mat = bcoo_update_layout(bcoo_transpose(mat, permutation=order), n_batch=n - len(inner))
    return mat, tuple(order.index(d) - mat.n_batch for d in over)


def bcoo_dot_general_sampled(
    A: ArrayLike,  # noqa: N803
    B: ArrayLike,  # noqa: N803
    indices: ArrayLike,
    *,
    dimension_numbers: DotDimensionNumbers,
) -> Array:
    """The elements of a product of arrays at indices, as those of a BCOO: (*batch, nse, n_sparse). Nothing else of the
    product is computed, where it has no batch axes and each axis of it is a sparse or dense dimension.

    >>> import numpy as np
    >>> x = np.arange(4.0).reshape(2, 2)
    >>> bcoo_dot_general_sampled(
    ...     x, x, np.array([[0, 1], [1, 1]]), dimension_numbers=(((1,), (0,)), ((), ()))
    ... )
    Array([ 3., 11.], dtype=float64)
    """
    (left, right), (left_batch, right_batch) = (tuple(tuple(map(int, d)) for d in pair) for pair in dimension_numbers)
    numbers = ((left, right), (left_batch, right_batch))
    x, y, places = as_array(A), as_array(B), as_array(indices)
    aval = _result(x, y, numbers, None)
    n_batch, n_sparse = places.ndim - 2, places.shape[-1]
    check_layout("bcoo_dot_general_sampled", aval.ndim, n_batch, aval.ndim - n_batch - n_sparse)
    free_x, free_y = _apart(x.ndim, left, left_batch), _apart(y.ndim, right, right_batch)
    if n_batch or left_batch or n_sparse != len(free_x) + len(free_y):
        whole = lax.dot_general(x, y, numbers)

        def sampled(at: Array, whole: Array) -> Array:
            if not n_sparse:
                return tnp.broadcast_to(whole, (at.shape[0], *whole.shape))
            return taken(whole, tuple(columns(at)))

        return over_batches(sampled, n_batch)(places, whole)
    found = columns(places)
    rows = x.astype(aval.dtype).transpose([*free_x, *left])
    cols = y.astype(aval.dtype).transpose([*free_y, *right])
    at_x, at_y = tuple(found[: len(free_x)]), tuple(found[len(free_x) :])
    nse = places.shape[0]
    one = taken(rows, at_x) if at_x else tnp.broadcast_to(rows, (nse, *rows.shape))
    other = taken(cols, at_y) if at_y else tnp.broadcast_to(cols, (nse, *cols.shape))
    axes = range(1, 1 + len(left))
    return lax.dot_general(one, other, ((axes, axes), ((0,), (0,))))


def matmul(x: Coordinates | ArrayLike, y: Coordinates | ArrayLike) -> Coordinates | Array:
    """NumPy's `x @ y`, with leading axes that are repeated where they are missing or have size 1."""
    one, other = _type(x).shape, _type(y).shape
    if not one or not other:
        raise ShapeError(
            f"@: operands must have axes, got shapes {one} and {other}. Write * for a product by a scalar."
        )
    count = max(len(one), len(other), 2) - 2
    sizes_x, sizes_y = (dict(enumerate(shape[:-2], count - max(len(shape) - 2, 0))) for shape in (one, other))
    drop_x = [k for k, size in sizes_x.items() if size == 1 and sizes_y.get(k, 1) != 1]
    drop_y = [k for k, size in sizes_y.items() if size == 1 and sizes_x.get(k, 1) != 1]
    x, y = _squeezed(x, sizes_x, drop_x), _squeezed(y, sizes_y, drop_y)
    lead_x, lead_y = ([k for k in sizes if k not in drop] for sizes, drop in ((sizes_x, drop_x), (sizes_y, drop_y)))
    shared = [k for k in lead_x if k in lead_y]
    batch = [lead_x.index(k) for k in shared], [lead_y.index(k) for k in shared]
    rows, columns_ = ([count] if len(one) > 1 else []), ([count + 1] if len(other) > 1 else [])
    numbers = (((len(lead_x) + len(rows),), (len(lead_y),)), batch)
    found = bcoo_dot_general(x, y, dimension_numbers=numbers)
    axes = [*shared, *[k for k in lead_x if k not in shared], *rows, *[k for k in lead_y if k not in shared], *columns_]
    order = [axes.index(k) for k in sorted(axes)]
    if order == sorted(order):
        return found
    return moved(found, order) if isinstance(found, Coordinates) else found.transpose(order)


def _squeezed(x: Coordinates | ArrayLike, sizes: dict[int, int], drop: Sequence[int]) -> Coordinates | ArrayLike:
    """An operand without leading axes of size 1 that are repeated: where they are is counted as in the result."""
    axes = [list(sizes).index(k) for k in drop]
    if not axes:
        return x
    return bcoo_squeeze(x, dimensions=axes) if isinstance(x, Coordinates) else lax.squeeze(x, axes)
