"""Elements at computed positions: taking, putting, finding."""

from __future__ import annotations

from typing import Literal, SupportsIndex

import numpy as np

from tinyjax.arrays import arithmetic, comparisons, taking
from tinyjax.arrays.elementwise import broadcast_to, is_nan, promote, where
from tinyjax.arrays.intake import refuse_out
from tinyjax.arrays.shaping import canonical_axis, ravel, reshape
from tinyjax.errors import InputError, ShapeError
from tinyjax.ir.dtypes import COMPLEXES, INEXACT, INT64, Scalar
from tinyjax.numpy.arguments import refuse_inplace
from tinyjax.numpy.creation import asarray, zeros_like
from tinyjax.prepared import closed
from tinyjax.prepared.functions import prepared, prepared_as
from tinyjax.primitives.windows import GatherScatterMode
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: SupportsIndex | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Scalar | None = None,
) -> Array:
    """The elements at these positions along an axis, by default in row-major order.

    `mode` is what becomes of positions out of range: "fill" (the default: `fill_value`, by default nan, the least
    signed or the greatest unsigned integer, or True), "clip" or "wrap". Negative positions count from the end, but for
    "clip".

    >>> take(np.array([10.0, 20.0, 30.0]), [2, -3, 3])
    Array([30., 10., nan], dtype=float64)
    """
    refuse_out("take", out)
    x, positions = as_array(a), asarray(indices)
    return taking.take(x, positions, axis, mode, unique_indices, indices_are_sorted, fill_value)


@prepared
def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: SupportsIndex | None = -1,
    mode: str | GatherScatterMode | None = None,
    fill_value: Scalar | None = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """The elements at positions along an axis: `out[i, j] = arr[indices[i, j], j]` for axis 0."""
    wrapped = wrap_negative_indices is not False
    return taking.take_along_axis(as_array(arr), as_array(indices), axis, mode, fill_value, wrapped)


def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True) -> Array:
    """A copy of an array with the elements at these positions, in row-major order, replaced by values.

    The values are repeated until there are enough. Negative positions count from the end, but for `mode` "clip", where
    they are 0. `inplace` must be False, because arrays are immutable.
    """
    refuse_inplace("put", inplace)
    x, positions, values = as_array(a), ravel(asarray(ind)), ravel(asarray(v))
    if positions.size == 0 or x.size == 0 or values.size == 0:
        return x
    if mode == "wrap":
        positions = taking.wrapped_around(positions, x.size)
    elif mode == "clip":
        # As in NumPy: here a negative position isn't one counted from the end.
        positions = where(positions < 0, zeros_like(positions), positions)
    elif mode is not None:
        raise InputError(f"put: unknown mode {mode!r}. The modes are 'clip' and 'wrap'.")
    repeats = -(-positions.size // values.size)
    repeated = ravel(broadcast_to(values, (repeats, values.size)))[: positions.size]
    return reshape(ravel(x).at[positions].set(repeated, mode="clip"), x.shape)


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: SupportsIndex | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """A copy of an array with `arr[indices[i, j], j] = values[i, j]`, for axis 0. `inplace` must be False."""
    refuse_inplace("put_along_axis", inplace)
    x, positions, new = as_array(arr), as_array(indices), as_array(values)
    taking.check_positions("put_along_axis", positions)
    if axis is None:
        flat = put_along_axis(ravel(x), ravel(positions), new, 0, False, mode=mode)
        return reshape(flat, x.shape)
    if x.ndim != positions.ndim:
        raise ShapeError(f"put_along_axis needs as many axes in {x.aval} as in the indices, {positions.aval}")
    at = canonical_axis(axis, x.ndim, "put_along_axis")
    key = tuple(
        positions if i == at else np.arange(n).reshape([-1 if j == i else 1 for j in range(x.ndim)])
        for i, n in enumerate(x.shape)
    )
    return x.at[key].set(new, mode=mode)


def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: Literal["scan", "scan_unrolled", "sort", "compare_all"] = "scan",
) -> Array:
    """Where values would have to be inserted into a sorted vector, so that it stays sorted. nan comes last.

    `side` "left" is before equal elements, "right" after them. `sorter` sorts the vector, if it isn't sorted yet.
    `method`, which JAX has, makes no difference.

    >>> searchsorted(np.array([1.0, 2.0, 2.0, 5.0]), np.array([2.0, 9.0]))
    Array([1, 4], dtype=int64)
    """
    if side not in ("left", "right"):
        raise InputError(f"searchsorted: side is 'left' or 'right', got {side!r}")
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise InputError(f"searchsorted: method is 'scan', 'scan_unrolled', 'sort' or 'compare_all', got {method!r}")
    ordered, values = promote(as_array(a), as_array(v))
    if ordered.ndim != 1:
        raise ShapeError(f"searchsorted: the sorted array must be a vector, got {ordered.aval}")
    if sorter is not None:
        ordered = taking.take(ordered, as_array(sorter), 0, "clip")
    return (_before_equal if side == "left" else _after_equal)(ordered, values)


@prepared_as(closed.sorted_left)
def _before_equal(ordered: Array, values: Array) -> Array:
    return _halved(ordered, values, "left")


@prepared_as(closed.sorted_right)
def _after_equal(ordered: Array, values: Array) -> Array:
    return _halved(ordered, values, "right")


def _halved(ordered: Array, values: Array, side: str) -> Array:
    left = ordered.size  # so many elements may come before a value besides those of which it is known already
    place = broadcast_to(as_array(np.zeros((), INT64)), values.shape)
    while left:  # a known number of steps needs no loop
        half = (left + 1) // 2
        if left == ordered.size:
            last = ordered[half - 1]
        else:
            at = place if half == 1 else arithmetic.add(place, as_array(half - 1))
            last = taking.take(ordered, at, 0, "clip")
        before = arithmetic.invert(_at_most(values, last)) if side == "left" else _at_most(last, values)
        place = where(before, arithmetic.add(place, as_array(half)), place)
        left -= half
    return place


def _at_most(x: Array, y: Array) -> Array:
    """Whether elements are equal to others or come before them when sorted: nan is last."""
    found = comparisons.less_equal(x, y)
    if x.dtype in COMPLEXES:  # the real parts may decide, where the imaginary one is nan
        found = arithmetic.bitwise_and(found, arithmetic.invert(is_nan(x)))
    return arithmetic.bitwise_or(found, is_nan(y)) if x.dtype in INEXACT else found
