"""Basic indexing: integers, slices, None and an ellipsis. It is made of slices, reversals and changes of shape."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from types import EllipsisType
from typing import TYPE_CHECKING, SupportsIndex, TypeAlias, final

import numpy as np
from attrs import frozen

from tinyjax.errors import ConcretizationError, IndexingError, UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INTEGERS
from tinyjax.primitives.shaping import Rev, Squeeze
from tinyjax.primitives.slicing import Slice
from tinyjax.primitives.structure import BroadcastInDim

if TYPE_CHECKING:
    from tinyjax.tracing.core import Array

_Entry: TypeAlias = SupportsIndex | slice | EllipsisType | None
Index: TypeAlias = _Entry | tuple[_Entry, ...]


@final
@frozen
class _Range:
    """The elements that are taken along one axis. `dropped`: it is only one, and the axis disappears."""

    start: int
    limit: int
    stride: int = 1
    reverse: bool = False
    dropped: bool = False


def index(x: Array, key: Index) -> Array:
    """`x[key]`. An IndexingError if it is out of range; an UnsupportedError for masks and arrays of positions."""
    aval = x.aval
    ranges: list[_Range] = []
    added: list[int] = []  # where new axes are in the result
    ndim = 0  # of the result so far
    for entry in _expanded(aval, key if isinstance(key, tuple) else (key,)):
        if entry is None:
            added.append(ndim)
            ndim += 1
        else:
            taken = _range(aval, len(ranges), entry)
            ranges.append(taken)
            ndim += not taken.dropped
    return _with_axes(_taken(x, ranges), added)


def _expanded(aval: ShapedArray, key: tuple[_Entry, ...]) -> Iterator[_Entry]:
    """The key with one entry for each axis of the array, and None for each new axis."""
    for entry in key:
        _check_entry(entry)
    ellipses = sum(entry is Ellipsis for entry in key)
    if ellipses > 1:
        raise IndexingError("an index can have only one ellipsis (...)")
    missing = aval.ndim - sum(entry is not None and entry is not Ellipsis for entry in key)
    if missing < 0:
        raise IndexingError(f"too many indices: {aval} has {aval.ndim} axes, and {aval.ndim - missing} were indexed")
    for entry in key if ellipses else (*key, Ellipsis):
        if entry is Ellipsis:
            yield from [slice(None)] * missing
        else:
            yield entry


def _check_entry(entry: object) -> None:
    if entry is None or entry is Ellipsis or isinstance(entry, slice) or type(entry) is int:
        return
    dtype, shape = getattr(entry, "dtype", None), getattr(entry, "shape", None)
    if isinstance(entry, bool | list) or dtype == np.bool_ or (shape is not None and shape != ()):
        what = "boolean masks" if isinstance(entry, bool) or dtype == np.bool_ else "arrays of positions"
        raise UnsupportedError(
            f"indexing with {what} is not supported yet: it comes with gather and scatter in the next release. "
            "To choose elements by a condition, use numpy.where(condition, x, y)."
        )
    if not hasattr(entry, "__index__") or (dtype is not None and dtype not in INTEGERS):
        raise IndexingError(
            f"an index is an integer, a slice, None, an ellipsis (...) or a tuple of these, got {entry!r}"
            + (f" of type {type(entry).__name__}" if dtype is None else "")
        )


def _range(aval: ShapedArray, axis: int, entry: SupportsIndex | slice | EllipsisType) -> _Range:
    size = aval.shape[axis]
    if isinstance(entry, slice):
        taken = range(*entry.indices(size))
        if not taken:
            return _Range(0, 0)
        if taken.step > 0:
            return _Range(taken[0], taken[-1] + 1, taken.step)
        return _Range(taken[-1], taken[0] + 1, -taken.step, reverse=True)
    if isinstance(entry, EllipsisType):  # already expanded
        return _Range(0, size)
    position = _position(entry)
    if not -size <= position < size:
        raise IndexingError(f"index {position} is out of range for axis {axis} of {aval}, whose size is {size}")
    return _Range(position % size, position % size + 1, dropped=True)


def _position(entry: SupportsIndex) -> int:
    try:
        return operator.index(entry)
    except ConcretizationError as error:
        raise UnsupportedError(
            f"indexing with a traced value is not supported yet: it comes with gather in the next release. {error}"
        ) from None


def _taken(x: Array, ranges: list[_Range]) -> Array:
    """The elements of x within these ranges."""
    shape = x.aval.shape
    if any(taken != _Range(0, size) for taken, size in zip(ranges, shape, strict=True)):
        starts, limits = tuple(r.start for r in ranges), tuple(r.limit for r in ranges)
        strides = tuple(r.stride for r in ranges)
        if starts != (0,) * len(shape) or limits != shape or any(stride != 1 for stride in strides):
            (x,) = x._bind(Slice(starts, limits, strides if any(stride != 1 for stride in strides) else None), x)
        reverse = tuple(axis for axis, r in enumerate(ranges) if r.reverse and x.aval.shape[axis] > 1)
        if reverse:
            (x,) = x._bind(Rev(reverse), x)
        dropped = tuple(axis for axis, r in enumerate(ranges) if r.dropped)
        if dropped:
            (x,) = x._bind(Squeeze(dropped), x)
    return x


def _with_axes(x: Array, added: list[int]) -> Array:
    """x with new axes of size 1, at these positions of the result."""
    if not added:
        return x
    sizes = iter(x.aval.shape)
    ndim = x.aval.ndim + len(added)
    shape = tuple(1 if axis in added else next(sizes) for axis in range(ndim))
    return x._bind(BroadcastInDim(shape, tuple(axis for axis in range(ndim) if axis not in added)), x)[0]
