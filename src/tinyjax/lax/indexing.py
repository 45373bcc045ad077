"""Functions that take or write elements at computed positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyjax.arrays.advanced_indexing import dtype_of_positions, scalars
from tinyjax.arrays.index_keys import Known, in_int64, wrap_negative
from tinyjax.arrays.shaping import canonical_axes, canonical_axis, moveaxis
from tinyjax.caching import bounded
from tinyjax.errors import IndexKindError, ShapeError, TypingError
from tinyjax.ir.dtypes import DType, Scalar
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.lax.binding import operands, sequence
from tinyjax.lax.shaping import expand_dims, squeeze
from tinyjax.lax.signatures import ModeLike, Starts
from tinyjax.lax.unary import neg
from tinyjax.primitives.dynamic import DynamicSlice, DynamicUpdateSlice
from tinyjax.primitives.gather import Gather, ScatterAdd, Scattering
from tinyjax.primitives.scatter import Scatter, ScatterMax, ScatterMin, ScatterMul
from tinyjax.primitives.windows import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.transforms.arguments import marks


def _starts(name: str, x: Array, start_indices: Starts, allow_negative: bool | Sequence[bool]) -> list[Array]:
    """A start for each axis, as arrays of one dtype; negative ones counted from the end, where that is allowed."""
    if not isinstance(start_indices, Sequence):
        vector = as_array(start_indices)
        if vector.ndim != 1:
            raise ShapeError(f"{name}: the starts are a sequence of scalars or a vector, got {vector.aval}")
        start_indices = [vector[i] for i in range(vector.shape[0])]
    if len(start_indices) != x.ndim:
        raise ShapeError(f"{name}: a start for each axis of {x.aval} is needed, got {len(start_indices)}")
    each = (allow_negative,) * x.ndim if isinstance(allow_negative, bool) else allow_negative
    allowed = marks(f"{name}: allow_negative_indices", each, x.ndim, "axes")
    found: list[int | Known | Array] = []
    starts = [start if type(start) is int else as_array(start) for start in start_indices]
    if len({start.dtype for start in starts if not isinstance(start, int) and not start.aval.weak_type}) > 1:
        types = ", ".join(str(as_array(start).aval) for start in starts)
        raise TypingError(f"{name}: the index arguments must be integers of the same type, got {types}")
    for start, size, negative in zip(starts, x.shape, allowed, strict=True):
        if isinstance(start, int):
            found.append(in_int64(start + size if negative and start < 0 else start))
            continue
        known = start.concrete()
        if start.ndim or start.dtype.kind not in "iu":
            raise IndexKindError(f"{name}: the starts must be integer scalars, got {start.aval}")
        if known is not None and known.on_host:
            position = int(np.asarray(known.data))
            found.append(in_int64(position + size if negative and position < 0 else position))
        else:
            found.append(wrap_negative(start, size) if negative else start)
    whole = [start for start in found if isinstance(start, int)]
    if len(whole) < len(found):
        return scalars(x, found)
    dtype = dtype_of_positions(whole)
    return [_position(start, dtype) for start in whole]


@bounded(1024)
def _position(start: int, dtype: DType) -> Array:
    return as_array(np.asarray(start, dtype))


def dynamic_slice(
    operand: ArrayLike,
    start_indices: Starts,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """A slice of known sizes that begins at positions which may be traced.

    A slice that would reach beyond the operand is moved. Negative starts count from the end, if they are allowed.

    >>> dynamic_slice(np.arange(5.0), [3], [3])
    Array([2., 3., 4.], dtype=float64)
    """
    x = as_array(operand)
    starts = _starts("dynamic_slice", x, start_indices, allow_negative_indices)
    return bind(DynamicSlice(as_shape(slice_sizes)), x, *starts)[0]


def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """A slice along one axis that begins at a position which may be traced."""
    x = as_array(operand)
    at = canonical_axis(axis, x.ndim, "dynamic_slice_in_dim")
    sizes = (*x.shape[:at], slice_size, *x.shape[at + 1 :])
    return dynamic_slice(x, _at(at, x.ndim, start_index), sizes, allow_negative_indices=allow_negative_indices)


def _at(axis: int, ndim: int, start: ArrayLike) -> list[ArrayLike]:
    """Starts that are 0 but for one axis."""
    return [start if i == axis else 0 for i in range(ndim)]


def dynamic_index_in_dim(
    operand: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The elements at one position, which may be traced, along an axis. The axis stays with size 1 if `keepdims`."""
    found = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return found if keepdims else squeeze(found, (axis,))


def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: Starts,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """The operand with `update` written to it, beginning at positions that may be traced.

    An update that would reach beyond the operand is moved.

    >>> dynamic_update_slice(np.zeros(4), np.ones(2), [9])
    Array([0., 0., 1., 1.], dtype=float64)
    """
    x, new = operands(operand, update)
    starts = _starts("dynamic_update_slice", x, start_indices, allow_negative_indices)
    return bind(DynamicUpdateSlice(), x, new, *starts)[0]


