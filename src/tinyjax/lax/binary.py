"""Elementwise functions of two arrays, strict: dtypes must be equal, and shapes too, apart from scalars and axes of
size 1."""

from __future__ import annotations

import numpy.typing as npt

from tinyjax.arrays.elementwise import convert
from tinyjax.ir.dtypes import as_dtype
from tinyjax.lax.binding import strict_pair
from tinyjax.primitives import arithmetic, bitwise, comparison, elementwise, special, trigonometric
from tinyjax.primitives.complex import complex_
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def add(x: ArrayLike, y: ArrayLike) -> Array:
    """x + y."""
    return strict_pair(elementwise.add, x, y)


def sub(x: ArrayLike, y: ArrayLike) -> Array:
    """x - y."""
    return strict_pair(elementwise.sub, x, y)


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: npt.DTypeLike | None = None) -> Array:
    """x * y; with `out_dtype` both are converted to that first."""
    if out_dtype is not None:
        dtype = as_dtype(out_dtype)
        x, y = (convert(as_array(operand), dtype) for operand in (x, y))
    return strict_pair(elementwise.mul, x, y)


def div(x: ArrayLike, y: ArrayLike) -> Array:
    """x / y; of integers, rounded towards zero."""
    return strict_pair(arithmetic.div, x, y)


def rem(x: ArrayLike, y: ArrayLike) -> Array:
    """The remainder of div, with the sign of x."""
    return strict_pair(arithmetic.rem, x, y)


def max(x: ArrayLike, y: ArrayLike) -> Array:
    """The larger of the two; nan if either is. Complex numbers are ordered by their real parts first."""
    return strict_pair(arithmetic.max_, x, y)


def min(x: ArrayLike, y: ArrayLike) -> Array:
    """The smaller of the two; nan if either is. Complex numbers are ordered by their real parts first."""
    return strict_pair(arithmetic.min_, x, y)


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The next float after x1 in the direction of x2."""
    return strict_pair(arithmetic.nextafter, x1, x2)


def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """The angle of the point (y, x): the inverse tangent of x / y in the right quadrant."""
    return strict_pair(trigonometric.atan2, x, y)


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that are set in both."""
    return strict_pair(bitwise.logical_and, x, y)


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that are set in either."""
    return strict_pair(bitwise.logical_or, x, y)


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that differ."""
    return strict_pair(bitwise.logical_xor, x, y)


def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted by y bits to the left."""
    return strict_pair(bitwise.shift_left, x, y)


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted by y bits to the right, filled with zeros."""
    return strict_pair(bitwise.shift_right_logical, x, y)


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted by y bits to the right, filled with its sign."""
    return strict_pair(bitwise.shift_right_arithmetic, x, y)


def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """The complex numbers with real parts x and imaginary parts y."""
    return strict_pair(complex_, x, y)


def eq(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether x = y; a bool."""
    return strict_pair(comparison.eq, x, y)


def ne(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether x differs from y; a bool."""
    return strict_pair(comparison.ne, x, y)


def lt(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether x < y; a bool."""
    return strict_pair(comparison.lt, x, y)


def le(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether x <= y; a bool."""
    return strict_pair(comparison.le, x, y)


def gt(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether x > y; a bool."""
    return strict_pair(comparison.gt, x, y)


def ge(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether x >= y; a bool."""
    return strict_pair(comparison.ge, x, y)


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """The m-th derivative of digamma at x, for a whole number m in the dtype of x."""
    return strict_pair(special.polygamma, m, x)


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The upper half of the product of two integers, which has twice as many bits: x * y is the lower one.

    >>> import numpy as np
    >>> mulhi(np.int8(100), np.int8(-100)), mulhi(np.uint64(2**63), np.uint64(6))
    (Array(-40, dtype=int8), Array(3, dtype=uint64))
    """
    return strict_pair(bitwise.mulhi, x, y)
