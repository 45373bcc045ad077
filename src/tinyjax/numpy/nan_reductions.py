"""Reductions that leave nan out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import SupportsIndex

import numpy.typing as npt

from tinyjax.arrays import along_axis, reductions
from tinyjax.arrays.arithmetic import conjugate, real
from tinyjax.arrays.elementwise import astype, constant_like, is_nan, promote_inexact, user_dtype, where
from tinyjax.arrays.intake import optional, refuse_out
from tinyjax.arrays.reductions import Axis
from tinyjax.errors import ShapeError
from tinyjax.ir.dtypes import BFLOAT16, COMPLEXES, FLOAT16, FLOAT32, INEXACT, INT64, DType, Scalar, real_dtype
from tinyjax.numpy.elementwise import sqrt
from tinyjax.prepared.functions import prepared
from tinyjax.primitives.reductions import highest, lowest
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def _without(a: ArrayLike, value: Scalar) -> Array:
    """The array with this number in the place of nan."""
    x = as_array(a)
    return where(is_nan(x), constant_like(x, value), x) if x.dtype in INEXACT else x


@prepared
def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The sum over axes, nan counted as 0.

    >>> import numpy as np
    >>> nansum(np.array([1.0, math.nan]))
    Array(1., dtype=float64)
    """
    return reductions.sum(_without(a, 0), axis, dtype, out, keepdims, initial, where)


@prepared
def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The product over axes, nan counted as 1.

    >>> import numpy as np
    >>> nanprod(np.array([2.0, math.nan]))
    Array(2., dtype=float64)
    """
    return reductions.prod(_without(a, 1), axis, dtype, out, keepdims, initial, where)


@prepared
def nancumsum(
    a: ArrayLike, axis: SupportsIndex | None = None, dtype: npt.DTypeLike | None = None, out: None = None
) -> Array:
    """The sums of all elements so far, nan counted as 0.

    >>> import numpy as np
    >>> nancumsum(np.array([1.0, math.nan, 2.0]))
    Array([1., 1., 3.], dtype=float64)
    """
    return along_axis.cumsum(_without(a, 0), axis, dtype, out)


@prepared
def nancumprod(
    a: ArrayLike, axis: SupportsIndex | None = None, dtype: npt.DTypeLike | None = None, out: None = None
) -> Array:
    """The products of all elements so far, nan counted as 1.

    >>> import numpy as np
    >>> nancumprod(np.array([2.0, math.nan, 3.0]))
    Array([2., 2., 6.], dtype=float64)
    """
    return along_axis.cumprod(_without(a, 1), axis, dtype, out)


@prepared
def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The maximum over axes, nan left out; nan where nothing else is there.

    >>> import numpy as np
    >>> nanmax(np.array([1.0, math.nan]))
    Array(1., dtype=float64)
    """
    refuse_out("nanmax", out)
    return _extreme(reductions.max, a, lowest, axis, keepdims, optional(initial), optional(where))


@prepared
def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The minimum over axes, nan left out; nan where nothing else is there.

    >>> import numpy as np
    >>> nanmin(np.array([1.0, math.nan]))
    Array(1., dtype=float64)
    """
    refuse_out("nanmin", out)
    return _extreme(reductions.min, a, highest, axis, keepdims, optional(initial), optional(where))


def _extreme(
    function: Callable[..., Array],
    a: ArrayLike,
    least: Callable[[DType], Scalar],
    axis: Axis,
    keepdims: bool,
    initial: Array | None,
    mask: Array | None,
) -> Array:
    x = as_array(a)
    if x.dtype not in INEXACT:
        return function(x, axis, None, keepdims, initial, mask)
    found = function(_without(x, least(x.dtype)), axis, None, keepdims, initial, mask)
    if initial is not None:
        return found
    return where(reductions.all(is_nan(x), axis, keepdims=keepdims), constant_like(found, math.nan), found)


@prepared
def nanargmax(a: ArrayLike, axis: SupportsIndex | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The index of the first maximum, nan left out; -1 where nothing else is there.

    >>> import numpy as np
    >>> nanargmax(np.array([math.nan, 2.0, 1.0]))
    Array(1, dtype=int64)
    """
    refuse_out("nanargmax", out)
    return _position(along_axis.argmax, a, lowest, axis, keepdims)


