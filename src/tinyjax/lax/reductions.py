"""Reductions, running reductions, contractions, powers and sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

import numpy.typing as npt

from tinyjax.arrays.products import DotPrecisionLike, asked_precision
from tinyjax.arrays.shaping import integer
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.ir.dtypes import as_dtype
from tinyjax.ir.primitive import Primitive
from tinyjax.lax.binding import axes_tuple, bind_pair, dimension_pairs, operands, strict
from tinyjax.lax.explicit import computed
from tinyjax.lax.layouts import OutSharding
from tinyjax.primitives.arithmetic import IntegerPow
from tinyjax.primitives.contractions import DotGeneral
from tinyjax.primitives.cumulative import CumLogSumExp, CumMax, CumMin, CumProd, CumSum
from tinyjax.primitives.exponential import pow_
from tinyjax.primitives.reductions import (
    ArgMax,
    ArgMin,
    ReduceAnd,
    ReduceMax,
    ReduceMin,
    ReduceOr,
    ReduceProd,
    ReduceXor,
)
from tinyjax.primitives.rounding import Round, RoundingMethod
from tinyjax.primitives.sorting import Sort, TopK
from tinyjax.primitives.structure import ReduceSum
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind


def _axes(operand: ArrayLike, axes: int | Sequence[int]) -> tuple[int, ...]:
    return axes_tuple(axes, as_array(operand).aval.ndim)


def _axis(operand: ArrayLike, axis: int) -> int:
    return _axes(operand, integer(axis, "the axis"))[0]


def reduce_sum(operand: ArrayLike, axes: int | Sequence[int], *, out_sharding: OutSharding = None) -> Array:
    """The sum over axes, in the operand's dtype."""
    return computed(lambda x: strict(ReduceSum(_axes(x, axes)), x), [as_array(operand)], out_sharding)


def reduce_prod(operand: ArrayLike, axes: int | Sequence[int]) -> Array:
    """The product over axes, in the operand's dtype."""
    return strict(ReduceProd(_axes(operand, axes)), operand)


def reduce_max(operand: ArrayLike, axes: int | Sequence[int], *, out_sharding: OutSharding = None) -> Array:
    """The largest element over axes; nan if there is one."""
    return computed(lambda x: strict(ReduceMax(_axes(x, axes)), x), [as_array(operand)], out_sharding)


def reduce_min(operand: ArrayLike, axes: int | Sequence[int], *, out_sharding: OutSharding = None) -> Array:
    """The smallest element over axes; nan if there is one."""
    return computed(lambda x: strict(ReduceMin(_axes(x, axes)), x), [as_array(operand)], out_sharding)


def reduce_and(operand: ArrayLike, axes: int | Sequence[int]) -> Array:
    """Bitwise and over axes; of bools, whether all hold."""
    return strict(ReduceAnd(_axes(operand, axes)), operand)


def reduce_or(operand: ArrayLike, axes: int | Sequence[int]) -> Array:
    """Bitwise or over axes; of bools, whether any holds."""
    return strict(ReduceOr(_axes(operand, axes)), operand)


def reduce_xor(operand: ArrayLike, axes: int | Sequence[int]) -> Array:
    """Bitwise exclusive or over axes."""
    return strict(ReduceXor(_axes(operand, axes)), operand)


def argmax(operand: ArrayLike, axis: int, index_dtype: npt.DTypeLike) -> Array:
    """The index of the largest element along an axis: the first one, or that of the first nan."""
    return strict(ArgMax(_axes(operand, axis), as_dtype(index_dtype)), operand)


def argmin(operand: ArrayLike, axis: int, index_dtype: npt.DTypeLike) -> Array:
    """The index of the smallest element along an axis: the first one, or that of the first nan."""
    return strict(ArgMin(_axes(operand, axis), as_dtype(index_dtype)), operand)


def _cumulative(make: Callable[[int, bool], Primitive], operand: ArrayLike, axis: int, reverse: bool) -> Array:
    return strict(make(_axis(operand, axis), reverse), operand)