def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The operand with `update` written to it, beginning at a position along one axis."""
    x = as_array(operand)
    at = canonical_axis(axis, x.ndim, "dynamic_update_slice_in_dim")
    starts = _at(at, x.ndim, start_index)
    return dynamic_update_slice(x, update, starts, allow_negative_indices=allow_negative_indices)


def dynamic_update_index_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The operand with `update`, which may lack the axis, written to one position along it."""
    x, new = operands(operand, update)
    if new.ndim != x.ndim:
        if new.ndim + 1 != x.ndim:
            raise ShapeError(f"dynamic_update_index_in_dim: {new.aval} doesn't fit {x.aval}, with an axis or without")
        new = expand_dims(new, (canonical_axis(axis, x.ndim, "dynamic_update_index_in_dim"),))
    return dynamic_update_slice_in_dim(x, new, index, axis, allow_negative_indices=allow_negative_indices)


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: ModeLike = None,
    fill_value: Scalar | None = None,
) -> Array:
    """The windows of `slice_sizes` that begin at the index vectors, which are along the last axis of `start_indices`.

    `mode` says what becomes of windows that aren't within the operand: "clip", "fill", or "promise_in_bounds", which is
    the default. The fill value is by default nan, the least signed or the greatest unsigned integer, or True.
    """
    settled = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    filled = fill_value if settled is GatherScatterMode.FILL_OR_DROP else None
    sizes: Shape = as_shape(slice_sizes)
    primitive = Gather(dimension_numbers, sizes, settled, filled, indices_are_sorted, unique_indices)
    return bind(primitive, as_array(operand), as_array(start_indices))[0]


def _scattered(kind: type[Scattering], operand: ArrayLike, indices: ArrayLike, updates: ArrayLike,
               dims: ScatterDimensionNumbers, is_sorted: bool, unique: bool, mode: ModeLike) -> Array:  # fmt: skip
    x, new = operands(operand, updates)
    return bind(kind(dims, GatherScatterMode.from_any(mode), is_sorted, unique), x, as_array(indices), new)[0]


def scatter(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: ModeLike = None,
) -> Array:
    """The operand with the windows that begin at the index vectors replaced by the updates.

    `mode` says what becomes of windows that aren't within the operand: they are dropped, unless it is "clip". Where
    windows overlap, it isn't said which update is taken.
    """
    dims = dimension_numbers
    return _scattered(Scatter, operand, scatter_indices, updates, dims, indices_are_sorted, unique_indices, mode)


def scatter_add(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: ModeLike = None,
) -> Array:
    """Like `scatter`, but the updates are added."""
    dims = dimension_numbers
    return _scattered(ScatterAdd, operand, scatter_indices, updates, dims, indices_are_sorted, unique_indices, mode)


def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: ModeLike = None,
) -> Array:
    """Like `scatter`, but the updates are subtracted."""
    dims = dimension_numbers
    negative = neg(updates)
    return _scattered(ScatterAdd, operand, scatter_indices, negative, dims, indices_are_sorted, unique_indices, mode)


def scatter_mul(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: ModeLike = None,
) -> Array:
    """Like `scatter`, but the updates are factors. Differentiable in them only with `unique_indices`."""
    dims = dimension_numbers
    return _scattered(ScatterMul, operand, scatter_indices, updates, dims, indices_are_sorted, unique_indices, mode)


def scatter_min(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: ModeLike = None,
) -> Array:
    """Like `scatter`, but each element becomes the least of what was there and its updates."""
    dims = dimension_numbers
    return _scattered(ScatterMin, operand, scatter_indices, updates, dims, indices_are_sorted, unique_indices, mode)


def scatter_max(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: ModeLike = None,
) -> Array:
    """Like `scatter`, but each element becomes the greatest of what was there and its updates."""
    dims = dimension_numbers
    return _scattered(ScatterMax, operand, scatter_indices, updates, dims, indices_are_sorted, unique_indices, mode)


def index_take(src: ArrayLike, idxs: Sequence[ArrayLike], axes: Sequence[int]) -> Array:
    """The parts of an array at positions along several axes: vectors of indices of one length, one for each axis.

    The positions are along the first axis of the result; the other axes follow. Indices count modulo the sizes.

    >>> import numpy as np
    >>> index_take(np.arange(6).reshape(2, 3), (np.array([0, 1]), np.array([2, -1])), (0, 1)).tolist()
    [2, 5]
    """
    x = as_array(src)
    taken = canonical_axes(axes, x.aval.ndim, "index_take")
    if len(vectors := sequence("what index_take takes for idxs", idxs)) != len(taken):
        raise ShapeError(f"index_take needs indices for each of the axes {taken}; got {len(vectors)} arrays")
    moved = moveaxis(x, taken, range(len(taken)))
    return moved[tuple(as_array(i) % size for i, size in zip(vectors, moved.aval.shape, strict=False))]
