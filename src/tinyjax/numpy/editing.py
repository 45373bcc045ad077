"""Arrays with something added, taken out or replaced."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from tinyjax.arrays import shaping
from tinyjax.arrays.along_axis import argsort
from tinyjax.arrays.arithmetic import clip
from tinyjax.arrays.elementwise import astype, broadcast_to, where
from tinyjax.arrays.shaping import canonical_axes, canonical_axis, integer, moveaxis, ravel, reshape
from tinyjax.errors import ConcretizationError, IndexingError, InputError, ShapeError
from tinyjax.ir.dtypes import INT64, INTEGERS, HostArray
from tinyjax.numpy.arguments import refuse_inplace, shape_of, with_leading_axes
from tinyjax.numpy.creation import arange, asarray
from tinyjax.numpy.finding import nonzero
from tinyjax.numpy.indexing import take
from tinyjax.numpy.joining import concatenate
from tinyjax.numpy.matrices import diag
from tinyjax.numpy.signatures import Blocks, Nested, ShapeLike
from tinyjax.prepared.functions import prepared, prepared_for_several
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

# More, or fewer, elements.


@prepared
def append(arr: ArrayLike, values: ArrayLike, axis: SupportsIndex | None = None) -> Array:
    """The array with values at the end of an axis; or, without one, all elements in one axis.

    >>> append(np.array([1, 2]), 3)
    Array([1, 2, 3], dtype=int64)
    """
    x, y = asarray(arr), asarray(values)
    return concatenate([ravel(x), ravel(y)] if axis is None else [x, y], 0 if axis is None else axis)


def _known(name: str, obj: ArrayLike | slice | Sequence[int], size: int) -> HostArray | int:
    """Positions from 0 on, or a single one; those that aren't known are an error."""
    if isinstance(obj, slice):
        return np.arange(size)[obj]
    x = asarray(obj)
    value = x.concrete()
    if value is None:
        raise ConcretizationError(f"{name}: the positions must be known, which they aren't of {x.aval} here")
    found = np.asarray(value.data)
    if found.dtype == np.bool_:
        if found.shape != (size,):
            raise IndexingError(f"{name}: a mask must have {size} elements, got {x.aval}")
        return np.flatnonzero(found)
    if not found.size:
        return np.zeros(0, np.int64)
    if found.dtype not in INTEGERS:
        raise IndexingError(f"{name}: positions must be integers, got {x.aval}")
    if found.dtype != np.uint64:  # a short dtype doesn't have every position
        found = found.astype(np.int64)
    limit = size + (name == "insert")
    if ((found < -size) | (found >= limit)).any():
        raise IndexingError(f"{name}: a position is out of range for an axis of size {size}, in {found.tolist()}")
    found = np.where(found < 0, found + size, found)
    return int(found) if found.ndim == 0 else found.ravel()


def delete(
    arr: ArrayLike,
    obj: ArrayLike | slice | Sequence[int],
    axis: SupportsIndex | None = None,
    *,
    assume_unique_indices: bool = False,
) -> Array:
    """The array without these positions of an axis, or of the elements in one axis. They must be known, unless
    `assume_unique_indices` says that each of them is listed once.

    >>> delete(np.array([5, 6, 7]), [0, -1])
    Array([6], dtype=int64)
    """
    x = asarray(arr)
    if axis is None:
        x, axis = ravel(x), 0
    at = canonical_axis(axis, x.ndim, "delete")
    size = x.shape[at]
    if not isinstance(obj, slice):
        places = asarray(obj)
        if places.dtype in INTEGERS and (assume_unique_indices or places.ndim == 0) and places.concrete() is None:
            return take(x, _others(ravel(places), size), at, mode="clip")
    gone = _known("delete", obj, size)
    return take(x, np.delete(np.arange(size), gone), at, mode="clip")


def _others(places: Array, size: int) -> Array:
    """The positions that aren't among these, each of which is listed once."""
    kept = size - places.size
    if kept < 0:
        raise ShapeError(f"delete: {places.size} positions are more than the axis of size {size} has")
    marks = as_array(np.ones(size, bool)).at[places].set(False)
    return nonzero(marks, size=kept)[0]


