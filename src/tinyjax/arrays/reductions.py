"""Reductions and what runs along an axis, as NumPy has them: sums, means, extremes, cumulative sums, sorting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, SupportsIndex, TypeAlias

import numpy.typing as npt

from tinyjax.arrays.arithmetic import conjugate, multiply, real
from tinyjax.arrays.elementwise import (
    apply,
    astype,
    broadcast_to,
    constant_like,
    inexact_dtype,
    truth,
    user_dtype,
    where,
)
from tinyjax.arrays.shaping import canonical_axes, canonical_axis, diagonal, expand_dims, ravel
from tinyjax.caching import bounded
from tinyjax.errors import ShapeError, TypingError
from tinyjax.ir.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEXES,
    FLOAT16,
    FLOAT32,
    INEXACT,
    INT32,
    INT64,
    SIGNED,
    UINT64,
    UNSIGNED,
    DType,
    Scalar,
    real_dtype,
    short_name,
)
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.result_types import made_once
from tinyjax.prepared.functions import prepared
from tinyjax.primitives import arithmetic
from tinyjax.primitives.bitwise import logical_and, logical_or
from tinyjax.primitives.cumulative import CumProd, CumSum
from tinyjax.primitives.elementwise import add, mul, sub
from tinyjax.primitives.exponential import sqrt
from tinyjax.primitives.reductions import (
    ArgMax,
    ArgMin,
    ReduceAnd,
    ReduceMax,
    ReduceMin,
    ReduceOr,
    ReduceProd,
    highest,
    lowest,
)
from tinyjax.primitives.shaping import Iota, Rev
from tinyjax.primitives.sorting import Sort
from tinyjax.primitives.structure import ReduceSum

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array

Axis: TypeAlias = SupportsIndex | Iterable[SupportsIndex] | None


def sum_dtype(dtype: DType) -> DType:
    """The dtype of a sum or product: 64 bits for bools and integers."""
    if dtype in UNSIGNED:
        return UINT64
    return INT64 if dtype == BOOL or dtype in SIGNED else dtype


def _wide(dtype: DType) -> DType:
    """The dtype to add many numbers in."""
    return FLOAT32 if dtype in (FLOAT16, BFLOAT16) else dtype


def _reduce(
    name: str,
    x: Array,
    axis: Axis,
    keepdims: bool,
    initial: Array | None,
    mask: Array | None,
    make: Callable[[tuple[int, ...]], Primitive],
    combine: Primitive,
    identity: Callable[[DType], Scalar],
) -> Array:
    """x reduced over axes. Where the mask is False, the identity takes the place of elements."""
    dtype, axes = x.aval.dtype, canonical_axes(axis, x.aval.ndim, name)
    if mask is not None:
        if mask.aval.dtype != BOOL:
            raise TypingError(f"{name}: where must be a bool array, got {mask.aval}")
        x = where(broadcast_to(mask, x.aval.shape), x, constant_like(x, identity(dtype)))
    x = astype(x, dtype)
    out = x._bind(made_once(make, axes), x)[0] if axes else x._own()
    if initial is not None:
        if initial.aval.shape != ():
            raise ShapeError(f"{name}: initial must be a scalar, got {initial.aval}")
        out = apply(combine, astype(initial, dtype), out)
    return expand_dims(out, axes) if keepdims else out


def _zero(dtype: DType) -> Scalar:
    return 0


def _one(dtype: DType) -> Scalar:
    return 1


def sum_(
    x: Array,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    keepdims: bool = False,
    initial: Array | None = None,
    mask: Array | None = None,
    promote_integers: bool = True,
) -> Array:
    """The sum over axes. Bools and integers are added as 64-bit integers, 16-bit floats as float32."""
    chosen = user_dtype(dtype)
    if chosen == BOOL:
        return truth(sum_(truth(x), axis, None, keepdims, None if initial is None else truth(initial), mask))
    within, result = _sum_dtypes(x.aval.dtype, chosen, promote_integers)
    x = astype(x, within)
    return astype(_reduce("sum", x, axis, keepdims, initial, mask, ReduceSum, add, _zero), result)


def prod(
    x: Array,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    keepdims: bool = False,
    initial: Array | None = None,
    mask: Array | None = None,
    promote_integers: bool = True,
) -> Array:
    """The product over axes. Bools and integers are multiplied as 64-bit integers, 16-bit floats as float32."""
    chosen = user_dtype(dtype)
    if chosen == BOOL:
        return truth(prod(truth(x), axis, None, keepdims, None if initial is None else truth(initial), mask))
    within, result = _sum_dtypes(x.aval.dtype, chosen, promote_integers)
    x = astype(x, within)
    return astype(_reduce("prod", x, axis, keepdims, initial, mask, ReduceProd, mul, _one), result)


@bounded(1024)
def _sum_dtypes(own: DType, chosen: DType | None, promote_integers: bool) -> tuple[DType, DType]:
    """The dtype to compute in, and that of the result."""
    if chosen is not None:
        return chosen, chosen
    result = sum_dtype(own) if promote_integers else INT32 if own == BOOL else own
    return _wide(result), result


def max_(
    x: Array, axis: Axis = None, keepdims: bool = False, initial: Array | None = None, mask: Array | None = None
) -> Array:
    """The maximum over axes: nan if there is one."""
    _check_not_empty("max", x, axis, initial, mask)
    return _reduce("max", x, axis, keepdims, initial, mask, ReduceMax, arithmetic.max_, lowest)


def min_(
    x: Array, axis: Axis = None, keepdims: bool = False, initial: Array | None = None, mask: Array | None = None
) -> Array:
    """The minimum over axes: nan if there is one."""
    _check_not_empty("min", x, axis, initial, mask)
    return _reduce("min", x, axis, keepdims, initial, mask, ReduceMin, arithmetic.min_, highest)


def _check_not_empty(name: str, x: Array, axis: Axis, initial: Array | None, mask: Array | None) -> None:
    if initial is not None:
        return
    if mask is not None:
        raise ShapeError(f"{name} with where needs initial: the {name} of no elements isn't defined")
    if 0 in x.aval.shape and any(x.aval.shape[i] == 0 for i in canonical_axes(axis, x.aval.ndim, name)):
        raise ShapeError(f"{name} of no elements isn't defined: {x.aval} has an axis of size 0. Pass initial.")


@prepared
def all_(x: Array, axis: Axis = None, keepdims: bool = False, mask: Array | None = None) -> Array:
    """Whether no element is zero."""
    return _reduce("all", truth(x), axis, keepdims, None, mask, ReduceAnd, logical_and, _one)


@prepared
def any_(x: Array, axis: Axis = None, keepdims: bool = False, mask: Array | None = None) -> Array:
    """Whether any element isn't zero."""
    return _reduce("any", truth(x), axis, keepdims, None, mask, ReduceOr, logical_or, _zero)


