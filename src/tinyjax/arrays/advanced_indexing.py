"""NumPy's advanced indexing: arrays of positions, boolean masks, and positions that are traced."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Final, SupportsIndex, TypeAlias, final

import numpy as np
import numpy.typing as npt
from attrs import frozen

from tinyjax.arrays import basic_indexing
from tinyjax.arrays.advice import MASK
from tinyjax.arrays.basic_indexing import Index, index, unknown_entry, with_axes
from tinyjax.arrays.elementwise import apply, broadcast_shapes, constant_like, convert
from tinyjax.arrays.shaping import expand_dims
from tinyjax.errors import IndexingError, InputError
from tinyjax.ir.dtypes import (
    BOOL,
    INT32,
    INT64,
    INTEGERS,
    SIGNED,
    UINT32,
    UINT64,
    DType,
    HostArray,
    Scalar,
    integer_limits,
)
from tinyjax.ir.result_types import made_once
from tinyjax.ir.shapes import Shape
from tinyjax.primitives.arithmetic import Min
from tinyjax.primitives.comparison import lt
from tinyjax.primitives.dynamic import DynamicSlice
from tinyjax.primitives.elementwise import add
from tinyjax.primitives.gather import Gather
from tinyjax.primitives.selection import select_n
from tinyjax.primitives.shaping import Squeeze
from tinyjax.primitives.slicing import Concatenate
from tinyjax.primitives.structure import BroadcastInDim
from tinyjax.primitives.windows import GatherDimensionNumbers, GatherScatterMode, whole_numbers

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array

_MIN: Final = Min()
_INT64: Final = np.iinfo(np.int64)
#: Positions that are known on the host.
Known: TypeAlias = npt.NDArray[np.int64]
#: Positions along one axis.
Positions: TypeAlias = "Known | Array"
#: What a key is made of: an int is a position within the axis, or, if out of range is allowed, anywhere.
Entry: TypeAlias = "int | slice | Known | Array | None"


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


# Reading a key.


def parse(x: Array, key: Index, wrap: bool = True, strict: bool = False) -> Key:
    """The key of an array. `wrap`: negative positions count from the end. `strict`: integers must be within range."""
    if isinstance(key, list):
        raise InputError(
            "a list is no index by itself, because NumPy takes some lists for tuples. Use x[numpy.array(...)] for an "
            "array of positions, x[tuple(...)] for a tuple."
        )
    items = [_read(x, entry) for entry in (key if isinstance(key, tuple) else (key,))]
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexingError("an index can have only one ellipsis (...)")
    consumed = sum(_consumed(item) for item in items)
    if consumed > x.ndim:
        raise IndexingError(f"too many indices: {x.aval} has {x.ndim} axes, and {consumed} were indexed")
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
                raise IndexingError(f"a boolean mask of shape {mask.shape} doesn't fit {x.aval} from axis {axis} on")
            entries += np.nonzero(mask)
            axis += mask.ndim
        else:
            advanced.append(number)
            entries.append(_wrapped(x, axis, item, wrap, strict))
            axis += 1
    first = None
    if advanced:
        together = advanced[-1] - advanced[0] + 1 == len(advanced)
        first = next(i for i, entry in enumerate(entries) if not (entry is None or isinstance(entry, slice)))
        first = first if together else 0
    return Key(tuple(entries), first, tuple(added))


@final
@frozen(eq=False)
class _Mask:
    elements: npt.NDArray[np.bool_]


_Item: TypeAlias = "int | slice | Known | Array | _Mask | EllipsisType | None"


def _read(x: Array, entry: object) -> _Item:
    """An entry of a key: an integer, or an array of integers or bools, unless it is a slice, None or an ellipsis."""
    if entry is None or entry is Ellipsis or isinstance(entry, slice) or type(entry) is int:
        return entry
    if isinstance(entry, list):
        entry = np.asarray(entry) if entry else np.zeros(0, np.int64)
    # What arrays can be added to is an array, too.
    array: Array | None = x._binary(_second, entry)
    if array is NotImplemented or array is None:
        if isinstance(entry, SupportsIndex):
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
            raise IndexingError(f"index {item} is out of range for axis {axis} of {x.aval}, whose size is {size}")
        return in_int64(item + size if wrap and item < 0 else item)
    if not wrap:
        return item
    return np.where(item < 0, item + size, item) if isinstance(item, np.ndarray) else wrap_negative(item, size)


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


# Index vectors.


@final
@frozen(eq=False)
class Windows:
    """How a key is a gather. `shape` is the result's; `added` are its axes that the gather doesn't know of.

    `positions` are the index vectors; None if all of the array is meant. `within`: all of them are known to be within
    range, `ascending`: to be in order, without repetitions.
    """

    positions: Positions | None
    dims: GatherDimensionNumbers
    sizes: Shape
    shape: Shape
    added: tuple[int, ...]
    within: bool
    ascending: bool


def windows(shape: Shape, key: Key) -> Windows:
    """The windows of an array of this shape that a key means."""
    arrays = [entry for entry in key.entries if not (entry is None or isinstance(entry, int | slice))]
    common = broadcast_shapes(*[array.shape for array in arrays]) if arrays else ()
    result: list[int] = []
    added: list[int] = []
    offsets: list[int] = []
    collapsed: list[int] = []
    sizes: list[int] = []
    parts: list[tuple[int, Positions, int]] = []  # an axis, the positions along it, and the batch axis they begin at
    batch: list[int] = []
    start = axis = 0
    ascending = all(array.ndim == 0 for array in arrays)
    for i, entry in enumerate(key.entries):
        if i == key.first:
            start = len(batch)
            batch += common
            result += common
        if entry is None:
            added.append(len(result))
            result.append(1)
            continue
        size = shape[axis]
        if isinstance(entry, slice):
            taken = basic_indexing.known_range(entry, size)
            if taken.step == 1 or len(taken) == 1:
                if len(taken) != size:
                    parts.append((axis, np.asarray(taken.start), 0))
                offsets.append(len(result) - len(added))
                sizes.append(len(taken))
            else:
                ascending = ascending and taken.step > 0
                parts.append((axis, np.asarray(taken, np.int64), len(batch)))
                batch.append(len(taken))
                collapsed.append(axis)
                sizes.append(1)
            result.append(len(taken))
        else:
            positions = np.asarray(entry, np.int64) if isinstance(entry, int) else entry
            parts.append((axis, positions, start + len(common) - positions.ndim))
            collapsed.append(axis)
            sizes.append(1)
        axis += 1
    if math.prod(result) and any(size > n for size, n in zip(sizes, shape, strict=True)):
        raise IndexingError(f"there is nothing to index along an axis of size 0, in an array of shape {shape}")
    dims = GatherDimensionNumbers(offsets, collapsed, [axis for axis, _, _ in parts])
    within = all(
        isinstance(found, np.ndarray) and bool(np.all((found >= 0) & (found <= shape[axis] - sizes[axis])))
        for axis, found, _ in parts
    )
    vectors = _vectors([(found, place) for _, found, place in parts], tuple(batch)) if parts else None
    return Windows(vectors, dims, tuple(sizes), tuple(result), tuple(added), within, ascending)


def _vectors(parts: Sequence[tuple[Positions, int]], batch: Shape) -> Positions:
    """Index vectors along the last axis, from the positions that they are made of."""
    known = [_placed(found, place, batch) for found, place in parts if isinstance(found, np.ndarray)]
    if len(known) == len(parts):
        stacked = np.stack([np.broadcast_to(positions, batch) for positions in known], -1)
        return stacked.astype(np.int32 if _fits(stacked) else np.int64)
    traced = [found for found, _ in parts if not isinstance(found, np.ndarray)]
    wide = any(found.dtype in (INT64, UINT32, UINT64) for found in traced) or not all(map(_fits, known))
    dtype = INT64 if wide else INT32
    columns = [_column(traced[0], found, place, batch, dtype) for found, place in parts]
    return columns[0] if len(columns) == 1 else columns[0]._bind(made_once(Concatenate, len(batch)), *columns)[0]


def _fits(positions: Known) -> bool:
    limits = np.iinfo(np.int32)
    return bool(np.all((positions >= limits.min) & (positions <= limits.max)))


def _placed(positions: Known, place: int, batch: Shape) -> Known:
    """Positions with an axis for each batch axis, of size 1 where they don't vary."""
    return positions.reshape(positions.shape + (1,) * (len(batch) - place - positions.ndim))


