"""Elementwise functions of two arrays, strict: dtypes must be equal, and shapes too, apart from scalars and axes of
size 1."""

from __future__ import annotations

from tinyjax.lax.binding import strict_pair
from tinyjax.primitives.arithmetic import DIV, MAX, MIN, NEXTAFTER, REM
from tinyjax.primitives.bitwise import AND, OR, SHIFT_LEFT, SHIFT_RIGHT_ARITHMETIC, SHIFT_RIGHT_LOGICAL, XOR
from tinyjax.primitives.comparison import EQ, GE, GT, LE, LT, NE
from tinyjax.primitives.complex import COMPLEX
from tinyjax.primitives.elementwise import ADD, MUL, SUB
from tinyjax.primitives.special import POLYGAMMA
from tinyjax.primitives.trigonometric import ATAN2
from tinyjax.tracing.array import Array, ArrayLike


def add(x: ArrayLike, y: ArrayLike) -> Array:
    """x + y."""
    return strict_pair(ADD, x, y)


def sub(x: ArrayLike, y: ArrayLike) -> Array:
    """x - y."""
    return strict_pair(SUB, x, y)


def mul(x: ArrayLike, y: ArrayLike) -> Array:
    """x * y."""
    return strict_pair(MUL, x, y)


def div(x: ArrayLike, y: ArrayLike) -> Array:
    """x / y; of integers, rounded towards zero."""
    return strict_pair(DIV, x, y)


def rem(x: ArrayLike, y: ArrayLike) -> Array:
    """The remainder of div, with the sign of x."""
    return strict_pair(REM, x, y)


def max(x: ArrayLike, y: ArrayLike) -> Array:
    """The larger of the two; nan if either is. Complex numbers are ordered by their real parts first."""
    return strict_pair(MAX, x, y)


def min(x: ArrayLike, y: ArrayLike) -> Array:
    """The smaller of the two; nan if either is. Complex numbers are ordered by their real parts first."""
    return strict_pair(MIN, x, y)


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The next float after x1 in the direction of x2."""
    return strict_pair(NEXTAFTER, x1, x2)


def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """The angle of the point (y, x): the inverse tangent of x / y in the right quadrant."""
    return strict_pair(ATAN2, x, y)


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that are set in both."""
    return strict_pair(AND, x, y)


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that are set in either."""
    return strict_pair(OR, x, y)


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that differ."""
    return strict_pair(XOR, x, y)


def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted by y bits to the left."""
    return strict_pair(SHIFT_LEFT, x, y)


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted by y bits to the right, filled with zeros."""
    return strict_pair(SHIFT_RIGHT_LOGICAL, x, y)


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted by y bits to the right, filled with its sign."""
    return strict_pair(SHIFT_RIGHT_ARITHMETIC, x, y)


def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """The complex numbers with real parts x and imaginary parts y."""
    return strict_pair(COMPLEX, x, y)


def eq(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether x = y; a bool."""
    return strict_pair(EQ, x, y)


def ne(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether x differs from y; a bool."""
    return strict_pair(NE, x, y)


def lt(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether x < y; a bool."""
    return strict_pair(LT, x, y)


def le(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether x <= y; a bool."""
    return strict_pair(LE, x, y)


def gt(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether x > y; a bool."""
    return strict_pair(GT, x, y)


def ge(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether x >= y; a bool."""
    return strict_pair(GE, x, y)


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """The m-th derivative of digamma at x, for a whole number m in the dtype of x."""
    return strict_pair(POLYGAMMA, m, x)