# Statistics.


def _count(name: str, x: Array, axis: Axis, keepdims: bool, mask: Array | None) -> Array | int:
    """How many elements are reduced."""
    if mask is None and axis is None:
        return x.aval.size
    if mask is None:
        return math.prod(x.aval.shape[i] for i in canonical_axes(axis, x.aval.ndim, name))
    return sum_(broadcast_to(mask, x.aval.shape), axis, keepdims=keepdims)


@prepared
def mean(
    x: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, keepdims: bool = False, mask: Array | None = None
) -> Array:
    """The mean over axes: a float."""
    chosen = user_dtype(dtype)
    result = inexact_dtype(x.aval.dtype) if chosen is None else chosen
    within = _wide(result) if chosen is None else result
    total = sum_(x, axis, within, keepdims, mask=mask)
    count = _count("mean", x, axis, keepdims, mask)
    divisor = constant_like(total, count) if isinstance(count, int) else astype(count, within)
    return astype(apply(arithmetic.div, total, divisor), result)


@prepared
def var(
    x: Array,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    correction: float = 0,
    keepdims: bool = False,
    mask: Array | None = None,
    center: Array | None = None,
) -> Array:
    """The mean squared distance from the mean, or from `center`; the divisor is the number of elements - correction."""
    own, chosen = x.aval.dtype, user_dtype(dtype)
    if chosen is not None and own in COMPLEXES and chosen not in COMPLEXES:
        raise TypingError(f"var: the dtype for complex operands ({short_name(own)}) must be complex")
    within = _wide(chosen if chosen is not None else inexact_dtype(own))
    result = chosen if chosen is not None else real_dtype(inexact_dtype(own))
    x = astype(x, within)
    spread = len(canonical_axes(axis, x.aval.ndim, "var")) < x.aval.ndim  # a scalar needs no axes
    middle = mean(x, axis, within, spread, mask) if center is None else astype(center, within)
    away = apply(sub, x, middle)
    squares = real(multiply(away, conjugate(away))) if within in COMPLEXES else apply(arithmetic.square, away)
    total = sum_(squares, axis, squares.aval.dtype, keepdims, mask=mask)
    return astype(_per_degree(total, _count("var", x, axis, keepdims, mask), correction), result)


def _per_degree(total: Array, count: Array | int, correction: float) -> Array:
    """The total divided by the degrees of freedom; nan if there are none."""
    if isinstance(count, int):
        return apply(
            arithmetic.div, total, constant_like(total, count - correction if count > correction else math.nan)
        )
    degrees = apply(sub, astype(count, total.aval.dtype), constant_like(total, correction))
    return apply(arithmetic.div, total, where(degrees > 0, degrees, constant_like(degrees, math.nan)))