def insert(
    arr: ArrayLike, obj: ArrayLike | slice | Sequence[int], values: ArrayLike, axis: SupportsIndex | None = None
) -> Array:
    """The array with values before these positions of an axis, or of the elements in one axis. Positions that aren't
    known are clipped to the axis.

    >>> insert(np.array([5, 6, 7]), [1, 3], 0)
    Array([5, 0, 6, 7, 0], dtype=int64)
    """
    x, new = asarray(arr), asarray(values)
    if axis is None:
        x, axis = ravel(x), 0
    at = canonical_axis(axis, x.ndim, "insert")
    size, new = x.shape[at], astype(new, x.dtype)
    x = moveaxis(x, at, 0)
    if not isinstance(obj, slice) and (place := asarray(obj)).concrete() is None:
        start, known = _clipped(place, size), None
        single = place.ndim == 0
    else:
        found = _known("insert", obj, size)
        single, known = isinstance(found, int), np.atleast_1d(np.asarray(found, np.int64))
        start = as_array(known)
    if start.size == 1:
        # All values come at one place: those along the axis one after the other.
        if (single and new.ndim == x.ndim) or not single:
            new = moveaxis(with_leading_axes(new, x.ndim), at, 0)
        else:
            new = shaping.expand_dims(with_leading_axes(new, x.ndim - 1) if x.ndim > 1 else ravel(new)[0], 0) if (
                new.size == 1 or x.ndim > 1
            ) else ravel(new)  # fmt: skip
        count = new.shape[0]
        shifted = None if known is None else known + np.arange(count)
    else:
        count = start.size
        new = moveaxis(with_leading_axes(new, x.ndim), at, 0)
        shifted = None
        if known is not None:
            shifted = known.copy()
            shifted[np.argsort(known, kind="stable")] += np.arange(count)
    new = broadcast_to(new, (count, *x.shape[1:]))
    total = size + count
    if shifted is not None:
        return moveaxis(_woven(x, new, shifted), 0, at)
    starts = broadcast_to(start, (count,))
    places = starts.at[argsort(starts)].add(arange(count))
    kept = nonzero(as_array(np.ones(total, bool)).at[places].set(False), size=size)[0]
    out = as_array(np.zeros((), x.dtype))
    out = broadcast_to(out, (total, *x.shape[1:])).at[kept].set(x).at[places].set(new)
    return moveaxis(out, 0, at)


def _clipped(places: Array, size: int) -> Array:
    """Positions that aren't known, of one axis, from 0 to the size."""
    if places.dtype not in INTEGERS or places.ndim > 1:
        raise IndexingError(f"insert: positions that aren't known are integers of one axis at most, got {places.aval}")
    places = ravel(astype(places, INT64))
    return clip(where(places < 0, places + size, places), 0, size)


def _woven(x: Array, new: Array, places: npt.NDArray[np.int64]) -> Array:
    """Rows, with new ones at these places of the result."""
    size, count = x.shape[0], new.shape[0]
    if count and places[-1] - places[0] == count - 1 and (np.diff(places) > 0).all():
        first = int(places[0])
        return concatenate([x[:first], new, x[first:]])
    source = np.empty(size + count, np.int64)
    source[np.delete(np.arange(size + count), places)] = np.arange(size)
    source[places] = size + np.arange(count)
    return take(concatenate([x, new]), as_array(source), 0, mode="clip")