def cumsum(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The sums of each element and all before it along an axis, or all after it."""
    return _cumulative(CumSum, operand, axis, reverse)


def cumprod(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The products of each element and all before it along an axis, or all after it."""
    return _cumulative(CumProd, operand, axis, reverse)


def cummax(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The largest of each element and all before it along an axis, or all after it."""
    return _cumulative(CumMax, operand, axis, reverse)


def cummin(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The smallest of each element and all before it along an axis, or all after it."""
    return _cumulative(CumMin, operand, axis, reverse)


def cumlogsumexp(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """log(cumsum(exp(operand))), without overflow."""
    return _cumulative(CumLogSumExp, operand, axis, reverse)


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]],
    precision: DotPrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Sums products over contracting axes, for each element of the batch axes.

    `dimension_numbers` is ((contracting axes of lhs, of rhs), (batch axes of lhs, of rhs)). The result has the batch
    axes, the other axes of lhs, those of rhs. `preferred_element_type` is the dtype of the sums and of the result.
    """
    numbers = dimension_pairs("dot_general", dimension_numbers)
    dtype = None if preferred_element_type is None else as_dtype(preferred_element_type)
    product = DotGeneral(numbers, asked_precision(precision), dtype)
    if out_sharding is None:
        return strict(product, lhs, rhs)
    return computed(lambda x, y: strict(product, x, y), operands(lhs, rhs), out_sharding)


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    precision: DotPrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
    *,
    dimension_numbers: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]] | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """The product of vectors or matrices, in any combination; with `dimension_numbers`, `dot_general`."""
    x, y = operands(lhs, rhs)
    if dimension_numbers is None:
        if not 1 <= x.aval.ndim <= 2 or not 1 <= y.aval.ndim <= 2:
            raise ShapeError(f"dot takes vectors and matrices, got {x.aval} and {y.aval}")
        dimension_numbers = ((x.aval.ndim - 1,), (0,)), ((), ())
    return dot_general(x, y, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: DotPrecisionLike = None) -> Array:
    """The products of matrices in the last two axes; all axes before them are batch axes."""
    x, y = operands(lhs, rhs)
    if x.aval.ndim < 2 or x.aval.ndim != y.aval.ndim:
        raise ShapeError(f"batch_matmul takes arrays of equal rank, at least 2; got {x.aval} and {y.aval}")
    batch = tuple(range(x.aval.ndim - 2))
    return dot_general(x, y, (((x.aval.ndim - 1,), (y.aval.ndim - 2,)), (batch, batch)), precision)


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """x to the power y: of x's dtype, or an integer."""
    if isinstance(y, int) and not isinstance(y, bool):
        return integer_pow(x, y)
    base, exponent = as_array(x), as_array(y)
    if base.aval.dtype != exponent.aval.dtype and exponent.aval.weak_type:
        base, exponent = operands(base, exponent)
    return bind_pair(pow_, base, exponent)


def integer_pow(x: ArrayLike, y: int) -> Array:
    """x to a power that is a Python integer."""
    return strict(IntegerPow(integer(y, "integer_pow: the exponent")), x)


def reciprocal(x: ArrayLike) -> Array:
    """1 / x."""
    return integer_pow(x, -1)


def round(x: ArrayLike, rounding_method: RoundingMethod | int = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """The nearest whole number; halves go away from zero, or to the even one. The method's number stands for it."""
    try:
        method = RoundingMethod(rounding_method)
    except ValueError:
        names = ", ".join(map(str, RoundingMethod))
        raise ChoiceError(f"round: the method is one of {names}, got {rounding_method!r}") from None
    return strict(Round(method), x)


@overload
def sort(
    operand: Sequence[ArrayLike], dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> tuple[Array, ...]: ...
@overload
def sort(operand: ArrayLike, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Array: ...
def sort(
    operand: ArrayLike | Sequence[ArrayLike], dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Array | tuple[Array, ...]:
    """An array sorted along an axis; or several, by the first `num_keys` of them, the others following. nan is last."""
    num_keys = integer(num_keys, "sort: the number of keys")
    if isinstance(operand, tuple | list):
        if not operand:
            raise ShapeError("sort needs at least one operand")
        arrays = [as_array(x) for x in operand]
        axis = _axis(arrays[0], dimension)
        return bind(Sort(axis, is_stable, num_keys), *arrays)
    x = as_array(operand)
    axis = _axis(x, dimension)
    return bind(Sort(axis, is_stable, num_keys), x)[0]


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """The keys sorted along an axis, and the values in the same order."""
    sorted_keys, sorted_values = sort((keys, values), dimension, is_stable)
    return sorted_keys, sorted_values


def top_k(operand: ArrayLike, k: int, *, axis: int = -1, is_stable: bool = True) -> tuple[Array, Array]:
    """The k largest elements along an axis, the largest first, and their int32 indices. Of equal elements the first
    come first, even where `is_stable` doesn't ask for it. nan counts as largest, or as least if it has a sign, and
    -0.0 comes after 0.0."""
    del is_stable
    x, k, axis = as_array(operand), integer(k, "top_k: k"), integer(axis, "top_k: the axis")
    if not -x.aval.ndim <= axis < x.aval.ndim:
        raise ShapeError(f"top_k: {x.aval} has no axis {axis}")
    values, places = bind(TopK(axis % x.aval.ndim, k), x)
    return values, places
