"""What stands in brackets, read: entry by entry, with negative positions counted from the end."""

from __future__ import annotations

import operator
from contextlib import suppress
from types import EllipsisType, NoneType
from typing import TYPE_CHECKING, Final, SupportsIndex, TypeAlias, final

import numpy as np
import numpy.typing as npt
from attrs import frozen

from tinyjax.arrays.advice import MASK
from tinyjax.arrays.basic_indexing import Index, unknown_entry
from tinyjax.arrays.elementwise import apply, constant_like, convert
from tinyjax.arrays.shaping import stack
from tinyjax.arrays.windows import Placed, Window
from tinyjax.errors import IndexingError, InputError, TracerArrayConversionError
from tinyjax.ir.dtypes import (
    BOOL,
    INT64,
    INTEGERS,
    SIGNED,
    UINT64,
    DType,
    HostArray,
    integer_limits,
)
from tinyjax.primitives.arithmetic import Min
from tinyjax.primitives.comparison import lt
from tinyjax.primitives.elementwise import add
from tinyjax.primitives.selection import select_n
from tinyjax.primitives.windows import whole_numbers

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array

_MIN: Final = Min()
_INT64: Final = np.iinfo(np.int64)
#: Positions that are known on the host.
Known: TypeAlias = npt.NDArray[np.int64]
#: Positions along one axis.
Positions: TypeAlias = "Known | Array"
#: What a key is made of: an int is a position within the axis, or, if out of range is allowed, anywhere.
Entry: TypeAlias = "int | slice | Placed | Known | Array | None"


@final
@frozen(eq=False)
class Key:
    """An index, entry by entry: one for each axis of the array, and None for new axes of the result.

    `first` is the entry before which the axes come that all positions have in common; None if there are no arrays.
    `added` are axes of size 1 that the array gets before it is indexed, one for each scalar bool.
    """

    entries: tuple[Entry, ...]
    first: int | None
    added: tuple[int, ...]


def parse(x: Array, key: Index, wrap: bool = True, strict: bool = False) -> Key:
    """The key of an array. `wrap`: negative positions count from the end. `strict`: integers must be within range."""
    if isinstance(key, list):
        raise InputError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed: a list is no index by itself. "
            "Use arr[array(seq)] for an array of positions, arr[tuple(seq)] for a tuple."
        )
    items = [_read(x, entry) for entry in (key if isinstance(key, tuple) else (key,))]
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexingError("an index can only have a single ellipsis ('...')")
    consumed = sum(_consumed(item) for item in items)
    if consumed > x.ndim:
        raise IndexingError(
            f"Too many indices: array is {x.ndim}-dimensional, but {consumed} were indexed, of {x.aval}"
        )
    if not any(item is Ellipsis for item in items):
        items.append(Ellipsis)
    entries: list[Entry] = []
    advanced: list[int] = []  # where arrays, masks and integers are in the key
    added: list[int] = []
    axis = 0
    for number, item in enumerate(items):
        if item is Ellipsis:
            entries += [slice(None)] * (x.ndim - consumed)
            axis += x.ndim - consumed
        elif item is None or isinstance(item, slice):
            entries.append(item)
            axis += item is not None
        elif isinstance(item, Window):
            entries.append(_placed_window(x, axis, item, strict))
            axis += 1
        elif isinstance(item, _Mask):
            advanced.append(number)
            mask = item.elements
            if mask.ndim == 0:
                added.append(axis + len(added))
                entries.append(np.arange(int(mask)))
                continue
            shape = x.shape[axis : axis + mask.ndim]
            # As in NumPy, a mask without elements along an axis fits any.
            if len(shape) != mask.ndim or any(m not in (0, n) for m, n in zip(mask.shape, shape, strict=True)):
                raise IndexingError(
                    f"boolean index did not match shape of indexed array {x.aval} from axis {axis} on: got "
                    f"{mask.shape}, expected {shape}"
                )
            entries += np.nonzero(mask)
            axis += mask.ndim
        else:
            advanced.append(number)
            entries.append(_wrapped(x, axis, item, wrap, strict))
            axis += 1
    first = None
    if advanced:
        together = advanced[-1] - advanced[0] + 1 == len(advanced)
        first = next(i for i, entry in enumerate(entries) if not isinstance(entry, NoneType | slice | Placed))
        first = first if together else 0
    return Key(tuple(entries), first, tuple(added))


@final
@frozen(eq=False)
class _Mask:
    elements: npt.NDArray[np.bool_]


_Item: TypeAlias = "int | slice | Window | Known | Array | _Mask | EllipsisType | None"