@prepared
def resize(a: ArrayLike, new_shape: ShapeLike) -> Array:
    """An array of this shape, with the elements in row-major order: again and again if there are too few.

    >>> resize(np.array([1, 2]), (3,))
    Array([1, 2, 1], dtype=int64)
    """
    flat, shape = ravel(asarray(a)), shape_of(new_shape)
    total = math.prod(shape)
    if not flat.size:
        return broadcast_to(as_array(np.zeros((), flat.dtype)), shape)
    repeats = -(-total // flat.size)
    return reshape(ravel(broadcast_to(flat, (repeats, flat.size)))[:total], shape)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: SupportsIndex | Iterable[SupportsIndex] | None = None) -> Array:
    """The array without the zeros at its front ("f") and back ("b"), on all axes or on these. The elements must be
    known.

    >>> trim_zeros(np.array([0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int64)
    """
    x = asarray(filt)
    given: object = trim
    if not isinstance(given, str) or set(given.lower()) - {"f", "b"}:
        raise InputError(f"trim_zeros: trim has the letters 'f' and 'b', got {trim!r}")
    known = x.concrete()
    if known is None:
        raise ConcretizationError(f"trim_zeros: the elements must be known, which they aren't of {x.aval} here")
    marks, key = np.asarray(known.data) != 0, [slice(None)] * x.ndim
    for at in canonical_axes(axis, x.ndim, "trim_zeros"):
        places = np.flatnonzero(marks.any(tuple(i for i in range(x.ndim) if i != at)))
        if not places.size:
            key[at] = slice(0, 0)
            continue
        start = int(places[0]) if "f" in trim.lower() else None
        key[at] = slice(start, int(places[-1]) + 1 if "b" in trim.lower() else None)
    return x[tuple(key)]


# Other orders of axes, and blocks.


@prepared
def rollaxis(a: ArrayLike, axis: SupportsIndex, start: SupportsIndex = 0) -> Array:
    """The array with one axis moved in front of another one. `moveaxis` is clearer.

    >>> rollaxis(np.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = asarray(a)
    at, place = canonical_axis(axis, x.ndim, "rollaxis"), integer(start, "rollaxis: start")
    if not -x.ndim <= place <= x.ndim:
        raise ShapeError(f"rollaxis: start is between {-x.ndim} and {x.ndim}, got {place}")
    place = place + x.ndim if place < 0 else place
    return moveaxis(x, at, place - 1 if at < place else place)


@prepared_for_several
def block(arrays: Blocks) -> Array:
    """Arrays in nested lists, joined: those of the innermost lists along the last axis, and so on.

    >>> block([[np.eye(1), np.zeros((1, 1))], [np.ones((1, 2))]])
    Array([[1., 0.],
           [1., 1.]], dtype=float64)
    """
    depth = _depth(arrays)
    ndim = max(depth, *_dimensions(arrays))

    def join(part: Blocks, level: int) -> Array:
        if isinstance(part, list):
            return concatenate([join(inner, level + 1) for inner in part], level - depth)
        return with_leading_axes(asarray(part), ndim)

    return join(arrays, 0)


def _depth(arrays: Blocks) -> int:
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ShapeError("block: a list is empty")
    depths = {_depth(part) for part in arrays}
    if len(depths) > 1:
        raise ShapeError("block: the lists differ in how deep they are nested")
    return 1 + depths.pop()


def _dimensions(arrays: Blocks) -> list[int]:
    return [n for part in arrays for n in _dimensions(part)] if isinstance(arrays, list) else [asarray(arrays).ndim]


# Diagonals.


def diagflat(v: Nested, k: SupportsIndex = 0) -> Array:
    """A matrix with these elements, in row-major order, on its k-th diagonal.

    >>> diagflat(np.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int64)
    """
    return diag(ravel(asarray(v)), k)


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Array:
    """A copy of an array with its main diagonal replaced by a value, or by values that are repeated.

    `wrap`: that of a tall matrix begins again below. `inplace` must be False, because arrays are immutable.

    >>> fill_diagonal(np.zeros((2, 2)), 1, inplace=False)
    Array([[1., 0.],
           [0., 1.]], dtype=float64)
    """
    refuse_inplace("fill_diagonal", inplace)
    x, values = asarray(a), ravel(asarray(val))
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ShapeError(f"fill_diagonal takes a matrix, or an array whose axes have one size, got {x.aval}")
    rows, columns = x.shape[0], x.shape[1]
    step = columns + 1 if x.ndim == 2 else sum(x.shape[0] ** i for i in range(x.ndim))
    end = x.size if wrap or x.ndim > 2 else min(rows, columns) * columns
    places = np.arange(0, end, step)
    if not places.size:
        return x
    if not values.size:
        raise ShapeError("fill_diagonal: there are no values to fill it with")
    return reshape(ravel(x).at[places].set(resize(values, len(places)), unique_indices=True), x.shape)
