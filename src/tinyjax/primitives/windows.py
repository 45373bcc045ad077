"""Windows at computed positions: what gather and scatter share.

A gather takes a window of the operand for each index vector, which are along the last axis of the indices. The axes of
the result are those of the indices but the last, and those of the window. A scatter is described by the same numbers:
its updates are shaped as the gather's result.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterable
from typing import Protocol, SupportsIndex, TypeAlias, final

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from tinyjax.errors import ChoiceError, ConcretizationError, DtypeError, InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INTEGERS, UINT64, HostArray, short_name
from tinyjax.ir.shapes import Shape
from tinyjax.primitives.shaping import shift_axes
from tinyjax.primitives.structure import shape_error

Dims: TypeAlias = tuple[int, ...]
Positions: TypeAlias = npt.NDArray[np.int64]


@final
class GatherScatterMode(enum.Enum):
    """What becomes of windows that are not within the operand.

    CLIP: they are moved to the nearest place where they are. FILL_OR_DROP: a gather returns a fill value for them, a
    scatter ignores them. PROMISE_IN_BOUNDS: there are none; in fact, a gather moves them and a scatter ignores them,
    so that their derivatives are wrong.
    """

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()

    @staticmethod
    def from_any(mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """A mode by its name: "clip", "fill", "drop" or "promise_in_bounds". None is "drop"."""
        if isinstance(mode, GatherScatterMode):
            return mode
        given: object = mode
        found = _MODES.get(mode) if given is None or isinstance(given, str) else None
        if found is None:
            raise ChoiceError(f"unknown mode {mode!r}; the modes are 'clip', 'fill', 'drop' and 'promise_in_bounds'")
        return found


_MODES = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
}


def _dims(axes: Iterable[SupportsIndex]) -> Dims:
    """The numbers of axes: any exact integers."""
    try:
        return tuple(map(operator.index, axes))
    except ConcretizationError:
        raise
    except TypeError:
        raise InputError(f"dimension numbers are tuples of integers, the numbers of axes; got {axes!r}") from None


@final
@frozen
class GatherDimensionNumbers:
    """Which axes of the operand, the indices and the result of a gather belong together.

    `offset_dims`: the axes of the result that are the window's. `collapsed_slice_dims`: axes of the operand along which
    the window has size 1, and which are left out. `start_index_map`: the axis of the operand that each entry of an
    index vector is a position along. `operand_batching_dims` and `start_indices_batching_dims`: axes of the operand and
    of the indices that are walked together, as if mapped over.
    """

    offset_dims: Dims = field(converter=_dims)
    collapsed_slice_dims: Dims = field(converter=_dims)
    start_index_map: Dims = field(converter=_dims)
    operand_batching_dims: Dims = field(converter=_dims, default=())
    start_indices_batching_dims: Dims = field(converter=_dims, default=())

    def window_axes(self, ndim: int) -> list[int]:
        """The axes of an operand with `ndim` axes that `offset_dims` stands for."""
        without = (*self.collapsed_slice_dims, *self.operand_batching_dims)
        return [axis for axis in range(ndim) if axis not in without]

    def batch_axes(self, ndim: int) -> list[int]:
        """The axes of a result with `ndim` axes that come from the indices."""
        return [axis for axis in range(ndim) if axis not in self.offset_dims]

    def with_window_axis(self, at: int, operand_ndim: int, result_ndim: int) -> tuple[GatherDimensionNumbers, int]:
        """The numbers when the operand has one more axis, at `at`, all of which is taken; and where that is in the
        result. The numbers of axes are those without it."""
        rank = sum(axis < at for axis in self.window_axes(operand_ndim))
        offsets = self.offset_dims
        place = offsets[rank] if rank < len(offsets) else result_ndim
        return GatherDimensionNumbers(
            (*offsets[:rank], place, *(axis + 1 for axis in offsets[rank:])),
            shift_axes(self.collapsed_slice_dims, at),
            shift_axes(self.start_index_map, at),
            shift_axes(self.operand_batching_dims, at),
            self.start_indices_batching_dims,
        ), place

    def with_batch_axis(self, at: int | None) -> GatherDimensionNumbers:
        """The numbers when the indices have one more axis, the first, and the operand one to go with it at `at`, unless
        that is None. It is the first axis of the result, too."""
        offsets = shift_axes(self.offset_dims, 0)
        ours, theirs = self.operand_batching_dims, shift_axes(self.start_indices_batching_dims, 0)
        if at is None:
            return GatherDimensionNumbers(offsets, self.collapsed_slice_dims, self.start_index_map, ours, theirs)
        rank = sum(axis < at for axis in ours)
        shifted = shift_axes(ours, at)
        return GatherDimensionNumbers(
            offsets,
            shift_axes(self.collapsed_slice_dims, at),
            shift_axes(self.start_index_map, at),
            (*shifted[:rank], at, *shifted[rank:]),
            (*theirs[:rank], 0, *theirs[rank:]),
        )


@final
@frozen
class ScatterDimensionNumbers:
    """The same for a scatter, under the names that it has there: `update_window_dims` are axes of the updates."""

    update_window_dims: Dims = field(converter=_dims)
    inserted_window_dims: Dims = field(converter=_dims)
    scatter_dims_to_operand_dims: Dims = field(converter=_dims)
    operand_batching_dims: Dims = field(converter=_dims, default=())
    scatter_indices_batching_dims: Dims = field(converter=_dims, default=())

    @staticmethod
    def of(dims: GatherDimensionNumbers) -> ScatterDimensionNumbers:
        """The scatter to where a gather takes from."""
        return ScatterDimensionNumbers(
            dims.offset_dims,
            dims.collapsed_slice_dims,
            dims.start_index_map,
            dims.operand_batching_dims,
            dims.start_indices_batching_dims,
        )

    @property
    def gather(self) -> GatherDimensionNumbers:
        """The gather from where this scatters to."""
        return GatherDimensionNumbers(
            self.update_window_dims,
            self.inserted_window_dims,
            self.scatter_dims_to_operand_dims,
            self.operand_batching_dims,
            self.scatter_indices_batching_dims,
        )

    def window_sizes(self, operand: Shape, updates: Shape) -> Shape:
        """The size of the window along each axis of the operand."""
        sizes = [min(size, 1) if axis in self.operand_batching_dims else 1 for axis, size in enumerate(operand)]
        for axis, place in zip(self.gather.window_axes(len(operand)), self.update_window_dims, strict=True):
            sizes[axis] = updates[place]
        return tuple(sizes)


# Types.


def check_indices(name: str, indices: ShapedArray) -> None:
    if indices.dtype not in INTEGERS:
        raise DtypeError(f"{name} needs indices of an integer dtype, got {short_name(indices.dtype)}")
    if indices.ndim == 0:
        raise shape_error(name, "the indices need at least one axis, the last, along which the index vectors are")


def _check_axes(name: str, what: str, axes: Dims, ndim: int, ordered: bool = True) -> None:
    if any(not 0 <= axis < ndim for axis in axes) or len(set(axes)) < len(axes):
        raise shape_error(name, f"{what} must be distinct axes of {ndim}, got {axes}")
    if ordered and list(axes) != sorted(axes):
        raise shape_error(name, f"{what} must be in ascending order, got {axes}")


#: What the fields of the dimension numbers are called in messages.
GATHER_NAMES = ("offset_dims", "collapsed_slice_dims", "start_index_map", "start_indices_batching_dims")
SCATTER_NAMES = (
    "update_window_dims",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "scatter_indices_batching_dims",
)


def check_numbers(
    name: str,
    dims: GatherDimensionNumbers,
    operand: ShapedArray,
    indices: ShapedArray,
    names: tuple[str, str, str, str],
) -> None:
    """A ShapeError unless the dimension numbers are possible for an operand and indices of these types."""
    ndim = operand.ndim
    offset, collapsed, index_map, batching = names
    _check_axes(name, offset, dims.offset_dims, len(dims.offset_dims) + indices.ndim - 1)
    _check_axes(name, collapsed, dims.collapsed_slice_dims, ndim)
    _check_axes(name, index_map, dims.start_index_map, ndim, ordered=False)
    _check_axes(name, "operand_batching_dims", dims.operand_batching_dims, ndim)
    _check_axes(name, batching, dims.start_indices_batching_dims, indices.ndim - 1, ordered=False)
    for what, axes in ((collapsed, dims.collapsed_slice_dims), (index_map, dims.start_index_map)):
        if set(axes) & set(dims.operand_batching_dims):
            raise shape_error(
                name, f"{what} {axes} and operand_batching_dims {dims.operand_batching_dims} must be disjoint"
            )
    if len(dims.start_index_map) != indices.shape[-1]:
        raise shape_error(name, f"{index_map} {dims.start_index_map} must have an entry for each entry of an index "
                          f"vector, which the indices {indices} have along their last axis")  # fmt: skip
    ours = [operand.shape[axis] for axis in dims.operand_batching_dims]
    if ours != [indices.shape[axis] for axis in dims.start_indices_batching_dims]:
        raise shape_error(name, f"operand_batching_dims {dims.operand_batching_dims} of {operand} and {batching} "
                          f"{dims.start_indices_batching_dims} of {indices} must have the same sizes")  # fmt: skip
    without = len(dims.collapsed_slice_dims) + len(dims.operand_batching_dims)
    if len(dims.offset_dims) + without != ndim:
        raise shape_error(name, f"each axis of the operand {operand} must be in the window, {offset} "
                          f"{dims.offset_dims}, or in {collapsed} {dims.collapsed_slice_dims}, or in "
                          f"operand_batching_dims {dims.operand_batching_dims}")  # fmt: skip


def result_shape(dims: GatherDimensionNumbers, sizes: Shape, indices: Shape) -> Shape:
    """The shape of what is gathered."""
    window = iter(sizes[axis] for axis in dims.window_axes(len(sizes)))
    batch = iter(indices[:-1])
    ndim = len(dims.offset_dims) + len(indices) - 1
    return tuple(next(window) if axis in dims.offset_dims else next(batch) for axis in range(ndim))


# Elements.


class Update(Protocol):
    """Writes updates to an array at the positions that the index arrays give."""

    def __call__(self, target: HostArray, index: tuple[Positions, ...], updates: HostArray, /) -> None: ...


@final
@frozen
class Plan:
    """Where the elements of windows are. `shape` is the result's of a gather, the updates' of a scatter.

    The axes of the operand are divided: along the `plain` ones, all windows begin at 0. The others are indexed, with
    arrays that vary along the axes `varying` of the result; `rest` are those of the plain ones.
    """

    dims: GatherDimensionNumbers
    operand: Shape
    sizes: Shape
    shape: Shape
    indexed: list[int]
    plain: list[int]
    varying: list[int]
    rest: list[int]
    # For each indexed axis: which entry of an index vector is added to which positions.
    positions: list[tuple[int | None, Positions]]
    entries: Shape  # that of one entry of all index vectors, with an axis for each of `varying`

    @staticmethod
    def of(dims: GatherDimensionNumbers, operand: Shape, sizes: Shape, shape: Shape) -> Plan:
        window = dict(zip(dims.window_axes(len(operand)), dims.offset_dims, strict=True))
        plain = {axis: place for axis, place in window.items() if axis not in dims.start_index_map}
        indexed = [axis for axis in range(len(operand)) if axis not in plain]
        varying = [axis for axis in range(len(shape)) if axis not in plain.values()]
        batch = dims.batch_axes(len(shape))

        def along(place: int) -> Positions:
            return np.arange(shape[place]).reshape([shape[i] if i == place else 1 for i in varying])

        def fixed(axis: int) -> Positions:
            if axis in dims.operand_batching_dims:
                return along(batch[dims.start_indices_batching_dims[dims.operand_batching_dims.index(axis)]])
            return along(window[axis]) if axis in window else np.zeros([1] * len(varying), np.int64)

        starts = dims.start_index_map
        positions = [(starts.index(axis) if axis in starts else None, fixed(axis)) for axis in indexed]
        entries = tuple(shape[i] if i in batch else 1 for i in varying)
        if not starts:  # nothing else spreads what the index vectors would
            first = positions[0][1] if positions else np.zeros([1] * len(varying), np.int64)
            positions[:1] = [(None, np.broadcast_to(first, [shape[i] for i in varying]))]
        return Plan(
            dims, operand, sizes, shape, indexed, list(plain), varying, list(plain.values()), positions, entries
        )

    @property
    def highest(self) -> Positions:
        """The last position at which a window is within the operand, for each entry of an index vector."""
        ends = [self.operand[axis] - self.sizes[axis] for axis in self.dims.start_index_map]
        return np.asarray(ends, np.int64)

    def inside(self, starts: Positions) -> npt.NDArray[np.bool_]:
        """Which windows are within the operand."""
        return np.asarray(np.all((starts >= 0) & (starts <= self.highest), axis=-1))

    def index(self, starts: Positions) -> tuple[Positions, ...]:
        """The index arrays for the indexed axes, which broadcast; for a single axis of size 1, if there are none."""
        return tuple(
            fixed if entry is None else starts[..., entry].reshape(self.entries) + fixed
            for entry, fixed in self.positions
        )

    def view(self, operand: HostArray) -> HostArray:
        """The windows' part of the operand, indexed axes first."""
        whole = operand.transpose([*self.indexed, *self.plain])
        ranges = [slice(None)] * len(self.indexed) + [slice(self.sizes[axis]) for axis in self.plain]
        part: HostArray = whole[tuple(ranges)]
        return part if self.indexed else part[None]

    def take(self, operand: HostArray, starts: Positions) -> HostArray:
        """The windows, which must be within the operand."""
        taken: HostArray = self.view(operand)[self.index(starts)]
        order = [*self.varying, *self.rest]
        return taken.transpose(sorted(range(len(order)), key=order.__getitem__))

    def update(self, operand: HostArray, starts: Positions, updates: HostArray, write: Update) -> HostArray:
        """A copy of the operand after `write` at the windows that are within it."""
        out: HostArray = np.array(operand)
        index, moved = self.index(starts), updates.transpose([*self.varying, *self.rest])
        inside = self.inside(starts)
        if not inside.all():
            index = np.broadcast_arrays(*index)
            kept = np.broadcast_to(inside.reshape(self.entries), index[0].shape)
            index, moved = tuple(array[kept] for array in index), moved[kept]
        if moved.size:
            write(self.view(out), index, moved)
        return out


def whole_numbers(indices: HostArray) -> Positions:
    """Indices as int64; those that are too large are the largest."""
    if indices.dtype == UINT64:
        indices = np.minimum(indices, np.asarray(np.iinfo(np.int64).max, UINT64))
    return indices.astype(np.int64, copy=False)
