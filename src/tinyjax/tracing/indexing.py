"""Basic indexing: integers, slices, None and an ellipsis. It is made of slices, reversals and changes of shape.

Arrays of positions, masks and traced positions are in `advanced`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from types import EllipsisType
from typing import TYPE_CHECKING, SupportsIndex, TypeAlias, final

from attrs import frozen

from tinyjax.errors import ConcretizationError, IndexingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INTEGERS
from tinyjax.primitives.shaping import Rev, Squeeze
from tinyjax.primitives.slicing import Slice
from tinyjax.primitives.structure import BroadcastInDim

if TYPE_CHECKING:
    from tinyjax.tracing.core import Array

_Entry: TypeAlias = SupportsIndex | slice | EllipsisType | None
#: What may stand in brackets. NumPy's arrays and ours count as SupportsIndex for a type checker, whatever their shape.
Index: TypeAlias = _Entry | list[int] | list[bool] | tuple[_Entry | list[int] | list[bool], ...]


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
    """`x[key]` for a key of integers that are known, slices, None and an ellipsis; an IndexingError if it is out of
    range."""
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
    return with_axes(_taken(x, ranges), added)


def is_basic(entry: object) -> bool:
    """Whether this is a slice, None, an ellipsis, or an integer that is known."""
    if entry is None or entry is Ellipsis or type(entry) is int or isinstance(entry, slice):
        return True
    if isinstance(entry, bool) or not hasattr(entry, "__index__"):
        return False
    dtype, shape = getattr(entry, "dtype", None), getattr(entry, "shape", None)
    if dtype is None:
        return True
    concrete = getattr(entry, "concrete", None)
    return shape == () and dtype in INTEGERS and (concrete is None or concrete() is not None)


def unknown_entry(entry: object) -> IndexingError:
    """The error for what is no index."""
    return IndexingError(
        "an index is an integer, a slice, None, an ellipsis (...), an array of integers or bools, or a tuple of these, "
        f"got {entry!r}" + ("" if hasattr(entry, "dtype") else f" of type {type(entry).__name__}")
    )


def _expanded(aval: ShapedArray, key: Iterable[object]) -> Iterator[SupportsIndex | slice | None]:
    """The key with one entry for each axis of the array, and None for each new axis."""
    entries: list[SupportsIndex | slice | EllipsisType | None] = []
    for entry in key:
        # Protocols are slow to check, so the common types come first.
        if entry is None or isinstance(entry, int | slice | EllipsisType | SupportsIndex):
            entries.append(entry)
        else:
            raise unknown_entry(entry)
    ellipses = sum(entry is Ellipsis for entry in entries)
    if ellipses > 1:
        raise IndexingError("an index can have only one ellipsis (...)")
    missing = aval.ndim - sum(entry is not None and entry is not Ellipsis for entry in entries)
    if missing < 0:
        raise IndexingError(f"too many indices: {aval} has {aval.ndim} axes, and {aval.ndim - missing} were indexed")
    for entry in entries if ellipses else (*entries, Ellipsis):
        if isinstance(entry, EllipsisType):
            yield from [slice(None)] * missing
        else:
            yield entry


def known_range(entry: slice, size: int) -> range:
    """What a slice takes of an axis of this size; an IndexingError if its bounds are traced."""
    try:
        return range(*entry.indices(size))
    except ConcretizationError as error:
        raise IndexingError(
            "the bounds of a slice must be known, because they decide the shape of the result. Use "
            f"lax.dynamic_slice(x, start_indices, slice_sizes), whose starts may be traced. {error}"
        ) from None


def _range(aval: ShapedArray, axis: int, entry: SupportsIndex | slice) -> _Range:
    size = aval.shape[axis]
    if isinstance(entry, slice):
        taken = known_range(entry, size)
        if not taken:
            return _Range(0, 0)
        if taken.step > 0:
            return _Range(taken[0], taken[-1] + 1, taken.step)
        return _Range(taken[-1], taken[0] + 1, -taken.step, reverse=True)
    position = operator.index(entry)
    if not -size <= position < size:
        raise IndexingError(f"index {position} is out of range for axis {axis} of {aval}, whose size is {size}")
    return _Range(position % size, position % size + 1, dropped=True)


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


def with_axes(x: Array, added: list[int]) -> Array:
    """x with new axes of size 1, at these positions of the result."""
    if not added:
        return x
    sizes = iter(x.aval.shape)
    ndim = x.aval.ndim + len(added)
    shape = tuple(1 if axis in added else next(sizes) for axis in range(ndim))
    return x._bind(BroadcastInDim(shape, tuple(axis for axis in range(ndim) if axis not in added)), x)[0]
