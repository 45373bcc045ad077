"""Parts of sparse arrays, by slices and indices: what lies outside becomes padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from types import EllipsisType
from typing import TYPE_CHECKING

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.vectorize import vmap
from tinyjax.errors import IndexingError, InputError, ShapeError, UnsupportedError
from tinyjax.experimental.sparse.batches import chosen
from tinyjax.experimental.sparse.conversion import bcoo_sum_duplicates, most
from tinyjax.experimental.sparse.layouts import bcoo_rev, bcoo_squeeze, moved
from tinyjax.experimental.sparse.reshaping import bcoo_broadcast_in_dim, bcoo_reshape
from tinyjax.experimental.sparse.storage import M, across_dense, limits
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

if TYPE_CHECKING:
    from tinyjax.lax import GatherDimensionNumbers


def bcoo_slice(
    mat: M,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> M:
    """`lax.slice`.

    >>> from tinyjax.experimental.sparse import eye
    >>> bcoo_slice(eye(3), start_indices=(1, 0), limit_indices=(3, 3)).todense()
    Array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float64)
    """
    starts, ends = list(map(index, start_indices)), list(map(index, limit_indices))
    steps = [1] * mat.ndim if strides is None else list(map(index, strides))
    if not len(starts) == len(ends) == len(steps) == mat.ndim:
        raise ShapeError(f"bcoo_slice: there must be a start, a limit and a stride for each dimension of {mat!r}")
    if any(step < 1 for step in steps) or not all(
        0 <= start <= end <= size for start, end, size in zip(starts, ends, mat.shape, strict=True)
    ):
        raise ShapeError(
            f"bcoo_slice: slices from {starts} to {ends} by {steps} must be within the shape {mat.shape}, with "
            "steps of at least 1"
        )
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    parts = [slice(*bounds) for bounds in zip(starts, ends, steps, strict=True)]
    shape = [max(0, -(-(end - start) // step)) for start, end, step in zip(starts, ends, steps, strict=True)]
    return _part(mat, parts, shape, starts[n:m], ends[n:m], steps[n:m])


def _part(
    mat: M,
    parts: Sequence[slice],
    shape: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int],
) -> M:
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    every = slice(None)

    def cut(array: Array) -> tuple[slice, ...]:
        # A repeated batch dimension stays repeated, unless nothing is left of it.
        return tuple(
            every if own == 1 != size and new else part
            for own, size, new, part in zip(array.shape, mat.shape[:n], shape, parts, strict=False)
        )

    data = mat.data[(*cut(mat.data), every, *parts[m:])]
    indices = mat.indices[cut(mat.indices)]
    if all(part == slice(0, size, 1) for part, size in zip(parts[n:m], mat.sparse_shape, strict=True)):
        return mat.like(data, indices, shape, indices_sorted=mat.indices_sorted, unique_indices=mat.unique_indices)
    dtype = indices.dtype
    low, high, step = (tnp.asarray(tuple(x), dtype=dtype) for x in (starts, ends, steps))
    inside = tnp.all((indices >= low) & (indices < high) & ((indices - low) % step == 0), axis=-1)
    return _kept(mat, data, (indices - low) // step, inside, shape)


def _kept(mat: M, data: Array, indices: Array, inside: Array, shape: Sequence[int]) -> M:
    """The elements that are inside; no more than there is room for."""
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    beyond = tnp.asarray(tuple(shape[n:m]), dtype=indices.dtype)
    data = chosen(across_dense(inside, mat.n_dense), data)
    found = mat.like(data, tnp.where(inside[..., None], indices, beyond), shape, unique_indices=mat.unique_indices)
    room = most(found)
    return bcoo_sum_duplicates(found, room) if mat.nse > room else found


def bcoo_dynamic_slice(mat: M, start_indices: Sequence[ArrayLike], slice_sizes: Sequence[int]) -> M:
    """`lax.dynamic_slice`: a part of these sizes, whose start may be traced. It is moved where it would reach beyond.

    >>> from tinyjax import jit
    >>> from tinyjax.experimental.sparse import eye
    >>> jit(lambda i: bcoo_dynamic_slice(eye(3), (i, 0), (1, 3)).todense())(1)
    Array([[0., 1., 0.]], dtype=float64)
    """
    sizes = list(map(index, slice_sizes))
    starts = [as_array(start) for start in start_indices]
    if not len(starts) == len(sizes) == mat.ndim:
        raise ShapeError(f"bcoo_dynamic_slice: there must be a start and a size for each dimension of {mat!r}")
    if not all(0 <= size <= full for size, full in zip(sizes, mat.shape, strict=True)):
        raise ShapeError(f"bcoo_dynamic_slice: sizes {sizes} must be within the shape {mat.shape}")
    for start in starts:
        if start.shape or not np.issubdtype(start.dtype, np.integer):
            raise InputError(f"bcoo_dynamic_slice: starts must be integers, got {start.aval}")
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    zero = as_array(np.zeros((), np.int64))

    def bounds(array: Array) -> tuple[list[Array], list[int]]:
        kept = [own == 1 != full for own, full in zip(array.shape, mat.shape[:n], strict=False)]
        begin = [zero if one else start for one, start in zip(kept, starts, strict=False)]
        length = [min(1, size) if one else size for one, size in zip(kept, sizes, strict=False)]
        return begin, length

    begin, length = bounds(mat.data)
    data = lax.dynamic_slice(mat.data, _alike([*begin, zero, *starts[m:]]), [*length, mat.nse, *sizes[m:]])
    begin, length = bounds(mat.indices)
    indices = lax.dynamic_slice(mat.indices, _alike([*begin, zero, zero]), [*length, mat.nse, mat.n_sparse])
    if not mat.n_sparse:
        return mat.like(data, indices, sizes)
    dtype = indices.dtype
    low = tnp.stack([start.astype(dtype) for start in starts[n:m]])
    low = tnp.where(low < 0, low + limits(mat), low)
    size = tnp.asarray(tuple(sizes[n:m]), dtype=dtype)
    low = tnp.clip(low, 0, limits(mat) - size)
    inside = tnp.all((indices >= low) & (indices < low + size), axis=-1)
    return _kept(mat, data, indices - low, inside, sizes)


def _alike(starts: Sequence[Array]) -> list[Array]:
    """In one dtype."""
    dtype = tnp.result_type(*starts)
    return [start.astype(dtype) for start in starts]


def bcoo_gather(
    operand: M,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: object = None,
    fill_value: None = None,
) -> M:
    """`lax.gather`, of slices that are within the array (`mode` None or "promise_in_bounds").

    >>> import numpy as np
    >>> from tinyjax import lax
    >>> from tinyjax.experimental.sparse import eye
    >>> rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> bcoo_gather(eye(3), np.array([[2], [0]]), rows, (1, 3)).todense()
    Array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float64)
    """
    del unique_indices, indices_are_sorted, fill_value
    starts = as_array(start_indices)
    if mode is not None and "promise" not in str(mode).lower():
        raise UnsupportedError(f"bcoo_gather: mode must be None or 'promise_in_bounds', got {mode!r}")
    return gathered(
        operand,
        starts,
        tuple(dimension_numbers.offset_dims),
        tuple(dimension_numbers.collapsed_slice_dims),
        tuple(dimension_numbers.start_index_map),
        tuple(slice_sizes),
    )


def gathered(
    mat: M,
    starts: Array,
    offset_dims: tuple[int, ...],
    collapsed: tuple[int, ...],
    start_index_map: tuple[int, ...],
    slice_sizes: tuple[int, ...],
) -> M:
    """The slices that start at these indices: each is a batch, whose dimensions are then put where they belong."""
    rows = starts.reshape(-1, len(start_index_map))

    def part(row: Array) -> M:
        begin: list[ArrayLike] = [np.zeros((), np.int64)] * mat.ndim
        for i, axis in enumerate(start_index_map):
            begin[axis] = row[i]
        return bcoo_squeeze(bcoo_dynamic_slice(mat, begin, slice_sizes), dimensions=collapsed)

    found = vmap(part)(rows)
    lead = starts.shape[:-1]
    data = found.data.reshape(*lead, *found.data.shape[1:])
    indices = found.indices.reshape(*lead, *found.indices.shape[1:])
    shape = (*lead, *found.shape[1:])
    found = found.like(data, indices, shape)
    batch = [d for d in range(found.ndim) if d not in offset_dims]
    places = [*batch, *offset_dims]
    permutation = [places.index(d) for d in range(found.ndim)]
    return moved(found, permutation)


def indexed(mat: M, item: object) -> M:
    """What NumPy's indexing gives: by whole numbers, slices, None, `...`, and arrays of integers along one axis."""
    items = list(item) if isinstance(item, tuple) else [item]
    used = sum(1 for x in items if x is not None and not isinstance(x, EllipsisType))
    if used > mat.ndim:
        raise IndexingError(f"{mat!r} has {mat.ndim} dimensions, and is indexed along {used}")
    dots = [i for i, x in enumerate(items) if isinstance(x, EllipsisType)]
    at = dots[0] if dots else len(items)
    items[at : at + len(dots)] = [slice(None)] * (mat.ndim - used)
    wanted: list[int | None] = []  # the axes of the result, before those that go are removed
    gone: list[int] = []
    starts: list[ArrayLike] = []
    sizes: list[int] = []
    steps: list[int] = []
    backwards: list[int] = []
    arrays: list[tuple[int, Array]] = []
    for x in items:
        if x is None:
            wanted.append(None)
            continue
        axis = len(starts)
        size = mat.shape[axis]
        wanted.append(axis)
        if isinstance(x, slice):
            start, stop, step = x.indices(size)
            count = len(range(start, stop, step))
            if step < 0:
                backwards.append(axis)
                start, step = start + (count - 1) * step if count else 0, -step
            starts.append(start if count else 0)
            sizes.append((count - 1) * step + 1 if count else 0)
            steps.append(step)
            continue
        array = as_array(x)
        if array.dtype == bool and array.shape == (size,) and array.concrete() is not None:
            (array,) = tnp.nonzero(array)
        if not np.issubdtype(array.dtype, np.integer):
            raise UnsupportedError(
                f"a sparse array is indexed by integers, slices, None and `...`, not by {array.aval}. `.todense()` "
                "makes an array of it."
            )
        steps.append(1)
        if array.ndim:
            arrays.append((axis, array))
            starts.append(0)
            sizes.append(size)
            continue
        known = array.concrete()
        if known is not None and not -size <= int(array) < size:
            raise IndexingError(f"index {int(array)} is out of bounds for axis {axis} of size {size}")
        starts.append(int(array) % size if known is not None else array)
        sizes.append(1)
        gone.append(axis)
    if len(arrays) > 1:
        raise UnsupportedError("a sparse array is indexed by one array of integers at a time. Write M[i][:, j].")
    if all(isinstance(start, int) for start in starts):
        begin = [int(start) for start in starts if isinstance(start, int)]
        ends = [start + size for start, size in zip(begin, sizes, strict=True)]
        mat = bcoo_slice(mat, start_indices=begin, limit_indices=ends, strides=steps)
    else:
        mat = bcoo_dynamic_slice(mat, starts, sizes)
        if any(step > 1 for step in steps):
            ends = list(mat.shape)
            mat = bcoo_slice(mat, start_indices=[0] * mat.ndim, limit_indices=ends, strides=steps)
    mat = bcoo_rev(mat, backwards) if backwards else mat
    for axis, array in arrays:
        mat, wanted = _picked(mat, axis, array, wanted)
        gone = [d + array.ndim - 1 if d > axis else d for d in gone]
    mat = bcoo_squeeze(mat, dimensions=gone) if gone else mat
    left = [axis for axis in wanted if axis not in gone or axis is None]
    return _with_new(mat, [axis is None for axis in left]) if None in left else mat