def _column(like: Array, found: Positions, place: int, batch: Shape, dtype: DType) -> Array:
    """Positions as the only entry of index vectors."""
    shape = (*batch, 1)
    if isinstance(found, np.ndarray):
        return like._operands(np.broadcast_to(_placed(found, place, batch)[..., None], shape).astype(dtype))[1]
    found = as_signed(found, dtype)
    return found._bind(made_once(BroadcastInDim, shape, tuple(range(place, place + found.ndim))), found)[0]


# Taking.


def get(
    x: Array,
    key: Index,
    mode: GatherScatterMode | None = None,
    fill_value: Scalar | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    wrap: bool = True,
    strict: bool = False,
) -> Array:
    """`x[key]` with a mode for what is out of range; None is PROMISE_IN_BOUNDS."""
    parsed = parse(x, key, wrap, strict)
    x = expand_dims(x, parsed.added) if parsed.added else x
    x, parsed = _presliced(x, parsed)
    if mode is not GatherScatterMode.FILL_OR_DROP and _is_dynamic(parsed):
        return _dynamically(x, parsed)
    found = windows(x.shape, parsed)
    if found.positions is not None:
        vectors = found.positions
        indices = x._operands(vectors)[1] if isinstance(vectors, np.ndarray) else vectors
        settled = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None or found.within else mode
        filled = fill_value if settled is GatherScatterMode.FILL_OR_DROP else None
        gather = Gather(found.dims, found.sizes, settled, filled, indices_are_sorted, unique_indices)
        (x,) = x._bind(gather, x, indices)
    return with_axes(x, list(found.added))


