"""Sequences of samples: convolved, interpolated, differentiated, integrated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from tinyjax.arrays import along_axis, reductions, shaping
from tinyjax.arrays.arithmetic import conjugate, remainder
from tinyjax.arrays.elementwise import (
    LARGEST,
    astype,
    broadcast_to,
    constant_like,
    promote,
    promote_inexact,
    user_dtype,
    where,
)
from tinyjax.arrays.products import PrecisionLike
from tinyjax.arrays.shaping import canonical_axes, canonical_axis, expand_dims, integer, moveaxis, ravel
from tinyjax.arrays.taking import take
from tinyjax.errors import ChoiceError, InputError, ShapeError
from tinyjax.ir.dtypes import BOOL, COMPLEXES, INEXACT, INT32, INT64, INTEGERS, real_dtype
from tinyjax.lax.convolution import conv_general_dilated
from tinyjax.numpy.arithmetic import abs as magnitude
from tinyjax.numpy.creation import asarray, linspace
from tinyjax.numpy.elementwise import exp, log
from tinyjax.numpy.indexing import searchsorted
from tinyjax.numpy.joining import concatenate
from tinyjax.numpy.logic import isnan
from tinyjax.numpy.manipulation import flip
from tinyjax.numpy.reductions import diff
from tinyjax.numpy.signatures import Nested
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

# Products of neighbours.


@prepared
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
) -> Array:
    """The convolution of two vectors: the sums of a[i] * v[n - i].

    `mode` "full" has all of them, "same" as many as the longer vector, "valid" those where both overlap completely.

    >>> convolve(np.array([1, 2, 3]), np.array([1, 1]))
    Array([1, 3, 5, 3], dtype=int64)
    """
    return _correlated("convolve", a, v, mode, precision, preferred_element_type)


@prepared
def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
) -> Array:
    """The correlation of two vectors: the sums of a[n + i] * conj(v[i]). `mode` as for convolve.

    >>> correlate(np.array([1, 2, 3]), np.array([0, 1]), "full")
    Array([1, 2, 3, 0], dtype=int64)
    """
    return _correlated("correlate", a, v, mode, precision, preferred_element_type)


def _correlated(
    name: str,
    a: ArrayLike,
    v: ArrayLike,
    mode: str,
    precision: PrecisionLike,
    preferred: npt.DTypeLike | None,
) -> Array:
    x, y = promote(as_array(a), as_array(v))
    if x.ndim != 1 or y.ndim != 1 or not x.size or not y.size:
        raise ShapeError(f"{name} takes two vectors with elements, got {x.aval} and {y.aval}")
    if mode not in ("full", "same", "valid"):
        raise ChoiceError(f"{name}: mode is 'full', 'same' or 'valid', not {mode!r}")
    dtype = x.dtype
    if dtype == BOOL:
        x, y = astype(x, INT32), astype(y, INT32)
    turned = False
    if name == "correlate":
        y = conjugate(y)
        if x.size < y.size:
            x, y, turned = y, x, True
    else:
        if x.size < y.size:
            x, y = y, x
        y = flip(y)
    before, after = {
        "full": (y.size - 1, y.size - 1),
        "same": (y.size // 2, y.size - y.size // 2 - 1),
        "valid": (0, 0),
    }[mode]
    (found,) = conv_general_dilated(
        astype(x, x.dtype)[None, None],
        astype(y, y.dtype)[None, None],
        (1,),
        [(before, after)],
        precision=precision,
        preferred_element_type=preferred,
    )[0]
    found = flip(found) if turned else found
    return found != 0 if dtype == BOOL and preferred is None else found


# Between samples.


@prepared
def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """The values at x of the function that is linear between the points (xp, fp), whose xp must ascend.

    Outside of them it has the first and the last value, or `left` and `right`; "extrapolate" goes on as between the
    nearest two. With a `period` it is periodic, whatever the sign of that, and the points may be in any order.

    >>> interp(1.5, np.array([1.0, 2.0]), np.array([10.0, 20.0]))
    Array(15., dtype=float64)
    """
    at, places, values = as_array(x), as_array(xp), as_array(fp)
    if places.ndim != 1 or places.shape != values.shape or not places.size:
        raise ShapeError(
            "xp and fp must be one-dimensional arrays of equal size, with elements: interp got "
            f"{places.aval}, {values.aval}"
        )
    for side in (left, right):
        if isinstance(side, str) and side != "extrapolate":
            raise ChoiceError(f"interp: left and right are numbers or 'extrapolate', not {side!r}")
    at, places = promote_inexact(at, places)
    if places.dtype in COMPLEXES:
        raise InputError("interp: x and xp can't be complex")
    (values,) = promote_inexact(values)
    if values.dtype not in COMPLEXES:
        at, places, values = promote_inexact(at, places, values)
    if period is not None:
        turn = abs(astype(as_array(period), places.dtype))
        if turn.shape:
            raise ShapeError(f"interp: period is one number, got {turn.aval}")
        at, places = remainder(at, turn), remainder(places, turn)
        order = along_axis.argsort(places)
        places, values = places[order], values[order]
        places = concatenate([places[-1:] - turn, places, places[:1] + turn])
        values = concatenate([values[-1:], values, values[:1]])
    if places.size == 1:
        inner = broadcast_to(values[0], at.shape)
    else:
        i = searchsorted(places, at, "right").clip(1, places.size - 1)
        low, high, start, end = [take(at_, j, 0, "clip") for at_ in (places, values) for j in (i - 1, i)]
        width = high - low
        # Where the width has no square, and so the quotient no derivative, the points are one.
        flat = abs(width) <= min(2**-15, 2 / math.sqrt(LARGEST[width.dtype]))
        part = (at - low) / where(flat, constant_like(width, 1), width)
        inner = where(flat, start, start + part * (end - start))
    if period is not None:
        return inner
    if not isinstance(left, str):
        inner = where(at < places[0], values[0] if left is None else as_array(left), inner)
    if not isinstance(right, str):
        inner = where(at > places[-1], values[-1] if right is None else as_array(right), inner)
    return inner


# Differences and sums.


@prepared
def ediff1d(ary: ArrayLike, to_end: Nested | None = None, to_begin: Nested | None = None) -> Array:
    """The differences of neighbours in row-major order, with something before and after them.

    >>> ediff1d(np.array([1, 4, 9]), to_end=0)
    Array([3, 5, 0], dtype=int64)
    """
    x = ravel(as_array(ary))
    parts = [x[1:] - x[:-1]]
    if to_begin is not None:
        parts.insert(0, astype(ravel(asarray(to_begin)), x.dtype))
    if to_end is not None:
        parts.append(astype(ravel(asarray(to_end)), x.dtype))
    return concatenate(parts)


@prepared
def gradient(
    f: ArrayLike,
    *varargs: ArrayLike,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    edge_order: int | None = None,
) -> Array | list[Array]:
    """The slopes along axes: half the difference of both neighbours, at the ends the one of two (`edge_order` 1) or by
    three elements (2). For several axes a list.

    `varargs` are the distances of samples: one for all axes, or one for each: a number, or the coordinates.

    >>> gradient(np.array([0.0, 1.0, 4.0]))
    Array([1., 2., 3.], dtype=float64)
    """
    (x,) = promote_inexact(as_array(f))
    axes = (
        [canonical_axis(i, x.ndim, "gradient") for i in axis]
        if isinstance(axis, Sequence)
        else list(canonical_axes(axis, x.ndim, "gradient"))
    )
    order = 1 if edge_order is None else integer(edge_order, "gradient: edge_order")
    if order not in (1, 2):
        raise InputError(f"gradient: edge_order is 1 or 2, got {order}")
    spacings = [as_array(v) for v in varargs] or [as_array(1.0)]
    if len(spacings) == 1 and (not spacings[0].ndim or len(axes) == 1):
        spacings = spacings * len(axes)
    if len(spacings) != len(axes):
        raise ShapeError(f"gradient: one distance, or one for each of {len(axes)} axes, got {len(spacings)}")
    out = [_slopes(x, at, h, order) for at, h in zip(axes, spacings, strict=True)]
    return out[0] if len(out) == 1 else out


def _slopes(x: Array, axis: int, spacing: Array, order: int) -> Array:
    size = x.shape[axis]
    if size < order + 1:
        raise ShapeError(f"gradient: axis {axis} of {x.aval} needs {order + 1} elements")
    y = moveaxis(x, axis, -1)
    if spacing.ndim:
        if spacing.shape != (size,):
            raise ShapeError(f"gradient: {size} coordinates are needed along axis {axis}, got {spacing.aval}")
        if spacing.dtype in INTEGERS:  # whose differences may not fit in a short dtype
            steps = astype(diff(astype(spacing, INT64)), real_dtype(x.dtype))
        else:
            (steps,) = promote_inexact(diff(spacing))
        h1, h2 = steps[:-1], steps[1:]
        # The slopes of both sides, each weighted with the other's width.
        slopes = (y[..., 1:] - y[..., :-1]) / steps
        inner = (h1 * slopes[..., 1:] + h2 * slopes[..., :-1]) / (h1 + h2)
        first, last = slopes[..., :1], slopes[..., -1:]
        if order == 2:
            first = _end(slopes[..., 0], slopes[..., 1], h1[0], h2[0])
            last = _end(slopes[..., -1], slopes[..., -2], h2[-1], h1[-1])
    else:
        inner = (y[..., 2:] - y[..., :-2]) / (2 * spacing)
        first, last = ((y[..., i + 1 : i + 2] - y[..., i : i + 1]) / spacing for i in (0, size - 2))
        if order == 2:
            first, last = 2 * first - inner[..., :1], 2 * last - inner[..., -1:]
    return moveaxis(concatenate([first, inner, last], -1), -1, axis)


def _end(slope: Array, next_slope: Array, width: Array, next_width: Array) -> Array:
    """The slope of a parabola at its end, from those of its two chords."""
    return (slope + (slope - next_slope) * width / (width + next_width))[..., None]


@prepared
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: Nested = 1.0, axis: SupportsIndex = -1) -> Array:
    """The integral along an axis by the trapezoidal rule, for samples at coordinates x, or at a distance dx.

    >>> trapezoid(np.array([0.0, 1.0, 4.0]))
    Array(3., dtype=float64)
    """
    if x is None:
        (values,) = promote_inexact(as_array(y))
        widths = asarray(dx)
    else:
        values, places = promote_inexact(as_array(y), as_array(x))
        widths = diff(places, axis=-1 if places.ndim == 1 else axis)
    from_end = canonical_axis(axis, values.ndim, "trapezoid") - values.ndim
    if x is not None and widths.ndim == 1:
        widths = expand_dims(widths, range(1, -from_end))
    rest = (slice(None),) * (-from_end - 1)
    both = values[(..., slice(1, None), *rest)] + values[(..., slice(None, -1), *rest)]
    return 0.5 * reductions.sum(widths * both, from_end)


@prepared
def unwrap(
    p: ArrayLike, discont: ArrayLike | None = None, axis: SupportsIndex = -1, period: ArrayLike = 2 * math.pi
) -> Array:
    """The elements with multiples of a period added, so that neighbours along an axis differ by half of it at most.

    Only jumps of at least `discont` are mended, by default half a period.

    >>> unwrap(np.array([0, 3, 5, 1]), period=4)
    Array([ 0, -1,  1,  1], dtype=int64)
    """
    x = as_array(p)
    if x.dtype in COMPLEXES:
        raise InputError("unwrap does not accept complex operands")
    turn = as_array(period)
    if x.dtype not in INTEGERS or turn.dtype not in INTEGERS:
        x, turn = promote_inexact(x, turn)
    at = canonical_axis(axis, x.ndim, "unwrap")
    jumps = diff(x, axis=at)
    whole = x.dtype in INTEGERS
    half = turn // 2 if whole else turn / 2
    low = -half
    rest = remainder(jumps - low, turn) + low
    edge = turn % 2 == 0 if whole else as_array(True)
    rest = where(edge & (rest == low) & (jumps > 0), -low, rest)
    least = half if discont is None else as_array(discont)
    mend = where(magnitude(jumps) < least, constant_like(rest, 0), rest - jumps)
    key = (slice(None),) * at
    rising = x[(*key, slice(1, None))] + along_axis.cumsum(mend, at)
    return concatenate([x[(*key, slice(None, 1))], rising], at)


# Rows of powers.


@prepared
def vander(x: ArrayLike, N: SupportsIndex | None = None, increasing: bool = False) -> Array:
    """The matrix whose columns are powers of a vector, the highest first, or last if `increasing`; N of them, by
    default as many as elements.

    >>> vander(np.array([2, 3]), 3)
    Array([[4, 2, 1],
           [9, 3, 1]], dtype=int64)
    """
    base = as_array(x)
    if base.ndim != 1:
        raise ShapeError(f"vander takes a vector, got {base.aval}")
    count = base.size if N is None else integer(N, "vander: N")
    if count < 0:
        raise ShapeError(f"vander: N is at least 0, got {count}")
    if base.dtype == BOOL:
        base = astype(base, INT64)
    columns = base[:, None] ** as_array(
        np.arange(count, dtype=np.int32) if base.dtype in INEXACT else np.arange(count).astype(base.dtype)
    )
    return columns if increasing else flip(columns, 1)


@prepared
def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: SupportsIndex = 50,
    endpoint: bool = True,
    dtype: npt.DTypeLike | None = None,
    axis: SupportsIndex = 0,
) -> Array:
    """`num` numbers from `start` to `stop`, each the same multiple of the one before. Those between real numbers of
    different signs are nan, as NumPy's.

    >>> geomspace(1, 100, 3)
    Array([  1.,  10., 100.], dtype=float64)
    """
    low, high = promote_inexact(as_array(start), as_array(stop))
    chosen = user_dtype(dtype)
    if chosen in COMPLEXES:
        low, high = astype(low, chosen), astype(high, chosen)
    # What both are multiples of, so that they are far from the logarithm's cut.
    sign = where(low == 0, constant_like(low, math.nan), low / magnitude(low))
    count = integer(num, "geomspace: num")
    powers = exp(linspace(log(low / sign), log(high / sign), count, endpoint, axis=axis))
    at = canonical_axis(axis, powers.ndim, "geomspace")
    out = powers * shaping.expand_dims(sign, at)
    # The ends are exact.
    parts: list[Array] = []
    kept = out.shape[:at] + out.shape[at + 1 :]
    first, last = broadcast_to(low, kept), broadcast_to(where(isnan(low), low, high), kept)
    if count > 0:
        parts.append(shaping.expand_dims(first, at))
        key = (slice(None),) * at
        parts.append(out[(*key, slice(1, -1 if endpoint else None))] if count > 1 else out[(*key, slice(0, 0))])
        if endpoint and count > 1:
            parts.append(shaping.expand_dims(last, at))
        out = concatenate(parts, at)
    return out if chosen is None else astype(out, chosen)
