"""Elements chosen by conditions and by numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import SupportsIndex

import numpy as np

from tinyjax.arrays.elementwise import astype, broadcast_to, promote, truth, where
from tinyjax.arrays.intake import refuse_out
from tinyjax.arrays.shaping import canonical_axis, ravel, reshape
from tinyjax.errors import ChoiceError, ConcretizationError, InputError, ShapeError
from tinyjax.ir.dtypes import BOOL, INT64, INTEGERS
from tinyjax.lax.binding import sequence
from tinyjax.numpy.arguments import refuse_inplace
from tinyjax.numpy.creation import arange, asarray
from tinyjax.numpy.finding import nonzero
from tinyjax.numpy.indexing import take, take_along_axis
from tinyjax.numpy.joining import concatenate
from tinyjax.numpy.manipulation import broadcast_arrays
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: SupportsIndex | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """The parts of an axis, or elements in row-major order, where a vector of conditions holds.

    Without `size`, the conditions must be known. With it, the result has that size: what is missing is `fill_value`.

    >>> compress(np.array([True, False, True]), np.array([5, 6, 7]))
    Array([5, 7], dtype=int64)
    """
    refuse_out("compress", out)
    marks, x = truth(asarray(condition)), asarray(a)
    if marks.ndim != 1:
        raise ShapeError(f"compress: the condition must be a vector, got {marks.aval}")
    if axis is None:
        x, axis = ravel(x), 0
    at = canonical_axis(axis, x.ndim, "compress")
    if marks.size > x.shape[at]:
        known = marks.concrete()
        if known is None or np.asarray(known.data)[x.shape[at] :].any():
            raise ShapeError(f"compress: {marks.size} conditions are more than axis {at} of {x.aval} has")
        marks = marks[: x.shape[at]]
    places = nonzero(marks, size=size)[0]
    if not x.shape[at]:
        return broadcast_to(astype(as_array(fill_value), x.dtype), tuple(
            places.size if i == at else n for i, n in enumerate(x.shape)))  # fmt: skip
    found = take(x, places, at, mode="clip")
    if size is None:
        return found
    there = arange(places.size) < marks.sum()
    shape = tuple(-1 if i == at and places.size else places.size if i == at else 1 for i in range(x.ndim))
    return where(reshape(there, shape), found, astype(as_array(fill_value), x.dtype))


def extract(condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0) -> Array:
    """The elements, in row-major order, where a condition holds. `size` and `fill_value` as for compress.

    >>> extract(np.array([True, False, True]), np.array([5, 6, 7]))
    Array([5, 7], dtype=int64)
    """
    return compress(ravel(asarray(condition)), arr, size=size, fill_value=fill_value)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """A copy of an array where the elements that a mask marks are replaced by values, which are repeated.

    `inplace` must be False, because arrays are immutable.

    >>> place(np.zeros(4), np.array([True, False, True, True]), np.array([1, 2]), inplace=False)
    Array([1., 0., 2., 1.], dtype=float64)
    """
    refuse_inplace("place", inplace)
    x, marks, values = asarray(arr), truth(asarray(mask)), ravel(asarray(vals))
    if x.size != marks.size:
        raise ShapeError(f"place: the mask must have as many elements as the array, got {marks.aval} and {x.aval}")
    if not values.size:
        if not x.size:
            return x
        raise ShapeError("place: there are no values to place")
    numbers = ravel(marks).cumsum(dtype=INT64) - 1
    chosen = reshape(take(values, numbers, 0, mode="wrap"), x.shape)
    return where(reshape(marks, x.shape), astype(chosen, x.dtype), x)


def choose(a: ArrayLike, choices: Sequence[ArrayLike] | ArrayLike, out: None = None, mode: str = "raise") -> Array:
    """For each element the choice with its number; arrays and choices are broadcast.

    `mode` is what becomes of numbers out of range: "clip", "wrap", or "raise", for which they must be known.

    >>> choose(np.array([1, 0, 1]), [np.zeros(3), np.ones(3)])
    Array([1., 0., 1.], dtype=float64)
    """
    refuse_out("choose", out)
    numbers = asarray(a)
    if numbers.dtype not in INTEGERS and numbers.dtype != BOOL:
        raise InputError(f"choose: the numbers of choices must be integers, got {numbers.aval}")
    listed = [asarray(x) for x in (choices if isinstance(choices, list | tuple) else asarray(choices))]
    if not listed:
        raise ShapeError("choose needs at least one choice")
    count = len(listed)
    if mode == "raise":
        known = numbers.concrete()
        if known is None:
            raise ConcretizationError(
                f"choose: with mode='raise' the numbers must be known, which they aren't of {numbers.aval} here. Pass "
                "mode='clip' or mode='wrap'."
            )
        found = np.asarray(known.data).astype(np.int64)
        if ((found < 0) | (found >= count)).any():
            raise ChoiceError(
                f"invalid entry in choice array: choose takes numbers between 0 and {count - 1}, "
                f"got {np.min(found)} to {np.max(found)}"
            )
    elif mode not in ("clip", "wrap"):
        raise ChoiceError(f"choose: mode is 'raise', 'clip' or 'wrap', got {mode!r}")
    wide = astype(numbers, INT64)
    wide = wide % count if mode == "wrap" else wide.clip(0, count - 1)
    index, *values = broadcast_arrays(wide, *promote(*listed))
    return take_along_axis(
        concatenate([x[None] for x in values]), index[None], 0, "promise_in_bounds", wrap_negative_indices=False
    )[0]


def piecewise(
    x: ArrayLike,
    condlist: Sequence[ArrayLike] | ArrayLike,
    funclist: Sequence[ArrayLike | Callable[..., Array]],
    *args: object,
    **kw: object,
) -> Array:
    """For each element the value of the function, or the number, that belongs to the last condition which holds.

    One function more than there are conditions is for the other elements; without it they are 0. The functions are
    given all elements, and `args` and `kw`.

    >>> x = np.array([-1.0, 2.0])
    >>> piecewise(x, [x < 0, x >= 0], [lambda x: -x, 10.0])
    Array([ 1., 10.], dtype=float64)
    """
    array = asarray(x)
    many = isinstance(condlist, list | tuple) and len(condlist) > 0 and not isinstance(condlist[0], bool)
    listed = condlist if many and isinstance(condlist, list | tuple) else [condlist]
    conditions = [truth(asarray(c)) for c in listed]
    if not many and conditions[0].ndim > array.ndim:
        conditions = list(conditions[0])
    functions = list(sequence("piecewise: funclist", funclist))
    if not many and conditions[0].ndim == 1 and len(functions) > 2:  # one condition has no more than two
        conditions = list(conditions[0])
    if len(functions) == len(conditions):
        functions.append(0)
    elif len(functions) != len(conditions) + 1:
        raise ShapeError(
            f"piecewise: for {len(conditions)} conditions as many functions or one more, got {len(functions)}"
        )
    *functions, default = functions
    out = _value(default, array, args, kw)
    for condition, function in zip(conditions, functions, strict=True):
        out = where(condition, _value(function, array, args, kw), out)
    return out


def _value(
    function: ArrayLike | Callable[..., Array], x: Array, args: tuple[object, ...], kw: dict[str, object]
) -> Array:
    found = function(x, *args, **kw) if callable(function) else function
    return broadcast_to(astype(asarray(found), x.dtype), x.shape)
