"""Basic indexing: integers, slices, None and an ellipsis. It is made of slices, reversals and changes of shape.

Arrays of positions, masks and traced positions are in `advanced`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Final, SupportsIndex, TypeAlias, final

from attrs import frozen

from tinyjax.arrays.shaping import expansion
from tinyjax.arrays.windows import Window
from tinyjax.caching import bounded
from tinyjax.errors import ConcretizationError, IndexingError, IndexKindError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INTEGERS
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shapes import Shape
from tinyjax.primitives.shaping import Rev, Squeeze
from tinyjax.primitives.slicing import Slice

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array

_Entry: TypeAlias = SupportsIndex | slice | Window | EllipsisType | None
#: What may stand in brackets. NumPy's arrays and ours count as SupportsIndex for a type checker, whatever their shape.
Index: TypeAlias = _Entry | list[int] | list[bool] | tuple[_Entry | list[int] | list[bool] | tuple[int, ...], ...]


@final
@frozen
class _Range:
    """The elements that are taken along one axis. `dropped`: it is only one, and the axis disappears."""

    start: int
    limit: int
    stride: int = 1
    reverse: bool = False
    dropped: bool = False

    @property
    def size(self) -> int:
        return len(range(self.start, self.limit, self.stride))


def index(x: Array, key: Index) -> Array:
    """`x[key]` for a key of integers that are known, slices, None and an ellipsis; an IndexingError if it is out of
    range."""
    entries = key if isinstance(key, tuple) else (key,)
    spelled = _spelled(entries)
    for primitive in _steps(x.aval, entries) if spelled is None else _known_steps(x.aval, spelled):
        (x,) = x._bind(primitive, x)
    return x


def _spelled(entries: tuple[object, ...]) -> tuple[_Spelled, ...] | None:
    """Entries by which steps are remembered; None if there are others than plain integers and slices of such."""
    spelled: list[_Spelled] = []
    for entry in entries:
        if type(entry) is int or entry is None or entry is Ellipsis:
            spelled.append(entry)
        elif type(entry) is slice and _BOUNDS.issuperset(map(type, (entry.start, entry.stop, entry.step))):
            spelled.append((entry.start, entry.stop, entry.step))
        else:
            return None
    return tuple(spelled)


#: An entry that can be hashed: a slice is a tuple.
_Spelled: TypeAlias = "int | tuple[int | None, int | None, int | None] | EllipsisType | None"
_BOUNDS: Final = frozenset({int, type(None)})


def _steps(aval: ShapedArray, entries: tuple[object, ...]) -> tuple[Primitive, ...]:
    """What to apply, one after the other, to take these entries of an array of this type."""
    ranges: list[_Range] = []
    added: list[int] = []  # where new axes are in the result
    ndim = 0  # of the result so far
    for entry in _expanded(aval, entries):
        if entry is None:
            added.append(ndim)
            ndim += 1
        else:
            taken = _range(aval, len(ranges), entry)
            ranges.append(taken)
            ndim += not taken.dropped
    kept = tuple(r.size for r in ranges if not r.dropped)
    return (*_taking(aval.shape, ranges), *_adding(kept, added))


# For tracers too, which have no table: without this, `x[1:3]` takes 19 µs rather than 4 while tracing, and outside 23
# rather than 2.4.
@bounded(4096)
def _known_steps(aval: ShapedArray, spelled: tuple[_Spelled, ...]) -> tuple[Primitive, ...]:
    return _steps(aval, tuple(slice(*entry) if isinstance(entry, tuple) else entry for entry in spelled))


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


def unknown_entry(entry: object) -> IndexKindError:
    """The error for what is no index."""
    kind = getattr(entry, "dtype", type(entry).__name__)
    if hasattr(entry, "dtype") or isinstance(entry, float | complex):
        problem = f"Indexer must have integer or boolean type, got indexer with type {kind}: "
    else:
        problem = ""
    return IndexKindError(
        f"{problem}only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean arrays are "
        f"valid indices, and tuples of these. Got {entry!r}" + ("" if hasattr(entry, "dtype") else f" of type {kind}")
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
        raise IndexingError("an index can only have a single ellipsis ('...')")
    missing = aval.ndim - sum(entry is not None and entry is not Ellipsis for entry in entries)
    if missing < 0:
        raise IndexingError(
            f"Too many indices: array is {aval.ndim}-dimensional, but {aval.ndim - missing} were indexed, of {aval}"
        )
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
            "Array slice indices must have static start/stop/step: the bounds of a slice must be known, because they "
            f"decide the shape of the result. {error}"
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
        raise IndexingError(f"index {position} out of bounds for axis {axis} with size {size}, of {aval}")
    return _Range(position % size, position % size + 1, dropped=True)


def _taking(shape: Shape, ranges: Sequence[_Range]) -> Iterator[Primitive]:
    """What takes the elements within these ranges."""
    starts, limits = tuple(r.start for r in ranges), tuple(r.limit for r in ranges)
    strides = tuple(r.stride for r in ranges)
    strided = any(stride != 1 for stride in strides)
    if strided or starts != (0,) * len(shape) or limits != shape:
        yield Slice(starts, limits, strides if strided else None)
    reverse = tuple(axis for axis, r in enumerate(ranges) if r.reverse and r.size > 1)
    if reverse:
        yield Rev(reverse)
    dropped = tuple(axis for axis, r in enumerate(ranges) if r.dropped)
    if dropped:
        yield Squeeze(dropped)


def with_axes(x: Array, added: Sequence[int]) -> Array:
    """x with new axes of size 1, at these positions of the result."""
    for primitive in _adding(x.aval.shape, added):
        (x,) = x._bind(primitive, x)
    return x


def _adding(shape: Shape, added: Sequence[int]) -> Iterator[Primitive]:
    """What gives an array of this shape new axes of size 1, at these positions of the result."""
    if added:
        yield expansion(shape, tuple(added))
