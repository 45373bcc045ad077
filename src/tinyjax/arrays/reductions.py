"""Reductions, as NumPy has them, each function and method in one: sums, products, extremes, means, variances."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, SupportsFloat, SupportsIndex, TypeAlias

import numpy.typing as npt

from tinyjax import primitives
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
from tinyjax.arrays.intake import as_operand, optional, refuse_out
from tinyjax.arrays.shaping import canonical_axes, diagonal, expand_dims
from tinyjax.caching import bounded
from tinyjax.errors import DtypeError, InputError, ShapeError
from tinyjax.ir.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEXES,
    FLOAT16,
    FLOAT32,
    INEXACT,
    INT32,
    INT64,
    NARROW_FLOATS,
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
from tinyjax.prepared.functions import prepared, prepared_operation
from tinyjax.primitives import arithmetic
from tinyjax.primitives.bitwise import logical_and, logical_or
from tinyjax.primitives.elementwise import add, mul, sub
from tinyjax.primitives.exponential import sqrt
from tinyjax.primitives.structure import ReduceSum

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array, ArrayLike

Axis: TypeAlias = SupportsIndex | Iterable[SupportsIndex] | None


def sum_dtype(dtype: DType) -> DType:
    """The dtype of a sum or product: 64 bits for bools and integers."""
    if dtype in UNSIGNED:
        return UINT64
    return INT64 if dtype == BOOL or dtype in SIGNED else dtype


def _wide(dtype: DType) -> DType:
    """The dtype to add many numbers in."""
    return FLOAT32 if dtype in (FLOAT16, BFLOAT16, *NARROW_FLOATS) else dtype


def reduced(
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
            raise DtypeError(f"{name}: where must be None or a boolean array, got {mask.aval}")
        x = where(broadcast_to(mask, x.aval.shape), x, constant_like(x, identity(dtype)))
    x = astype(x, dtype)
    out = x._bind(made_once(make, axes), x)[0] if axes else x._own()
    if initial is not None:
        if initial.aval.shape != ():
            raise ShapeError(f"{name}: initial value must be a scalar. Got array of shape {initial.aval.shape}")
        out = apply(combine, astype(initial, dtype), out)
    return expand_dims(out, axes) if keepdims else out


def _zero(dtype: DType) -> Scalar:
    return 0


def _one(dtype: DType) -> Scalar:
    return 1


# Sums, products, extremes, truth.


@prepared_operation
def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The sum over axes, all by default. Bools and integers are added as 64-bit integers, 16-bit floats as float32."""
    refuse_out("sum", out)
    chosen, start, mask = user_dtype(dtype), optional(initial), optional(where)
    return _total("sum", ReduceSum, add, _zero, as_operand(a), axis, chosen, keepdims, start, mask, promote_integers)


@prepared_operation
def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The product over axes, all by default. Bools and integers are multiplied as 64-bit integers, 16-bit floats as
    float32."""
    refuse_out("prod", out)
    chosen, start, mask = user_dtype(dtype), optional(initial), optional(where)
    return _total("prod", _product, mul, _one, as_operand(a), axis, chosen, keepdims, start, mask, promote_integers)


def _product(axes: tuple[int, ...]) -> Primitive:
    return primitives.reductions.ReduceProd(axes)


def _total(
    name: str,
    make: Callable[[tuple[int, ...]], Primitive],
    combine: Primitive,
    identity: Callable[[DType], Scalar],
    x: Array,
    axis: Axis,
    chosen: DType | None,
    keepdims: bool,
    initial: Array | None,
    mask: Array | None,
    promote_integers: bool,
) -> Array:
    if chosen == BOOL:
        start = None if initial is None else truth(initial)
        return truth(_total(name, make, combine, identity, truth(x), axis, None, keepdims, start, mask, True))
    within, result = _sum_dtypes(x.aval.dtype, chosen, bool(promote_integers))
    total = reduced(name, astype(x, within), axis, keepdims, initial, mask, make, combine, identity)
    return astype(total, result)


@bounded(1024)
def _sum_dtypes(own: DType, chosen: DType | None, promote_integers: bool) -> tuple[DType, DType]:
    """The dtype to compute in, and that of the result."""
    if chosen is not None:
        return chosen, chosen
    result = sum_dtype(own) if promote_integers else INT32 if own == BOOL else own
    return _wide(result), result


@prepared_operation
def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The maximum over axes, all by default: nan if there is one."""
    refuse_out("max", out)
    return _maximum(as_operand(a), axis, keepdims, optional(initial), optional(where))


