"""NumPy's advanced indexing: arrays of positions, boolean masks, and positions that are traced."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import TYPE_CHECKING, final

import numpy as np
from attrs import frozen

from tinyjax.arrays import basic_indexing
from tinyjax.arrays.basic_indexing import Index, index, with_axes
from tinyjax.arrays.elementwise import apply, broadcast_shapes
from tinyjax.arrays.shaping import expand_dims, reshape
from tinyjax.arrays.windows import Placed
from tinyjax.errors import IndexingError
from tinyjax.ir.dtypes import (
    INT32,
    INT64,
    UINT32,
    UINT64,
    DType,
    Scalar,
)
from tinyjax.ir.result_types import made_once
from tinyjax.ir.shapes import Shape
from tinyjax.primitives.dynamic import DynamicSlice
from tinyjax.primitives.elementwise import add
from tinyjax.primitives.gather import Gather
from tinyjax.primitives.shaping import Squeeze
from tinyjax.primitives.slicing import Concatenate
from tinyjax.primitives.structure import BroadcastInDim
from tinyjax.primitives.windows import GatherDimensionNumbers, GatherScatterMode

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array

from tinyjax.arrays.index_keys import Entry, Key, Known, Positions, as_signed, parse, with_room_for

# Index vectors.


@final
@frozen(eq=False)
class Windows:
    """How a key is a gather. `shape` is the result's; `added` are its axes that the gather doesn't know of.

    `positions` are the index vectors; None if all of the array is meant. `within`: all of them are known to be within
    range, `ascending`: to be in order, without repetitions. `missing`: the first axis that has no position at all.
    """

    positions: Positions | None
    dims: GatherDimensionNumbers
    sizes: Shape
    shape: Shape
    added: tuple[int, ...]
    within: bool
    ascending: bool
    missing: int | None


def windows(shape: Shape, key: Key) -> Windows:
    """The windows of an array of this shape that a key means."""
    arrays = [entry for entry in key.entries if not isinstance(entry, NoneType | int | slice | Placed)]
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
        elif isinstance(entry, Placed):
            if entry.stride == 1:
                parts.append((axis, np.asarray(entry.start) if isinstance(entry.start, int) else entry.start, 0))
                offsets.append(len(result) - len(added))
                sizes.append(entry.size)
            else:
                parts.append((axis, _stepped(entry), len(batch)))
                batch.append(entry.size)
                collapsed.append(axis)
                sizes.append(1)
            result.append(entry.size)
        else:
            positions = np.asarray(entry, np.int64) if isinstance(entry, int) else entry
            parts.append((axis, positions, start + len(common) - positions.ndim))
            collapsed.append(axis)
            sizes.append(1)
        axis += 1
    missing = next((axis for axis, (size, n) in enumerate(zip(sizes, shape, strict=True)) if size > n), None)
    if missing is not None and not common:  # a mistake, whatever is done there
        raise nothing_along(missing, shape)
    dims = GatherDimensionNumbers(offsets, collapsed, [axis for axis, _, _ in parts])
    within = all(
        isinstance(found, np.ndarray) and bool(np.all((found >= 0) & (found <= shape[axis] - sizes[axis])))
        for axis, found, _ in parts
    )
    vectors = _vectors([(found, place) for _, found, place in parts], tuple(batch)) if parts else None
    return Windows(vectors, dims, tuple(sizes), tuple(result), tuple(added), within, ascending, missing)


def nothing_along(axis: int, shape: Shape) -> IndexingError:
    """The error for a position along an axis that has none."""
    return IndexingError(f"index is out of bounds for axis {axis} with size 0, in an array of shape {shape}")


def _stepped(window: Placed) -> Positions:
    """The positions of a window."""
    steps = window.stride * np.arange(window.size)
    if isinstance(window.start, int):
        return window.start + steps
    start = with_room_for(window.start, window.stride * window.size)
    return apply(add, start, start._operands(steps.astype(start.dtype))[1])


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
    if found.missing is not None:
        if 0 not in found.shape:
            raise nothing_along(found.missing, x.shape)
        return reshape(x, found.shape)
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
    positions = any(not isinstance(entry, NoneType | slice | Placed) for entry in rest)
    return index(x, tuple(basic)), Key(tuple(rest), key.first if positions else None, ())


def _is_dynamic(key: Key) -> bool:
    """Whether all that is left are traced scalars, and windows."""
    positions = [entry for entry in key.entries if not (entry is None or isinstance(entry, slice))]
    return bool(positions) and all(
        entry.stride == 1 if isinstance(entry, Placed) else not isinstance(entry, int) and entry.shape == ()
        for entry in positions
    )


def _dynamically(x: Array, key: Key) -> Array:
    entries = [entry for entry in key.entries if entry is not None]
    starts: list[Positions | int] = []
    sizes: list[int] = []
    for entry, size in zip(entries, x.shape, strict=True):
        if isinstance(entry, Placed):
            starts.append(entry.start)
            sizes.append(entry.size)
        else:
            starts.append(0 if isinstance(entry, slice) else entry)
            sizes.append(size if isinstance(entry, slice) else 1)
    dropped = tuple(axis for axis, entry in enumerate(entries) if not isinstance(entry, slice | Placed))
    for axis in dropped:
        if x.shape[axis] == 0:
            raise nothing_along(axis, x.shape)
    (x,) = x._bind(made_once(DynamicSlice, tuple(sizes)), x, *scalars(x, starts))
    if dropped:
        (x,) = x._bind(made_once(Squeeze, dropped), x)
    result = [entry for entry in key.entries if isinstance(entry, NoneType | slice | Placed)]
    return with_axes(x, [axis for axis, entry in enumerate(result) if entry is None])


def dtype_of_positions(starts: Sequence[int]) -> DType:
    """int32, or int64 where one of them doesn't fit into it."""
    return INT32 if all(-(2**31) <= start < 2**31 for start in starts) else INT64


def scalars(x: Array, starts: Sequence[Positions | int]) -> list[Array]:
    """Positions, integers or traced scalars, as arrays of one dtype."""
    dtypes = {start.dtype for start in starts if not isinstance(start, int)}
    dtype = dtype_of_positions([start for start in starts if isinstance(start, int)]) if dtypes <= {INT32} else INT64
    return [
        as_signed(start, dtype) if not isinstance(start, int | np.ndarray) else x._operands(np.asarray(start, dtype))[1]
        for start in starts
    ]
