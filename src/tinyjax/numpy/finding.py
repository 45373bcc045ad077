"""The positions of elements: of those that aren't zero, or where a condition holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tinyjax.arrays import along_axis, reductions
from tinyjax.arrays.arithmetic import floor_divide, remainder
from tinyjax.arrays.elementwise import astype, truth, where
from tinyjax.arrays.shaping import integer, ravel
from tinyjax.errors import ConcretizationError, InputError, ShapeError
from tinyjax.ir.dtypes import INT64
from tinyjax.numpy.creation import arange, full
from tinyjax.numpy.joining import stack
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

_KNOWN: Final = (
    "the shape of the result depends on the elements, which aren't known of {aval} here. Pass `size`, for a result of "
    "that size; use numpy.where(condition, x, y); or call it outside of jit and vmap."
)


def nonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | Sequence[ArrayLike] | None = None
) -> tuple[Array, ...]:
    """The positions of the elements that aren't zero, in row-major order: a vector for each axis.

    Without `size`, the elements must be known. With it, the vectors have that size: positions beyond it are left out,
    and what is missing is `fill_value` (0 by default, or a tuple with one for each axis). Where the array has no
    elements it is 0, as in JAX.

    >>> nonzero(np.array([0, 3, 0, 4]))
    (Array([1, 3], dtype=int64),)
    >>> nonzero(np.array([0, 3, 0, 4]), size=3, fill_value=-1)
    (Array([ 1,  3, -1], dtype=int64),)
    """
    x = as_array(a)
    if x.ndim == 0:
        raise ShapeError(f"nonzero needs an array with axes, got {x.aval}. Use atleast_1d first.")
    if size is None:
        known = x.concrete()
        if known is None:
            raise ConcretizationError(f"nonzero: {_KNOWN.format(aval=x.aval)}")
        return tuple(as_array(found) for found in np.nonzero(np.asarray(known.data)))
    fills = _fill_values(fill_value, x.ndim)
    count = integer(size, "nonzero: size")
    if count < 0:
        raise InputError(f"nonzero: size is at least 0, got {size}")
    if not x.size:
        return (full((count,), 0, dtype=INT64),) * x.ndim
    marks = truth(ravel(x))
    numbers = astype(marks, INT64)
    flat = full((count,), 0, dtype=INT64)
    if count:
        # Each goes to the place that says how many there were before it, or nowhere.
        places = where(marks, along_axis.cumsum(numbers) - 1, as_array(np.int64(count)))
        flat = flat.at[places].set(arange(marks.size, dtype=INT64), mode="drop")
    missing = arange(count, dtype=INT64) >= reductions.sum(numbers)
    positions: list[Array] = []
    for axis, length in enumerate(x.shape):
        step = int(np.prod(x.shape[axis + 1 :], dtype=np.int64))
        position = remainder(floor_divide(flat, as_array(np.int64(step))), as_array(np.int64(length)))
        positions.append(where(missing, astype(fills[axis], INT64), position))
    return tuple(positions)


def _fill_values(fill_value: ArrayLike | Sequence[ArrayLike] | None, ndim: int) -> list[Array]:
    """A scalar for each axis."""
    values = fill_value if isinstance(fill_value, tuple) else (0 if fill_value is None else fill_value,) * ndim
    scalars = [as_array(value) for value in values]
    if len(scalars) != ndim or any(value.ndim for value in scalars):
        raise InputError(f"nonzero: fill_value must be a scalar or a tuple of {ndim} of them, got {fill_value!r}")
    return scalars


def flatnonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | Sequence[ArrayLike] | None = None
) -> Array:
    """The positions, in row-major order, of the elements that aren't zero. `size` and `fill_value` as for nonzero."""
    return nonzero(ravel(as_array(a)), size=size, fill_value=fill_value)[0]


def argwhere(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | Sequence[ArrayLike] | None = None
) -> Array:
    """The positions of the elements that aren't zero, as rows of a matrix. `size` and `fill_value` as for nonzero."""
    x = as_array(a)
    if x.ndim:
        return stack(nonzero(x, size=size, fill_value=fill_value), 1)
    rows = flatnonzero(x, size=size, fill_value=None if fill_value == () else fill_value).shape[0]
    return as_array(np.zeros((rows, 0), np.int64))