@prepared
def std(
    x: Array,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    correction: float = 0,
    keepdims: bool = False,
    mask: Array | None = None,
    center: Array | None = None,
) -> Array:
    """The square root of the variance."""
    chosen = user_dtype(dtype)
    if chosen is not None and chosen not in INEXACT:
        raise TypingError(f"std: the dtype must be a float or complex one, got {short_name(chosen)}")
    return apply(sqrt, var(x, axis, dtype, correction, keepdims, mask, center))


@prepared
def ptp(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The maximum minus the minimum."""
    return apply(sub, max_(x, axis, keepdims), min_(x, axis, keepdims))


@prepared
def trace(
    x: Array, offset: SupportsIndex, axis1: SupportsIndex, axis2: SupportsIndex, dtype: npt.DTypeLike | None
) -> Array:
    """The sum of the diagonal."""
    return sum_(diagonal(x, offset, axis1, axis2), -1, dtype)


# Along one axis.


def _position(name: str, make: type[ArgMax | ArgMin], x: Array, axis: SupportsIndex | None, keepdims: bool) -> Array:
    ndim = x.aval.ndim
    flat = ravel(x) if axis is None else x
    at = 0 if axis is None else canonical_axis(axis, ndim, name)
    if flat.aval.shape[at] == 0:
        raise ShapeError(f"{name} of no elements isn't defined: {x.aval} has none along axis {at}")
    (out,) = flat._bind(made_once(make, (at,), INT64), flat)
    return expand_dims(out, range(ndim) if axis is None else at) if keepdims else out


def argmax(x: Array, axis: SupportsIndex | None = None, keepdims: bool = False) -> Array:
    """The index of the first maximum, or of the first nan; in row-major order if no axis is given."""
    return _position("argmax", ArgMax, x, axis, keepdims)


def argmin(x: Array, axis: SupportsIndex | None = None, keepdims: bool = False) -> Array:
    """The index of the first minimum, or of the first nan; in row-major order if no axis is given."""
    return _position("argmin", ArgMin, x, axis, keepdims)


def _cumulative(
    name: str, make: Callable[[int], Primitive], x: Array, axis: SupportsIndex | None, dtype: npt.DTypeLike | None
) -> Array:
    chosen = user_dtype(dtype)
    flat = ravel(x) if axis is None or not x.aval.shape else x
    at = 0 if axis is None else canonical_axis(axis, flat.aval.ndim, name)
    if chosen == BOOL:
        flat, within = astype(truth(flat), INT64), INT64
    else:
        within = chosen if chosen is not None else INT64 if x.aval.dtype == BOOL else x.aval.dtype
    flat = astype(flat, within)
    (out,) = flat._bind(made_once(make, at), flat)
    return astype(out, within if chosen is None else chosen)


def cumsum(x: Array, axis: SupportsIndex | None = None, dtype: npt.DTypeLike | None = None) -> Array:
    """The sums of all elements so far, along an axis or in row-major order. Bools are added as int64."""
    return _cumulative("cumsum", CumSum, x, axis, dtype)


def cumprod(x: Array, axis: SupportsIndex | None = None, dtype: npt.DTypeLike | None = None) -> Array:
    """The products of all elements so far, along an axis or in row-major order. Bools are multiplied as int64."""
    return _cumulative("cumprod", CumProd, x, axis, dtype)


def sort(x: Array, axis: SupportsIndex | None = -1, stable: bool = True, descending: bool = False) -> Array:
    """The elements in order along an axis, nan last; in one axis if it is None."""
    flat = ravel(x) if axis is None else x
    at = 0 if axis is None else canonical_axis(axis, x.aval.ndim, "sort")
    (out,) = flat._bind(made_once(Sort, at, stable), flat)
    return out._bind(made_once(Rev, (at,)), out)[0] if descending else out


def argsort(
    x: Array,
    axis: SupportsIndex | None = -1,
    stable: bool = True,
    descending: bool = False,
    dtype: npt.DTypeLike | None = None,
) -> Array:
    """The indices, int64 by default, that sort along an axis."""
    flat = ravel(x) if axis is None else x
    at = 0 if axis is None else canonical_axis(axis, x.aval.ndim, "argsort")
    places = flat._bind(made_once(Iota, user_dtype(dtype) or INT64, flat.aval.shape, at))[0]
    if descending and stable:
        (flat,), (places,) = flat._bind(made_once(Rev, (at,)), flat), flat._bind(made_once(Rev, (at,)), places)
    order = flat._bind(made_once(Sort, at, stable), flat, places)[1]
    return order._bind(made_once(Rev, (at,)), order)[0] if descending else order
