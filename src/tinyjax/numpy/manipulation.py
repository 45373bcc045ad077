"""Arrays in other shapes and orders: reshaping, moving axes, flipping, rolling, repeating, padding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, SupportsIndex

import numpy as np

from tinyjax.arrays import elementwise, repeating, shaping, taking
from tinyjax.arrays.elementwise import astype
from tinyjax.arrays.shaping import canonical_axes, canonical_axis, integer, integers
from tinyjax.errors import ShapeError, TinyjaxError, UnsupportedError
from tinyjax.ir.dtypes import INT64, INTEGERS
from tinyjax.ir.result_types import made_once
from tinyjax.lax.explicit import computed
from tinyjax.lax.layouts import OutSharding, laid_out
from tinyjax.numpy.arguments import shape_of, with_axes
from tinyjax.numpy.creation import asarray
from tinyjax.numpy.padding import COMPUTED, check_options, pad_by_function, pad_computed, pad_odd
from tinyjax.numpy.signatures import Axes, Nested, PadMode, PadWidth, ShapeLike
from tinyjax.prepared.functions import prepared
from tinyjax.primitives.shaping import Rev
from tinyjax.primitives.slicing import Pad
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

# Shapes.


def reshape(
    a: ArrayLike, shape: ShapeLike, order: str = "C", *, copy: bool | None = None, out_sharding: OutSharding = None
) -> Array:
    """The same elements in another shape; one size may be -1."""
    return computed(lambda x: shaping.reshape(x, shape, order), [as_array(a)], out_sharding)


ravel: Final = shaping.ravel


squeeze: Final = shaping.squeeze


expand_dims: Final = shaping.expand_dims


def broadcast_to(array: ArrayLike, shape: ShapeLike, *, out_sharding: OutSharding = None) -> Array:
    """The array repeated along leading axes and axes of size 1 to fill the shape."""
    return laid_out(elementwise.broadcast_to(as_array(array), shape_of(shape)), out_sharding)


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """The arrays repeated to one shape."""
    arrays = [as_array(x) for x in args]
    shape = elementwise.broadcast_shapes(*[x.aval.shape for x in arrays])
    return [elementwise.broadcast_to(x, shape) for x in arrays]


def broadcast_shapes(*shapes: ShapeLike) -> tuple[int, ...]:
    """The shape that arrays of these shapes are broadcast to."""
    return elementwise.broadcast_shapes(*map(shape_of, shapes))


def atleast_1d(*arys: ArrayLike) -> Array | list[Array]:
    """The arrays with at least one axis; one array by itself, several as a list."""
    return _each(1, arys)


@prepared
def atleast_2d(*arys: ArrayLike) -> Array | list[Array]:
    """The arrays with at least two axes, new ones in front; one array by itself, several as a list."""
    return _each(2, arys)


@prepared
def atleast_3d(*arys: ArrayLike) -> Array | list[Array]:
    """The arrays with at least three axes; one array by itself, several as a list. A vector is in the middle one."""
    return _each(3, arys)


def _each(ndim: int, arrays: tuple[ArrayLike, ...]) -> Array | list[Array]:
    found = [with_axes(as_array(x), ndim) for x in arrays]
    return found[0] if len(found) == 1 else found


# Axes.


def permute_dims(a: ArrayLike, /, axes: Iterable[SupportsIndex]) -> Array:
    """The axes in this order."""
    return shaping.transpose(as_array(a), axes)


def transpose(a: ArrayLike, axes: Iterable[SupportsIndex] | None = None) -> Array:
    """The axes in this order, by default reversed."""
    return shaping.transpose(as_array(a), axes)


matrix_transpose: Final = shaping.matrix_transpose
swapaxes: Final = shaping.swapaxes
moveaxis: Final = shaping.moveaxis
diagonal: Final = shaping.diagonal


# Orders.


def flip(m: ArrayLike, axis: SupportsIndex | Iterable[SupportsIndex] | None = None) -> Array:
    """The elements in reverse order along these axes, all by default."""
    x = as_array(m)
    axes = canonical_axes(axis, x.aval.ndim, "flip")
    return bind(made_once(Rev, axes), x)[0] if axes else x


def fliplr(m: ArrayLike) -> Array:
    """The columns in reverse order."""
    return flip(m, 1)


def flipud(m: ArrayLike) -> Array:
    """The rows in reverse order."""
    return flip(m, 0)


@prepared
def rot90(m: ArrayLike, k: SupportsIndex = 1, axes: tuple[SupportsIndex, SupportsIndex] = (0, 1)) -> Array:
    """Rotated k times by a right angle, from the first axis towards the second."""
    x = as_array(m)
    try:
        first, second = (canonical_axis(axis, x.aval.ndim, "rot90") for axis in axes)
    except (TypeError, ValueError) as error:
        if isinstance(error, TinyjaxError):
            raise
        raise ShapeError(f"rot90: axes are two integers, got {axes!r}") from error
    if first == second:
        raise ShapeError(f"rot90 needs two axes, got {axes}")
    turns = integer(k, "rot90: k") % 4
    if turns == 2:
        return flip(x, (first, second))
    if turns == 1:
        return shaping.swapaxes(flip(x, second), first, second)
    return flip(shaping.swapaxes(x, first, second), second) if turns == 3 else x


def roll(a: ArrayLike, shift: Axes, axis: Axes | None = None) -> Array:
    """The elements moved on along axes, or in row-major order; those beyond the end come in at the start."""
    x = as_array(a)
    if axis is None:
        return shaping.reshape(roll(shaping.ravel(x), shift, 0), x.aval.shape)
    shift = as_array(shift) if hasattr(shift, "__jax_array__") else shift
    shifts, axes = (
        list(v) if isinstance(v, Sequence) or (isinstance(v, Array | np.ndarray) and v.ndim) else [v]
        for v in (shift, axis)
    )
    count = max(len(shifts), len(axes))
    if len(shifts) != len(axes) and min(len(shifts), len(axes)) != 1:
        raise ShapeError(f"roll: as many shifts as axes, got {shift} and {axis}")
    for i in range(count):
        by, at = shifts[i % len(shifts)], axes[i % len(axes)]
        place = canonical_axis(at, x.aval.ndim, "roll")
        by = as_array(by) if hasattr(by, "__jax_array__") else by
        if isinstance(by, Array) and by.concrete() is None:
            x = _roll_by(x, by, place)
        else:
            x = _roll(x, integer(by, "roll: a shift"), place)
    return x


def _roll_by(x: Array, shift: Array, axis: int) -> Array:
    """By a number that is only known when the program runs."""
    if shift.aval.shape != () or shift.aval.dtype not in INTEGERS:
        raise ShapeError(f"roll: a shift is an integer, got {shift.aval}")
    size = x.aval.shape[axis]
    places = asarray(np.arange(size)) - astype(shift, INT64)
    return taking.take(x, taking.wrapped_around(places, size), axis, "clip") if size else x


def _roll(x: Array, shift: int, axis: int) -> Array:
    size = x.aval.shape[axis]
    start = -shift % size if size else 0
    if start == 0:
        return x
    before, after = ((slice(None),) * axis + (taken,) for taken in (slice(start, None), slice(None, start)))
    return shaping.concatenate([x[before], x[after]], axis)


# Repetition.


def repeat(
    a: ArrayLike,
    repeats: SupportsIndex | ArrayLike,
    axis: SupportsIndex | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Each element this many times, along an axis or in row-major order; the number is the same for all, or an array of
    them.

    Where an array of numbers isn't known, `total_repeat_length` says how long the result is: it is cut off, or the last
    element fills it.

    >>> import numpy as np
    >>> repeat(np.array([5, 6]), np.array([2, 1]))
    Array([5, 5, 6], dtype=int64)
    """
    return repeating.repeat(a, repeats, axis, total_repeat_length=total_repeat_length, out_sharding=out_sharding)