def _maximum(x: Array, axis: Axis, keepdims: bool, initial: Array | None = None, mask: Array | None = None) -> Array:
    _check_not_empty("max", x, axis, initial, mask)
    kinds = primitives.reductions
    return reduced("max", x, axis, keepdims, initial, mask, kinds.ReduceMax, arithmetic.max_, kinds.lowest)


@prepared_operation
def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The minimum over axes, all by default: nan if there is one."""
    refuse_out("min", out)
    return _minimum(as_operand(a), axis, keepdims, optional(initial), optional(where))


def _minimum(x: Array, axis: Axis, keepdims: bool, initial: Array | None = None, mask: Array | None = None) -> Array:
    _check_not_empty("min", x, axis, initial, mask)
    kinds = primitives.reductions
    return reduced("min", x, axis, keepdims, initial, mask, kinds.ReduceMin, arithmetic.min_, kinds.highest)


def _check_not_empty(name: str, x: Array, axis: Axis, initial: Array | None, mask: Array | None) -> None:
    if initial is not None:
        return
    if mask is not None:
        raise ShapeError(f"{name} with where needs initial: the {name} of no elements isn't defined")
    if 0 in x.aval.shape and 0 in [x.aval.shape[i] for i in canonical_axes(axis, x.aval.ndim, name)]:
        raise ShapeError(f"{name} of no elements isn't defined: {x.aval} has an axis of size 0. Pass initial.")


@prepared_operation
def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """The maximum minus the minimum."""
    refuse_out("ptp", out)
    x = as_operand(a)
    return apply(sub, _maximum(x, axis, keepdims), _minimum(x, axis, keepdims))


def minmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    where: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """The minimum and the maximum over axes, as `min` and `max` give them; `initial` is for both, or one for each."""
    refuse_out("minmax", out)
    x, mask = as_operand(a), optional(where)
    least, greatest = initial if isinstance(initial, tuple) else (initial, initial)
    return _minimum(x, axis, keepdims, optional(least), mask), _maximum(x, axis, keepdims, optional(greatest), mask)


@prepared_operation
def all(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None
) -> Array:
    """Whether no element is zero."""
    refuse_out("all", out)
    make = primitives.reductions.ReduceAnd
    return reduced("all", truth(as_operand(a)), axis, keepdims, None, optional(where), make, logical_and, _one)


@prepared_operation
def any(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None
) -> Array:
    """Whether any element isn't zero."""
    refuse_out("any", out)
    make = primitives.reductions.ReduceOr
    return reduced("any", truth(as_operand(a)), axis, keepdims, None, optional(where), make, logical_or, _zero)


# Statistics.


@prepared_operation
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """The mean over axes, all by default: a float."""
    refuse_out("mean", out)
    x, chosen = as_operand(a), user_dtype(dtype)
    result = inexact_dtype(x.aval.dtype) if chosen is None else chosen
    within = _wide(result) if chosen is None else result
    return astype(_mean(x, axis, within, keepdims, optional(where)), result)


def _mean(x: Array, axis: Axis, dtype: DType, keepdims: bool, mask: Array | None) -> Array:
    total = _sum(x, axis, dtype, keepdims, mask)
    count = _count("mean", x, axis, keepdims, mask)
    divisor = constant_like(total, count) if isinstance(count, int) else astype(count, dtype)
    return astype(apply(arithmetic.div, total, divisor), dtype)


