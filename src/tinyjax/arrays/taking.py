"""Taking elements along an axis: `take` and `take_along_axis`."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

from tinyjax.arrays import arithmetic
from tinyjax.arrays.elementwise import broadcast_shapes, constant_like
from tinyjax.arrays.index_keys import with_room_for, wrap_negative
from tinyjax.arrays.shaping import canonical_axis, expand_dims, ravel, reshape, squeeze
from tinyjax.errors import ChoiceError, IndexingError, InputError, ShapeError, UnsupportedError
from tinyjax.ir.dtypes import INTEGERS, Scalar, short_name
from tinyjax.prepared.functions import prepared
from tinyjax.primitives.gather import Gather
from tinyjax.primitives.windows import GatherDimensionNumbers, GatherScatterMode

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array


def check_positions(name: str, positions: Array) -> None:
    if positions.dtype not in INTEGERS:
        raise ChoiceError(f"{name}: positions must be integers, got {short_name(positions.dtype)}")


def wrapped_around(positions: Array, size: int) -> Array:
    """Positions modulo the size of their axis."""
    positions = with_room_for(positions, size)
    return arithmetic.remainder(positions, constant_like(positions, size))


@prepared
def take(
    x: Array,
    indices: Array,
    axis: SupportsIndex | None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Scalar | None = None,
) -> Array:
    """The elements at these positions along an axis, by default of x in row-major order. `mode`: see `numpy.take`."""
    check_positions("take", indices)
    if axis is None:
        return take(ravel(x), indices, 0, mode, unique_indices, indices_are_sorted, fill_value)
    at = canonical_axis(axis, x.ndim, "take")
    size = x.shape[at]
    if size == 0 and indices.size:
        raise IndexingError(f"take: there is nothing to take along axis {at} of {x.aval}")
    settled = GatherScatterMode.FILL_OR_DROP
    if mode is None or mode == "fill":
        indices = wrap_negative(indices, size)
    elif mode == "wrap":
        indices = wrapped_around(indices, size) if indices.size else indices
        settled = GatherScatterMode.PROMISE_IN_BOUNDS
    elif mode == "clip":
        settled = GatherScatterMode.CLIP
    elif mode == "raise":
        raise UnsupportedError("take: mode='raise' is not supported. The modes are 'fill', 'clip' and 'wrap'.")
    else:
        raise ChoiceError(f"take: Invalid mode {mode!r}. The modes are 'fill', 'clip' and 'wrap'.")
    count = indices.ndim
    offsets = [*range(at), *range(at + count, x.ndim + count - 1)]
    sizes = tuple(1 if i == at else n for i, n in enumerate(x.shape))
    filled = _fill(fill_value) if settled is GatherScatterMode.FILL_OR_DROP else None
    dims = GatherDimensionNumbers(offsets, (at,), (at,))
    gather = Gather(dims, sizes, settled, filled, indices_are_sorted, unique_indices)
    return x._bind(gather, x, expand_dims(indices, -1))[0]


def _fill(value: Scalar | None) -> Scalar | None:
    given: object = value
    if given is None or isinstance(given, bool | int | float | complex | np.generic):
        return value
    raise InputError(f"fill_value is a number, got {given!r}")


@prepared
def take_along_axis(
    x: Array,
    indices: Array,
    axis: SupportsIndex | None = -1,
    mode: str | GatherScatterMode | None = None,
    fill_value: Scalar | None = None,
    wrap: bool = True,
) -> Array:
    """The elements at positions along an axis: `out[i, j] = x[indices[i, j], j]` for axis 0.

    The other axes are broadcast. `mode` is what becomes of positions out of range, by default "fill"; with "one_hot"
    there are zeros. `wrap`: negative positions count from the end.
    """
    check_positions("take_along_axis", indices)
    if axis is None:
        if indices.ndim != 1:
            raise ShapeError(f"take_along_axis: without an axis the indices must be a vector, got {indices.aval}")
        return take_along_axis(ravel(x), indices, 0, mode, fill_value, wrap)
    if x.ndim != indices.ndim:
        raise ShapeError(f"take_along_axis needs as many axes in {x.aval} as in the indices, {indices.aval}")
    at = canonical_axis(axis, x.ndim, "take_along_axis")
    size = x.shape[at]
    if mode == "one_hot":  # JAX's, by a product; what it makes of other positions is 0
        mode, fill_value = "fill", 0
    settled = GatherScatterMode.from_any(mode)
    if wrap:
        indices = wrap_negative(indices, size)
    broadcast_shapes(indices.shape, (*x.shape[:at], 1, *x.shape[at + 1 :]))
    if size == 0 and indices.size:
        raise IndexingError(f"take_along_axis: there is nothing to take along axis {at} of {x.aval}")
    # Axes along which the indices don't vary belong to the window; where only x doesn't vary, it goes without.
    window = [i for i in range(x.ndim) if i != at and indices.shape[i] == 1]
    repeated = [i for i in range(x.ndim) if i != at and indices.shape[i] != 1 == x.shape[i]]
    kept = [i for i in range(x.ndim) if i not in repeated]
    vectors = [i for i in range(x.ndim) if i not in window]
    paired = [i for i in kept if i != at and i not in window]
    along = kept.index(at)
    dims = GatherDimensionNumbers(
        window, (along,), (along,), [kept.index(i) for i in paired], [vectors.index(i) for i in paired]
    )
    sizes = tuple(1 if i == at else min(x.shape[i], 1) if i in paired else x.shape[i] for i in kept)
    positions = reshape(indices, (*[indices.shape[i] for i in vectors], 1))
    filled = _fill(fill_value) if settled is GatherScatterMode.FILL_OR_DROP else None
    return x._bind(Gather(dims, sizes, settled, filled), squeeze(x, repeated), positions)[0]
