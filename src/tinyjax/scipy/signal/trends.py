"""Trends taken away from signals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import SupportsIndex

import numpy as np

import tinyjax.numpy as tnp
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.arrays.shaping import canonical_axis, integers
from tinyjax.errors import ChoiceError, InputError, UnsupportedError
from tinyjax.ir.dtypes import HostArray, real_dtype
from tinyjax.numpy.signatures import Nested
from tinyjax.tracing.array import Array


def detrend(
    data: Nested,
    axis: SupportsIndex = -1,
    type: str = "linear",
    bp: SupportsIndex | Sequence[SupportsIndex] = 0,
    overwrite_data: None = None,
) -> Array:
    """A signal without its mean (`type` "constant"), or without the line that fits it best ("linear").

    Between the breakpoints `bp` each part has a line of its own.

    Raises:
      ChoiceError: there is no such type.
      InputError: a breakpoint is outside of the signal.

    >>> import numpy as np
    >>> detrend(np.array([1.0, 2.0, 4.0])).round(6)
    Array([ 0.166667, -0.333333,  0.166667], dtype=float64)
    """
    if overwrite_data is not None:
        raise UnsupportedError("detrend: overwrite_data is not supported, because arrays are immutable")
    if type not in ("constant", "linear"):
        raise ChoiceError(f"detrend: type is 'constant' or 'linear', got {type!r}")
    (x,) = promote_inexact(tnp.asarray(data))
    at = canonical_axis(axis, x.ndim, "detrend")
    if type == "constant":
        return x - tnp.mean(x, at, keepdims=True)
    n = x.shape[at]
    points = sorted({0, n, *integers(bp, "a breakpoint")})
    if points[0] < 0 or points[-1] > n:
        raise InputError(f"detrend: breakpoints are between 0 and the length of the signal, {n}, got {bp}")
    moved = tnp.moveaxis(x, at, -1)
    parts = [_without_line(moved[..., start:end]) for start, end in pairwise(points)]
    return tnp.moveaxis(tnp.concatenate(parts, -1), -1, at) if parts else x


def _without_line(x: Array) -> Array:
    """Without the best line, in the sense of least squares."""
    n = x.shape[-1]
    time: HostArray = (np.arange(n) - (n - 1) / 2).astype(real_dtype(x.dtype))
    slope = tnp.sum(x * time, -1, keepdims=True) / float(np.square(time).sum()) if n > 1 else 0
    return x - tnp.mean(x, -1, keepdims=True) - slope * time