def _picked(mat: M, axis: int, array: Array, wanted: list[int | None]) -> tuple[M, list[int | None]]:
    """The parts along an axis that an array of integers names; and where the axes are now."""
    size = mat.shape[axis]
    places = tnp.where(array < 0, array + size, array)
    sizes = (*mat.shape[:axis], 1, *mat.shape[axis + 1 :])
    offsets = [d if d < axis else d + array.ndim - 1 for d in range(mat.ndim) if d != axis]
    found = gathered(mat, places[..., None], tuple(offsets), (axis,), (axis,), sizes)
    more = array.ndim - 1
    result: list[int | None] = []
    for d in wanted:
        if d == axis:
            result += range(axis, axis + array.ndim)
        else:
            result.append(d if d is None or d < axis else d + more)
    return found, result


def _with_new(mat: M, new: Sequence[bool]) -> M:
    """The array with new axes of size 1: dimensions of the kind of what follows."""
    shape = iter(mat.shape)
    sizes = [1 if one else next(shape) for one in new]
    dims = [i for i, one in enumerate(new) if not one]
    return bcoo_broadcast_in_dim(mat, shape=sizes, broadcast_dimensions=dims)


def reshaped(mat: M, sizes: Sequence[int]) -> M:
    """As `bcoo_reshape`; one size may be -1."""
    known = list(map(index, sizes))
    if known.count(-1) == 1:
        rest = math.prod(size for size in known if size != -1)
        if not rest or mat.size % rest:
            raise ShapeError(f"reshape: {mat!r} has no shape {tuple(known)}")
        known[known.index(-1)] = mat.size // rest
    return bcoo_reshape(mat, new_sizes=known)
