"""What runs along one axis, each function and method in one: positions of extremes, cumulative sums, sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, SupportsIndex

import numpy.typing as npt

from tinyjax import primitives
from tinyjax.arrays.elementwise import astype, truth, user_dtype
from tinyjax.arrays.intake import as_array, as_operand, refuse_kind, refuse_out
from tinyjax.arrays.shaping import canonical_axis, expand_dims, ravel
from tinyjax.errors import ShapeError
from tinyjax.ir.dtypes import BOOL, INT64
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.result_types import made_once
from tinyjax.prepared.functions import prepared
from tinyjax.primitives.shaping import Iota, Rev

if TYPE_CHECKING:
    from tinyjax.primitives.reductions import ArgMax, ArgMin
    from tinyjax.tracing.array import Array, ArrayLike


def _position(name: str, make: type[ArgMax | ArgMin], x: Array, axis: SupportsIndex | None, keepdims: bool) -> Array:
    ndim = x.aval.ndim
    flat = ravel(x) if axis is None else x
    at = 0 if axis is None else canonical_axis(axis, ndim, name)
    if flat.aval.shape[at] == 0:
        raise ShapeError(f"{name} of no elements isn't defined: {x.aval} has none along axis {at}")
    (out,) = flat._bind(made_once(make, (at,), INT64), flat)
    return expand_dims(out, range(ndim) if axis is None else at) if keepdims else out


def argmax(a: ArrayLike, axis: SupportsIndex | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The index of the first maximum, or of the first nan, along an axis or in row-major order."""
    refuse_out("argmax", out)
    return _position("argmax", primitives.reductions.ArgMax, as_operand(a), axis, bool(keepdims))


def argmin(a: ArrayLike, axis: SupportsIndex | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The index of the first minimum, or of the first nan, along an axis or in row-major order."""
    refuse_out("argmin", out)
    return _position("argmin", primitives.reductions.ArgMin, as_operand(a), axis, bool(keepdims))


def _cumulative(
    name: str,
    make: Callable[[int], Primitive],
    a: ArrayLike,
    axis: SupportsIndex | None,
    dtype: npt.DTypeLike | None,
    out: None,
) -> Array:
    refuse_out(name, out)
    x, chosen = as_array(a), user_dtype(dtype)
    flat = ravel(x) if axis is None or not x.aval.shape else x
    at = 0 if axis is None else canonical_axis(axis, flat.aval.ndim, name)
    if chosen == BOOL:
        flat, within = astype(truth(flat), INT64), INT64
    else:
        within = chosen if chosen is not None else INT64 if x.aval.dtype == BOOL else x.aval.dtype
    flat = astype(flat, within)
    (sums,) = flat._bind(made_once(make, at), flat)
    return astype(sums, within if chosen is None else chosen)


def cumsum(
    a: ArrayLike, axis: SupportsIndex | None = None, dtype: npt.DTypeLike | None = None, out: None = None
) -> Array:
    """The sums of all elements so far, along an axis or in row-major order. Integers keep their dtype, bools are
    added as int64."""
    return _cumulative("cumsum", primitives.cumulative.CumSum, a, axis, dtype, out)


def cumprod(
    a: ArrayLike, axis: SupportsIndex | None = None, dtype: npt.DTypeLike | None = None, out: None = None
) -> Array:
    """The products of all elements so far, along an axis or in row-major order. Integers keep their dtype, bools are
    multiplied as int64."""
    return _cumulative("cumprod", primitives.cumulative.CumProd, a, axis, dtype, out)


def sort(
    a: ArrayLike,
    axis: SupportsIndex | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The elements in order along an axis, as a new array, nan last; in one axis if it is None."""
    refuse_kind("sort", kind, order)
    x = as_array(a)
    flat = ravel(x) if axis is None else x
    at = 0 if axis is None else canonical_axis(axis, x.aval.ndim, "sort")
    (out,) = flat._bind(made_once(primitives.sorting.Sort, at, bool(stable)), flat)
    return out._bind(made_once(Rev, (at,)), out)[0] if descending else out


@prepared
def argsort(
    a: ArrayLike,
    axis: SupportsIndex | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: npt.DTypeLike | None = None,
) -> Array:
    """The indices, int64 by default, that sort along an axis."""
    refuse_kind("argsort", kind, order)
    x = as_array(a)
    flat = ravel(x) if axis is None else x
    at = 0 if axis is None else canonical_axis(axis, x.aval.ndim, "argsort")
    places = flat._bind(made_once(Iota, user_dtype(dtype) or INT64, flat.aval.shape, at))[0]
    if descending and stable:
        (flat,), (places,) = flat._bind(made_once(Rev, (at,)), flat), flat._bind(made_once(Rev, (at,)), places)
    sorted_places = flat._bind(made_once(primitives.sorting.Sort, at, bool(stable)), flat, places)[1]
    return sorted_places._bind(made_once(Rev, (at,)), sorted_places)[0] if descending else sorted_places
