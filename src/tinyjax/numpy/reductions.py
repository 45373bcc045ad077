"""Reductions over axes, statistics, cumulative sums, sorting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, SupportsIndex, overload

import numpy.typing as npt

from tinyjax.arrays import along_axis, reductions, shaping
from tinyjax.arrays.elementwise import broadcast_to, is_nan, promote_inexact, truth, user_dtype, where
from tinyjax.arrays.intake import refuse_out
from tinyjax.arrays.reductions import Axis
from tinyjax.arrays.shaping import canonical_axes, canonical_axis, integer, integers
from tinyjax.errors import ShapeError
from tinyjax.ir.dtypes import BOOL, INT64
from tinyjax.numpy.creation import full
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

sum: Final = reductions.sum
prod: Final = reductions.prod
max: Final = reductions.max
min: Final = reductions.min
minmax: Final = reductions.minmax
ptp: Final = reductions.ptp
all: Final = reductions.all
any: Final = reductions.any
mean: Final = reductions.mean
var: Final = reductions.var
std: Final = reductions.std


@prepared
def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many elements aren't zero."""
    return reductions.sum(truth(as_array(a)), axis, INT64, keepdims=keepdims)


# Statistics.


@overload
def average(
    a: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None, returned: Literal[False] = False,
    keepdims: bool = False,
) -> Array: ...  # fmt: skip
@overload
def average(
    a: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None, *, returned: Literal[True],
    keepdims: bool = False,
) -> tuple[Array, Array]: ...  # fmt: skip
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Array | tuple[Array, Array]:
    """The weighted mean over axes. Weights have the shape of a, or of the axes. With `returned`, also their sum."""
    x = as_array(a)
    axes = canonical_axes(axis, x.aval.ndim, "average")
    if weights is None:
        (x,) = promote_inexact(x)
        out = reductions.mean(x, axes, keepdims=keepdims)
        if not returned:
            return out
        total = full((), math.prod(x.aval.shape[axis] for axis in axes), out.aval.dtype)
    else:
        x, w = promote_inexact(x, as_array(weights))
        if w.aval.shape != x.aval.shape:
            given = axes if axis is None else integers(axis, "average: an axis")
            listed = [canonical_axis(i, x.aval.ndim, "average") for i in given]
            w = _along("average", w, x.aval.shape, listed)
        total = reductions.sum(w, axes, keepdims=keepdims)
        out = reductions.sum(x * w, axes, keepdims=keepdims) / total
    return (out, broadcast_to(total, out.aval.shape)) if returned else out


def _along(name: str, weights: Array, shape: tuple[int, ...], axes: Sequence[int]) -> Array:
    """Weights of these axes, in this order, with the other axes of size 1."""
    if weights.aval.shape != tuple(shape[axis] for axis in axes):
        raise ShapeError(f"{name}: weights must have the shape of the array, or of the axes, got {weights.aval}")
    weights = shaping.transpose(weights, [axes.index(i) for i in sorted(axes)])
    return shaping.reshape(weights, tuple(size if i in axes else 1 for i, size in enumerate(shape)))


def median(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """The middle element over axes, or the mean of the two in the middle; nan if there is one."""
    refuse_out("median", out)
    (x,) = promote_inexact(as_array(a))
    return _median(x, axis, keepdims)


@prepared
def _median(x: Array, axis: Axis, keepdims: bool) -> Array:
    ndim = x.aval.ndim
    axes = canonical_axes(axis, ndim, "median")
    kept = [i for i in range(ndim) if i not in axes]
    rest = tuple(x.aval.shape[i] for i in kept)
    size = math.prod(x.aval.shape[i] for i in axes)
    ordered = along_axis.sort(shaping.reshape(shaping.transpose(x, (*kept, *axes)), (*rest, size)))
    if size == 0:
        raise ShapeError(f"median of no elements isn't defined: {x.aval} has an axis of size 0")
    middle = ordered[..., size // 2]
    middle = middle if size % 2 else ordered[..., size // 2 - 1] * 0.5 + middle * 0.5  # the sum may be infinite
    last = ordered[..., -1]
    found = where(is_nan(last), last, middle)
    return shaping.expand_dims(found, axes) if keepdims else found


# Positions, cumulative sums, sorting.


argmax: Final = along_axis.argmax
argmin: Final = along_axis.argmin
cumsum: Final = along_axis.cumsum
cumprod: Final = along_axis.cumprod
sort: Final = along_axis.sort
argsort: Final = along_axis.argsort


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: SupportsIndex | None = None,
    dtype: npt.DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """The sums of all elements so far, from 0 on if `include_initial`. Integers are added as 64-bit integers."""
    found = as_array(x)
    at = _one_axis("cumulative_sum", found, axis)
    out = along_axis.cumsum(found, at, user_dtype(dtype) or reductions.sum_dtype(found.aval.dtype))
    return _after(0, out, at) if include_initial else out


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: SupportsIndex | None = None,
    dtype: npt.DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """The products of all elements so far, from 1 on if `include_initial`. Integers are multiplied as 64-bit ones."""
    found = as_array(x)
    at = _one_axis("cumulative_prod", found, axis)
    out = along_axis.cumprod(found, at, user_dtype(dtype) or reductions.sum_dtype(found.aval.dtype))
    return _after(1, out, at) if include_initial else out


def _one_axis(name: str, x: Array, axis: SupportsIndex | None) -> int:
    if axis is None and x.aval.ndim != 1:
        raise ShapeError(
            f"{name}: The input array has rank {x.aval.ndim}, however axis was not set: say along which of its axes"
        )
    return canonical_axis(0 if axis is None else axis, x.aval.ndim, name)


def _after(value: int, x: Array, axis: int) -> Array:
    shape = x.aval.shape
    return shaping.concatenate([full((*shape[:axis], 1, *shape[axis + 1 :]), value, x.aval.dtype), x], axis)


@prepared
def diff(
    a: ArrayLike,
    n: SupportsIndex = 1,
    axis: SupportsIndex = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """The differences of neighbours along an axis, n times."""
    x = as_array(a)
    at = canonical_axis(axis, x.aval.ndim, "diff")
    count = integer(n, "diff: n")
    if count < 0:
        raise ShapeError(f"diff: n is at least 0, got {count}")
    if count == 0:  # as in NumPy, nothing is put before or after it either
        return x
    parts = [_edge(prepend, x, at), [x], _edge(append, x, at)]
    x = shaping.concatenate([part for group in parts for part in group], at)
    for _ in range(count):
        if not x.aval.shape[at]:
            break
        before, after = ((slice(None),) * at + (taken,) for taken in (slice(None, -1), slice(1, None)))
        x = x[after] != x[before] if x.aval.dtype == BOOL else x[after] - x[before]
    return x


def _edge(value: ArrayLike | None, x: Array, axis: int) -> list[Array]:
    """What comes before or after x; a scalar is repeated along the other axes."""
    if value is None:
        return []
    found, shape = as_array(value), x.aval.shape
    return [found if found.aval.shape else broadcast_to(found, (*shape[:axis], 1, *shape[axis + 1 :]))]


# NumPy's other names.

amax: Final = max
amin: Final = min