@prepared
def nanargmin(a: ArrayLike, axis: SupportsIndex | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The index of the first minimum, nan left out; -1 where nothing else is there.

    >>> import numpy as np
    >>> nanargmin(np.array([math.nan, 2.0, 1.0]))
    Array(2, dtype=int64)
    """
    refuse_out("nanargmin", out)
    return _position(along_axis.argmin, a, highest, axis, keepdims)


def _position(
    function: Callable[..., Array],
    a: ArrayLike,
    least: Callable[[DType], Scalar],
    axis: SupportsIndex | None,
    keepdims: bool | None,
) -> Array:
    x = as_array(a)
    found = function(_without(x, least(x.dtype)), axis, None, keepdims)
    if x.dtype not in INEXACT:
        return found
    return where(reductions.all(is_nan(x), axis, keepdims=bool(keepdims)), constant_like(found, -1), found)


@prepared
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """The mean over axes, nan left out; nan where nothing else is there.

    >>> import numpy as np
    >>> nanmean(np.array([1.0, math.nan, 3.0]))
    Array(2., dtype=float64)
    """
    x, mask = as_array(a), optional(where)
    if x.dtype not in INEXACT:
        return reductions.mean(x, axis, dtype, out, keepdims, where=mask)
    there = ~is_nan(x) if mask is None else ~is_nan(x) & mask
    return reductions.mean(_without(x, 0), axis, dtype, out, keepdims, where=there)


@prepared
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    *,
    correction: float | None = None,
) -> Array:
    """The variance over axes, nan left out: see `var`. nan where there are too few other elements.

    >>> import numpy as np
    >>> nanvar(np.array([1.0, math.nan, 3.0]))
    Array(1., dtype=float64)
    """
    refuse_out("nanvar", out)
    return _variance(a, axis, dtype, ddof, keepdims, optional(where), optional(mean), correction)


@prepared
def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    *,
    correction: float | None = None,
) -> Array:
    """The standard deviation over axes, nan left out: the square root of `nanvar`.

    >>> import numpy as np
    >>> nanstd(np.array([1.0, math.nan, 3.0]))
    Array(1., dtype=float64)
    """
    refuse_out("nanstd", out)
    return sqrt(_variance(a, axis, dtype, ddof, keepdims, optional(where), optional(mean), correction))


def _variance(
    a: ArrayLike,
    axis: Axis,
    dtype: npt.DTypeLike | None,
    ddof: float,
    keepdims: bool,
    mask: Array | None,
    center: Array | None,
    correction: float | None,
) -> Array:
    (x,) = promote_inexact(as_array(a))
    chosen = user_dtype(dtype)
    if chosen is not None and (chosen not in INEXACT or (x.dtype in COMPLEXES and chosen not in COMPLEXES)):
        raise ShapeError(f"nanvar and nanstd: the dtype of {x.aval} can't be {chosen.name}, which has less")
    there = ~is_nan(x) if mask is None else ~is_nan(x) & mask
    within = chosen if chosen is not None else x.dtype
    result = chosen if chosen is not None else real_dtype(within)
    x = astype(_without(x, 0), FLOAT32 if within in (FLOAT16, BFLOAT16) else within)
    middle = reductions.mean(x, axis, keepdims=True, where=there) if center is None else center
    away = where(there, x - middle, constant_like(x, 0))
    squares = real(away * conjugate(away)) if away.dtype in COMPLEXES else away**2
    if correction is not None and ddof:
        raise ShapeError("nanvar and nanstd take ddof or correction, not both")
    degrees = reductions.sum(there, axis, INT64, keepdims=keepdims) - as_array(
        ddof if correction is None else correction
    )
    total = reductions.sum(squares, axis, keepdims=keepdims)
    return astype(where(degrees > 0, total / astype(degrees, total.dtype), constant_like(total, math.nan)), result)
