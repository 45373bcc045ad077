"""What the elements of a transform stand for, and the order that they are shown in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

import numpy.typing as npt

from tinyjax.arrays.elementwise import astype, convert, inexact_dtype, user_dtype
from tinyjax.arrays.shaping import canonical_axes, canonical_axis, integer, integers
from tinyjax.backend import DeviceLike
from tinyjax.errors import ShapeError
from tinyjax.ir.dtypes import COMPLEXES, FLOAT64, INT64, real_dtype
from tinyjax.numpy.arguments import iota, placed
from tinyjax.numpy.manipulation import roll
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def fftfreq(
    n: SupportsIndex,
    d: ArrayLike = 1.0,
    *,
    dtype: npt.DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Array:
    """The frequencies that the n elements of `fft` are of, for samples at a distance d: from 0 up, then negative ones.

    >>> fftfreq(5, 0.5)
    Array([ 0. ,  0.4,  0.8, -0.8, -0.4], dtype=float64)
    """
    count = _count("fftfreq", n)
    half = count // 2
    return placed(_over("fftfreq", (iota(INT64, (count,), 0) + half) % count - half, count, d, dtype), device)


def rfftfreq(
    n: SupportsIndex,
    d: ArrayLike = 1.0,
    *,
    dtype: npt.DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Array:
    """The frequencies that the n // 2 + 1 elements of `rfft` are of, for n samples at a distance d.

    >>> rfftfreq(5, 0.5)
    Array([0. , 0.4, 0.8], dtype=float64)
    """
    count = _count("rfftfreq", n)
    return placed(_over("rfftfreq", iota(INT64, (count // 2 + 1,), 0), count, d, dtype), device)


def _count(name: str, n: SupportsIndex) -> int:
    if isinstance(n, list | tuple):
        raise ShapeError(f"The n argument of {name} only takes an int. Got n = {n}.")
    count = integer(n, f"{name}: the number of samples n")
    if count < 1:
        raise ShapeError(f"{name}: the number of samples n is at least 1, got {count}")
    return count


def _over(name: str, cycles: Array, n: int, d: ArrayLike, dtype: npt.DTypeLike | None) -> Array:
    """These numbers of cycles in n samples, as frequencies."""
    if isinstance(d, list | tuple):
        raise ShapeError(f"The d argument of {name} only takes a single value: the distance of samples, got {d}")
    distance, out = as_array(d), FLOAT64 if dtype is None else user_dtype(dtype) or FLOAT64
    if distance.aval.shape or distance.aval.dtype in COMPLEXES:
        raise ShapeError(f"{name}: the distance d of samples is one real number, got {distance.aval}")
    wide = real_dtype(inexact_dtype(out))
    return astype(astype(cycles, wide) / (convert(distance, wide) * n), out)


@prepared
def fftshift(x: ArrayLike, axes: SupportsIndex | Sequence[SupportsIndex] | None = None) -> Array:
    """The elements moved on by half of their number along axes (all, if None): what `fft` gives, with the frequency 0
    in the middle.

    >>> fftshift(fftfreq(4, 0.25))
    Array([-2., -1.,  0.,  1.], dtype=float64)
    """
    return _shifted("fftshift", x, axes, 1)


@prepared
def ifftshift(x: ArrayLike, axes: SupportsIndex | Sequence[SupportsIndex] | None = None) -> Array:
    """What undoes `fftshift`: the same, unless a size is odd.

    >>> import numpy as np
    >>> ifftshift(np.array([-1, 0, 1]))
    Array([ 0,  1, -1], dtype=int64)
    """
    return _shifted("ifftshift", x, axes, -1)


def _shifted(name: str, x: ArrayLike, axes: SupportsIndex | Sequence[SupportsIndex] | None, sign: int) -> Array:
    array = as_array(x)
    shape = array.aval.shape
    if axes is None or isinstance(axes, SupportsIndex):
        found = list(canonical_axes(axes, len(shape), name))
    else:  # NumPy shifts twice along an axis that is listed twice
        found = [canonical_axis(axis, len(shape), name) for axis in integers(axes, f"{name}: an axis")]
    return roll(array, [sign * (shape[axis] // 2) for axis in found], found)