def _presliced(x: Array, key: Key) -> tuple[Array, Key]:
    """The array with all slices and integers taken already, and what is left of the key."""
    if not any(isinstance(entry, int | slice) and entry != slice(None) for entry in key.entries):
        return x, key
    basic: list[int | slice] = []
    rest: list[Entry] = []
    for entry in key.entries:
        if isinstance(entry, int) and 0 <= entry < x.shape[len(basic)]:
            basic.append(entry)
            continue
        rest.append(slice(None) if isinstance(entry, slice) else entry)
        if entry is not None:
            basic.append(entry if isinstance(entry, slice) else slice(None))
    # No entry before the first position is dropped, so `first` still counts right, unless nothing is left of them.
    positions = any(not (entry is None or isinstance(entry, slice)) for entry in rest)
    return index(x, tuple(basic)), Key(tuple(rest), key.first if positions else None, ())


def _is_dynamic(key: Key) -> bool:
    """Whether all that is left are traced scalars."""
    positions = [entry for entry in key.entries if not (entry is None or isinstance(entry, slice))]
    return bool(positions) and all(not isinstance(entry, int) and entry.shape == () for entry in positions)


def _dynamically(x: Array, key: Key) -> Array:
    entries = [entry for entry in key.entries if entry is not None]
    starts: list[Positions | int] = [0 if isinstance(entry, slice) else entry for entry in entries]
    dropped = tuple(axis for axis, entry in enumerate(entries) if not isinstance(entry, slice))
    if any(x.shape[axis] == 0 for axis in dropped):
        raise IndexingError(f"there is nothing to index along an axis of size 0 of {x.aval}")
    sizes = tuple(1 if axis in dropped else size for axis, size in enumerate(x.shape))
    (x,) = x._bind(made_once(DynamicSlice, sizes), x, *scalars(x, starts))
    (x,) = x._bind(made_once(Squeeze, dropped), x)
    result = [entry for entry in key.entries if entry is None or isinstance(entry, slice)]
    return with_axes(x, [axis for axis, entry in enumerate(result) if entry is None])


def scalars(x: Array, starts: Sequence[Positions | int]) -> list[Array]:
    """Positions, integers or traced scalars, as arrays of one dtype."""
    dtypes = {start.dtype for start in starts if not isinstance(start, int)}
    narrow = dtypes <= {INT32} and _fits(np.asarray([start for start in starts if isinstance(start, int)]))
    dtype = INT32 if narrow else INT64
    return [
        as_signed(start, dtype) if not isinstance(start, int | np.ndarray) else x._operands(np.asarray(start, dtype))[1]
        for start in starts
    ]