def tile(A: ArrayLike, reps: Axes) -> Array:
    """The whole array this many times along each axis."""
    return _tile(as_array(A), integers(reps, "tile: a number of repetitions"))


@prepared
def _tile(x: Array, reps: tuple[int, ...]) -> Array:
    counts = list(reps)
    counts = [1] * (x.aval.ndim - len(counts)) + counts
    x = shaping.expand_dims(x, range(len(counts) - x.aval.ndim))
    sizes = x.aval.shape
    # Each axis gains one in front of it that the array is repeated along.
    x = shaping.expand_dims(x, range(0, 2 * len(counts), 2))
    pairs = tuple(size for pair in zip(counts, sizes, strict=True) for size in pair)
    x = elementwise.broadcast_to(x, shape_of(pairs))
    return shaping.reshape(x, tuple(n * size for n, size in zip(counts, sizes, strict=True)))


# Padding.


def pad(
    array: ArrayLike,
    pad_width: PadWidth,
    mode: PadMode | Callable[..., ArrayLike] = "constant",
    *,
    constant_values: Nested | None = None,
    stat_length: PadWidth | None = None,
    end_values: Nested | None = None,
    reflect_type: Literal["even", "odd"] | None = None,
    **kwargs: object,
) -> Array:
    """Elements added before and after each axis: a constant, the edge, or what is there, reflected or again; the
    maximum, mean, median or minimum of the axis, or of the nearest `stat_length`; or a linear ramp to `end_values`.
    Where `reflect_type` is "odd", the reflection is subtracted from twice the edge.

    A function as `mode` is called for each vector along each axis, padded with zeros, the widths of its padding, the
    number of the axis, and a dictionary of further arguments. It returns the vector that takes its place.

    `pad_width` is a number, a pair for all axes, or a pair for each. So are the other arguments.
    """
    x = as_array(array)
    try:
        widths = np.broadcast_to(np.asarray(pad_width), (x.aval.ndim, 2))
    except ValueError as error:
        pairs_of = f"a number, a pair for all axes, or a pair for each of the {x.aval.ndim}"
        raise ShapeError(f"pad: pad_width is {pairs_of}, got {pad_width!r}") from error
    if widths.dtype.kind not in "iu" or (widths < 0).any():
        raise ShapeError(f"pad: widths are integers and at least 0, got {pad_width}")
    pairs: list[tuple[int, int]] = [(before, after) for before, after in widths.tolist()]
    options = {**kwargs, "constant_values": constant_values, "stat_length": stat_length, "end_values": end_values}
    options["reflect_type"] = reflect_type
    given = {name: value for name, value in options.items() if value is not None}
    if not isinstance(mode, str):
        return pad_by_function(_pad_constant(x, pairs, asarray(0)), pairs, mode, given)
    check_options(mode, given)
    if mode in ("constant", "empty"):
        return _pad_constant(x, pairs, asarray(0 if constant_values is None else constant_values))
    if mode in COMPUTED:
        return pad_computed(x, pairs, mode, stat_length, 0 if end_values is None else end_values)
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise UnsupportedError(f"pad: mode {mode!r} is not supported")
    if reflect_type == "odd":
        return pad_odd(x, pairs, mode == "symmetric")
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            x = _take_along(x, _source(mode, x.aval.shape[axis], before, after), axis)
    return x