def _read(x: Array, entry: object) -> _Item:
    """An entry of a key: an integer, or an array of integers or bools, unless it is a slice, None or an ellipsis."""
    if entry is None or entry is Ellipsis or isinstance(entry, slice | Window) or type(entry) is int:
        return entry
    if isinstance(entry, list | tuple):
        try:
            entry = np.asarray(entry) if entry else np.zeros(0, np.int64)
        except TracerArrayConversionError:
            entry = _stacked(x, entry)
    # What arrays can be added to is an array, too.
    array: Array | None = x._binary(_second, entry)
    if array is NotImplemented or array is None:
        if isinstance(entry, SupportsIndex):
            with suppress(TypeError):  # NumPy's classes of integers have the method, and are none
                return operator.index(entry)
        raise unknown_entry(entry)
    if array.dtype == BOOL:
        return _Mask(np.asarray(array._elements(MASK).data).astype(np.bool_, copy=False))
    if array.dtype not in INTEGERS:
        raise unknown_entry(entry)
    known = array.concrete()
    if known is None or (array.ndim and not known.on_host):
        return array
    elements: HostArray = np.asarray(known.data)
    return int(elements) if elements.ndim == 0 else whole_numbers(elements)


def _stacked(x: Array, entry: object) -> Array:
    """Nested positions some of which are being traced, as one array."""
    if isinstance(entry, list | tuple):
        parts = [_stacked(x, part) for part in entry]
        if len({part.shape for part in parts}) > 1:
            raise IndexingError(f"nested positions differ in shape: {', '.join(str(part.aval) for part in parts)}")
        return stack(parts, 0)
    array = x._binary(_second, entry)
    if array is NotImplemented or (array.dtype != BOOL and array.dtype not in INTEGERS):
        raise unknown_entry(entry)
    return array


def _second(_: Array, other: Array) -> Array:
    return other


def _consumed(item: _Item) -> int:
    """How many axes of the array an entry indexes."""
    if item is None or item is Ellipsis:
        return 0
    return item.elements.ndim if isinstance(item, _Mask) else 1


def _wrapped(x: Array, axis: int, item: int | Positions, wrap: bool, strict: bool) -> int | Positions:
    """Positions, negative ones counted from the end of the axis."""
    size = x.shape[axis]
    if isinstance(item, int):
        if strict and not -size <= item < size:
            raise IndexingError(f"index {item} out of bounds for axis {axis} with size {size}, of {x.aval}")
        return in_int64(item + size if wrap and item < 0 else item)
    if not wrap:
        return item
    return np.where(item < 0, item + size, item) if isinstance(item, np.ndarray) else wrap_negative(item, size)


def _placed_window(x: Array, axis: int, window: Window, wrap: bool) -> slice | Placed:
    """A window along an axis: a slice, if it is known to be within it."""
    size, last = x.shape[axis], (window.size - 1) * window.stride
    if window.size and last >= size:
        raise IndexingError(
            f"{window.size} positions in steps of {window.stride} don't fit in axis {axis} of {x.aval}, of size {size}"
        )
    start = _read(x, window.start)
    if start is None or start is Ellipsis or isinstance(start, slice | Window | _Mask | np.ndarray):
        raise unknown_entry(window.start)
    if not isinstance(start, int) and start.shape:
        raise unknown_entry(window.start)
    if window.size == size and window.stride == 1:
        return slice(None)  # wherever it begins, as in JAX
    if isinstance(start, int):
        start = in_int64(start + size if wrap and start < 0 else start)
        if start >= 0 and start + last < size:
            return slice(start, start + last + 1 if window.size else start, window.stride)
    elif wrap:
        start = wrap_negative(start, size)
    return Placed(start, window.size, window.stride)


def wrap_negative(positions: Array, size: int) -> Array:
    """Positions along an axis of this size, negative ones counted from its end."""
    if positions.dtype not in SIGNED:
        return positions
    positions = with_room_for(positions, size)
    negative = apply(lt, positions, constant_like(positions, 0))
    return apply(select_n, negative, positions, apply(add, positions, constant_like(positions, size)))


def with_room_for(positions: Array, size: int) -> Array:
    """Positions in a dtype that can hold the size of their axis, too."""
    return positions if size <= integer_limits(positions.aval.dtype)[1] else convert(positions, INT64)


def in_int64(position: int) -> int:
    """The position, or the one nearest to it that int64 holds: it is out of range as well."""
    return min(max(position, _INT64.min), _INT64.max)


def as_signed(positions: Array, dtype: DType) -> Array:
    """Positions as int32 or int64. Those of uint64 that are too large for it are the largest, not negative."""
    if positions.dtype == UINT64:
        positions = apply(_MIN, positions, constant_like(positions, _INT64.max))
    return convert(positions, dtype)
