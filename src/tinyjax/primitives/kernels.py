"""The values of some primitives where the types of operands are known: what `numpy_values` would look for is found out
once, and what is left to do is as little as NumPy allows. Results are the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter, methodcaller
from typing import Literal

import numpy as np

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BOOL,
    COMPLEXES,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INTEGERS,
    KEYS,
    WIDE,
    DType,
    HostArray,
    integer_limits,
)
from tinyjax.primitives import numpy_values

_put, _where, _concatenate = np.putmask, np.where, np.concatenate


def conversion(x: ShapedArray, dtype: DType) -> Callable[..., HostArray | np.generic]:
    """What converts numbers to a dtype."""
    old = x.dtype
    if old == dtype:
        return numpy_values.identity
    if old in (FLOAT32, FLOAT64) and dtype in INTEGERS and dtype not in WIDE and x.size:
        return _to_whole(dtype)
    loses_imaginary = old in COMPLEXES and dtype not in COMPLEXES and dtype != BOOL
    if loses_imaginary or old in WIDE or old in KEYS or (old in FLOATS and dtype in INTEGERS):
        return partial(numpy_values.convert, dtype=dtype)
    return methodcaller("astype", dtype)


def _to_whole(dtype: DType) -> Callable[..., HostArray | np.generic]:
    """What cuts floats off to integers of a dtype, of which most are in its range; what isn't is looked for first."""
    least, greatest = integer_limits(dtype)
    low, high = float(min(least, -1)), float(greatest)
    highest, lowest = np.maximum.reduce, np.minimum.reduce

    def convert(x: HostArray) -> HostArray:
        single = x.size == 1
        above = x.item() if single else lowest(x, None)
        below = above if single else highest(x, None)
        if above > low and below < high:  # not if one is nan
            return x.astype(dtype)
        return numpy_values.convert(x, dtype)

    return convert


def bitcast(x: ShapedArray, dtype: DType) -> Callable[..., HostArray | np.generic]:
    """What reads bits as another dtype."""
    if x.dtype in WIDE or dtype in WIDE or x.dtype.itemsize != dtype.itemsize:
        return partial(numpy_values.bitcast, dtype=dtype)
    return methodcaller("view", dtype)


def selection(which: ShapedArray, cases: Sequence[ShapedArray]) -> Callable[..., HostArray | np.generic]:
    """What takes each element from one of the cases."""
    if which.dtype != BOOL or len(cases) != 2:
        return numpy_values.select
    no, yes = cases
    if no.dtype in KEYS:
        return numpy_values.select
    if not which.shape and no.shape == yes.shape:
        return _one_of_two
    if which.shape == no.shape and (no.shape == yes.shape or not yes.shape):
        return _put_where
    return _chosen


def _one_of_two(which: HostArray, no: HostArray, yes: HostArray) -> HostArray:
    return yes if which else no


def _put_where(which: HostArray, no: HostArray, yes: HostArray) -> HostArray:
    chosen = no.copy()
    _put(chosen, which, yes)
    return chosen


def _chosen(which: HostArray, no: HostArray, yes: HostArray) -> HostArray:
    return _where(which, yes, no)


def concatenation(dimension: int) -> Callable[..., HostArray | np.generic]:
    """What joins arrays along a dimension."""
    return lambda *args: _concatenate(args, dimension)


def stacking(x: ShapedArray, axis: int) -> Callable[..., HostArray | np.generic]:
    """What puts arrays like x side by side along a new axis."""
    row = (*[slice(None)] * axis, None) if x.shape else None
    return lambda *args: _concatenate([arg[row] for arg in args], axis)


def extreme(choose: np.ufunc, x: ShapedArray, axes: tuple[int, ...]) -> Callable[..., HostArray | np.generic]:
    """What finds the maximum or minimum of floats over axes, as `numpy_values.reduced` does."""
    careful = partial(numpy_values.reduced, choose, axes=axes)
    if len(axes) < len(x.shape) or not axes or x.dtype in WIDE:
        return careful
    reduce, at = choose.reduce, axes[0] if len(axes) == 1 else axes

    def of_all(x: HostArray) -> HostArray | np.generic:
        found: np.generic = reduce(x, at)
        return found or careful(x)

    return of_all


def remainder(x: ShapedArray) -> Callable[..., HostArray | np.generic]:
    """What divides numbers of one dtype, and keeps the remainder."""
    return numpy_values.remainder if x.dtype in INTEGERS else np.fmod


def shift_right(kind: Literal["i", "u"], x: ShapedArray) -> Callable[..., HostArray | np.generic]:
    """What shifts bits to the right as NumPy does for signed or for unsigned integers: with copies of the sign bit, or
    zeros."""
    if x.dtype.kind == kind and x.dtype not in WIDE:
        return np.right_shift
    return numpy_values.shift_right_arithmetic if kind == "i" else numpy_values.shift_right_logical


def integer_power(y: int, x: ShapedArray) -> Callable[..., HostArray | np.generic] | None:
    """What raises numbers to a whole power in a step or two; None if it takes more."""
    if x.dtype in WIDE or x.dtype in COMPLEXES:
        return None
    if y == 2:
        return np.square
    return _cube if y == 3 else None


def _cube(x: HostArray) -> HostArray | np.generic:
    return np.multiply(x, np.multiply(x, x))


def convolution(x: ShapedArray, y: ShapedArray, result: ShapedArray, padding: int) -> Callable[..., HostArray]:
    """What moves a kernel y of one axis along x, which has as much padding on both ends: none, or all that the kernel
    reaches."""
    mode: Literal["valid", "full"] = "full" if padding else "valid"
    shape = result.shape
    return lambda x, y: np.correlate(x.reshape(-1), y.reshape(-1), mode).reshape(shape)


def reversal(dimensions: Sequence[int], ndim: int) -> Callable[[HostArray], HostArray]:
    """What sees an array from its other ends."""
    return itemgetter(tuple([slice(None, None, -1 if axis in dimensions else None) for axis in range(ndim)]))


def padding(x: ShapedArray, config: Sequence[tuple[int, int, int]]) -> Callable[..., HostArray] | None:
    """What puts a value around arrays; None if it would go between elements, too, or something is cut off."""
    if any(low < 0 or high < 0 or inner for low, high, inner in config):
        return None
    sizes = list(zip(x.shape, config, strict=True))
    shape, dtype = tuple([low + n + high for n, (low, high, _) in sizes]), x.dtype
    there = tuple([slice(low, low + n) for n, (low, _, _) in sizes])

    def pad(x: HostArray, value: HostArray) -> HostArray:
        padded = np.empty(shape, dtype)
        padded[...] = value
        padded[there] = x
        return padded

    return pad