def _pad_constant(x: Array, pairs: list[tuple[int, int]], value: Array) -> Array:
    dtype = x.aval.dtype
    fill = elementwise.convert(value, dtype, True) if x.aval.weak_type else astype(value, dtype)
    if fill.aval.shape == ():
        return _padded(x, tuple((before, after, 0) for before, after in pairs), fill)
    fill = elementwise.broadcast_to(fill, (x.aval.ndim, 2))
    for axis, (before, after) in enumerate(pairs):
        for side, width in ((0, (before, 0, 0)), (1, (0, after, 0))):
            config = tuple(width if i == axis else (0, 0, 0) for i in range(x.aval.ndim))
            x = _padded(x, config, fill[axis, side])
    return x


def _padded(x: Array, config: tuple[tuple[int, int, int], ...], value: Array) -> Array:
    return x if all(entry == (0, 0, 0) for entry in config) else bind(made_once(Pad, config), x, value)[0]


def _source(mode: str, size: int, before: int, after: int) -> list[int]:
    """For each place along the padded axis, the place that its element comes from."""
    if size == 0:
        raise ShapeError(f"pad: an axis without elements can't be padded in mode {mode!r}")
    places = range(-before, size + after)
    if mode == "edge":
        return [min(max(place, 0), size - 1) for place in places]
    if mode == "wrap":
        return [place % size for place in places]
    # There and back again: symmetric repeats both ends, reflect neither.
    way = [*range(size), *(range(size - 1, -1, -1) if mode == "symmetric" else range(size - 2, 0, -1))]
    return [way[place % len(way)] for place in places]


def _take_along(x: Array, places: list[int], axis: int) -> Array:
    """Elements at these places along an axis, as a concatenation of slices: each run of neighbours is one."""
    runs: list[tuple[int, int, int]] = []  # first place, step, length
    for place in places:
        if runs:
            first, step, length = runs[-1]
            if length == 1 and abs(place - first) <= 1:
                runs[-1] = (first, place - first, 2)
                continue
            if length > 1 and place == first + step * length:
                runs[-1] = (first, step, length + 1)
                continue
        runs.append((place, 0, 1))
    return shaping.concatenate([_run(x, axis, *run) for run in runs], axis)


def _run(x: Array, axis: int, first: int, step: int, length: int) -> Array:
    if step == 0:
        edge = x[(slice(None),) * axis + (slice(first, first + 1),)]
        return repeating.repeat(edge, length, axis) if length > 1 else edge
    last = first + step * (length - 1)
    if step > 0:
        return x[(slice(None),) * axis + (slice(first, last + 1),)]
    return x[(slice(None),) * axis + (slice(first, last - 1 if last else None, -1),)]