def _sum(x: Array, axis: Axis, dtype: DType, keepdims: bool, mask: Array | None) -> Array:
    return _total("sum", ReduceSum, add, _zero, x, axis, dtype, keepdims, None, mask, True)


def _count(name: str, x: Array, axis: Axis, keepdims: bool, mask: Array | None) -> Array | int:
    """How many elements are reduced."""
    if mask is not None:
        return _sum(broadcast_to(mask, x.aval.shape), axis, sum_dtype(mask.aval.dtype), keepdims, None)
    if axis is None:
        return x.aval.size
    return math.prod(x.aval.shape[i] for i in canonical_axes(axis, x.aval.ndim, name))


@prepared_operation
def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """The variance over axes, all by default: the mean squared distance from the mean. The divisor is the number of
    elements minus `correction` (`ddof`)."""
    refuse_out("var", out)
    return _var(as_operand(a), axis, user_dtype(dtype), ddof, keepdims, optional(where), optional(mean), correction)


@prepared_operation
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """The standard deviation over axes: the square root of the variance."""
    refuse_out("std", out)
    x, chosen, mask, center = as_operand(a), user_dtype(dtype), optional(where), optional(mean)
    if chosen is not None and chosen not in INEXACT:
        raise DtypeError(f"std: the dtype must be a float or complex one, got {short_name(chosen)}")
    return apply(sqrt, _var(x, axis, chosen, ddof, keepdims, mask, center, correction))


def _var(
    x: Array,
    axis: Axis,
    chosen: DType | None,
    ddof: float,
    keepdims: bool,
    mask: Array | None,
    center: Array | None,
    correction: float | None,
) -> Array:
    if correction is not None and ddof != 0:
        raise ShapeError("var and std take ddof or correction, not both")
    correction = ddof if correction is None else correction
    if getattr(correction, "dtype", FLOAT32).kind in "mM" or not isinstance(correction, SupportsFloat):
        raise InputError(f"var and std: ddof, or correction, is a number, got {correction!r}")
    own = x.aval.dtype
    if chosen is not None and own in COMPLEXES and chosen not in COMPLEXES:
        raise DtypeError(f"var: the dtype for complex operands ({short_name(own)}) must be complex")
    within = _wide(chosen if chosen is not None else inexact_dtype(own))
    result = chosen if chosen is not None else real_dtype(inexact_dtype(own))
    x = astype(x, within)
    spread = len(canonical_axes(axis, x.aval.ndim, "var")) < x.aval.ndim  # a scalar needs no axes
    middle = _mean(x, axis, within, spread, mask) if center is None else astype(center, within)
    away = apply(sub, x, middle)
    squares = real(multiply(away, conjugate(away))) if within in COMPLEXES else apply(arithmetic.square, away)
    total = _sum(squares, axis, squares.aval.dtype, keepdims, mask)
    return astype(_per_degree(total, _count("var", x, axis, keepdims, mask), correction), result)


def _per_degree(total: Array, count: Array | int, correction: float) -> Array:
    """The total divided by the degrees of freedom; nan if there are none."""
    if isinstance(count, int):
        degrees = count - correction if count > correction else math.nan
        return apply(arithmetic.div, total, constant_like(total, degrees))
    left = apply(sub, astype(count, total.aval.dtype), constant_like(total, correction))
    return apply(arithmetic.div, total, where(left > 0, left, constant_like(left, math.nan)))


@prepared
def trace(
    a: ArrayLike,
    offset: SupportsIndex = 0,
    axis1: SupportsIndex = 0,
    axis2: SupportsIndex = 1,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
) -> Array:
    """The sum of the diagonal."""
    refuse_out("trace", out)
    return sum(diagonal(a, offset, axis1, axis2), -1, dtype)
