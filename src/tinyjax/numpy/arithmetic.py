"""Functions of each element: sums, products and quotients, magnitudes, roundings, parts, choices by value."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tinyjax.arrays import along_axis, arithmetic, reductions
from tinyjax.arrays.elementwise import (
    LARGEST,
    apply,
    astype,
    broadcast,
    constant_like,
    inexact,
    is_nan,
    promote_inexact,
    where,
)
from tinyjax.arrays.intake import refuse_out
from tinyjax.errors import DtypeError
from tinyjax.ir.dtypes import BOOL, COMPLEXES, FLOAT64, FLOATS, INEXACT, INTEGERS
from tinyjax.numpy.universal import universal
from tinyjax.numpy.universal_methods import by
from tinyjax.prepared import closed
from tinyjax.prepared.functions import prepared, prepared_as
from tinyjax.primitives import rounding
from tinyjax.primitives.arithmetic import abs_, square
from tinyjax.primitives.complex import complex_
from tinyjax.primitives.conversion import stop_gradient
from tinyjax.primitives.exponential import sqrt
from tinyjax.primitives.trigonometric import atan2
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array, as_operand


def _pair(x1: ArrayLike, x2: ArrayLike) -> tuple[Array, Array]:
    return as_operand(x1), as_operand(x2)


# Sums, products and quotients.


@universal(2, identity=0, reduce=by(reductions.sum), accumulate=along_axis.cumsum, at=lambda x, i, v: x.at[i].add(v))
def add(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 + x2; of bools whether either holds."""
    return arithmetic.add(*_pair(x1, x2))


@universal(2, at=lambda x, i, v: x.at[i].subtract(v))
def subtract(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 - x2."""
    return arithmetic.subtract(*_pair(x1, x2))


@universal(
    2, identity=1, reduce=by(reductions.prod), accumulate=along_axis.cumprod, at=lambda x, i, v: x.at[i].multiply(v)
)
def multiply(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 * x2; of bools whether both hold."""
    return arithmetic.multiply(*_pair(x1, x2))


def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 / x2, a float."""
    return arithmetic.divide(*_pair(x1, x2))


def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 / x2, rounded down."""
    return arithmetic.floor_divide(*_pair(x1, x2))


def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """What remains of x1 after division by x2, with the sign of x2."""
    return arithmetic.remainder(*_pair(x1, x2))


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """`floor_divide` and `remainder` at once."""
    return arithmetic.divide_with_remainder(*_pair(x1, x2))


def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """What remains of x1 after division by x2, with the sign of x1."""
    return arithmetic.truncated_remainder(*_pair(x1, x2))


@universal(1)
def negative(x: ArrayLike, /) -> Array:
    """-x."""
    return arithmetic.negative(as_array(x))


def positive(x: ArrayLike, /) -> Array:
    """x."""
    return as_array(x)


def reciprocal(x: ArrayLike, /) -> Array:
    """1 / x, a float."""
    return arithmetic.integer_power(promote_inexact(as_array(x))[0], -1)


# Magnitudes.


def abs(x: ArrayLike, /) -> Array:
    """The magnitude."""
    return arithmetic.absolute(as_array(x))


def fabs(x: ArrayLike, /) -> Array:
    """The magnitude, a float."""
    found = as_array(x)
    arithmetic.refuse_complex("fabs", found)
    return inexact(abs_, found)


def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1; of a complex number the one of magnitude 1 in the same direction. Of -0.0 it is 0.0."""
    found = as_array(x)
    return _sign(found) if found.aval.dtype in FLOATS else apply(rounding.sign, found)


@prepared
def _sign(x: Array) -> Array:
    return where(x == 0, constant_like(x, 0), apply(rounding.sign, x))


@prepared
def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The length of the vector (x1, x2), without overflow."""
    x, y = promote_inexact(*_pair(x1, x2))
    arithmetic.refuse_complex("hypot", x)
    return _hypot(x, y)


@prepared
def _hypot(x: Array, y: Array) -> Array:
    x, y = broadcast(x, y)
    x, y = apply(abs_, x), apply(abs_, y)
    larger = arithmetic.maximum(x, y)
    zero, one = larger == 0, constant_like(larger, 1)
    # Not by the smaller one: its derivatives of higher order are wrong where both are equal.
    scale = apply(stop_gradient, where(zero, one, larger))
    squares = where(zero, one, apply(square, x / scale) + apply(square, y / scale))
    length = where(zero, larger, scale * apply(sqrt, squares))
    infinity = constant_like(x, math.inf)
    return where((x == infinity) | (y == infinity), infinity, length)


# Roundings.


def floor(x: ArrayLike, /) -> Array:
    """The largest integer that isn't above x."""
    found = as_array(x)
    return found if _is_whole(found) else apply(rounding.floor, found)


def ceil(x: ArrayLike, /) -> Array:
    """The smallest integer that isn't below x."""
    found = as_array(x)
    return found if _is_whole(found) else apply(rounding.ceil, found)


@prepared
def trunc(x: ArrayLike) -> Array:
    """The nearest integer towards zero."""
    found = as_array(x)
    return found if _is_whole(found) else where(found < 0, apply(rounding.ceil, found), apply(rounding.floor, found))


def _is_whole(x: Array) -> bool:
    return x.aval.dtype == BOOL or x.aval.dtype in INTEGERS


def rint(x: ArrayLike, /) -> Array:
    """The nearest integer, halves to even, as a float: float64 for integers."""
    found = as_array(x)
    return astype(found, FLOAT64) if _is_whole(found) else arithmetic.round(found)


round: Final = arithmetic.round


@prepared
def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """The fraction and the whole part, both with the sign of x."""
    refuse_out("modf", out)
    (found,) = promote_inexact(as_array(x))
    whole = trunc(found)
    return found - whole, whole


# Parts, and choices by value.


def real(val: ArrayLike, /) -> Array:
    """The real part."""
    return arithmetic.real(as_array(val))


@prepared
def imag(val: ArrayLike, /) -> Array:
    """The imaginary part: 0 of a real number."""
    return arithmetic.imag(as_array(val))


conj: Final = arithmetic.conjugate
conjugate: Final = arithmetic.conjugate


@prepared
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The angle of a complex number, in radians or degrees."""
    x = as_array(z)
    if x.aval.dtype not in COMPLEXES and (_is_whole(x) or x.aval.ndim == 0):
        x = astype(x, FLOAT64)
    out = apply(atan2, arithmetic.imag(x), arithmetic.real(x))
    return out * (180 / math.pi) if deg else out


@universal(2, reduce=by(reductions.max), at=lambda x, i, v: x.at[i].max(v))
def maximum(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The larger one, or nan if one is."""
    return arithmetic.maximum(*_pair(x1, x2))


@universal(2, reduce=by(reductions.min), at=lambda x, i, v: x.at[i].min(v))
def minimum(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The smaller one, or nan if one is."""
    return arithmetic.minimum(*_pair(x1, x2))


@prepared_as(closed.of_floats(np.fmax))
def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The larger one, or the one that isn't nan."""
    x, y = _pair(x1, x2)
    return where((x > y) | is_nan(y), x, y)


@prepared_as(closed.of_floats(np.fmin))
def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The smaller one, or the one that isn't nan."""
    x, y = _pair(x1, x2)
    return where((x < y) | is_nan(y), x, y)


clip: Final = arithmetic.clip


@prepared_as(closed.of_floats(np.heaviside))
def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """0 where x1 is negative, 1 where it is positive, x2 where it is zero."""
    x, y = promote_inexact(*_pair(x1, x2))
    arithmetic.refuse_complex("heaviside", x)
    step = where(x > 0, constant_like(x, 1), where(is_nan(x), x, y))
    return where(x < 0, constant_like(x, 0), step)


@prepared
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """nan and infinities replaced: by 0, the largest and the lowest number, if nothing else is given."""
    found = as_array(x)
    dtype = found.aval.dtype
    if _is_whole(found):
        return found
    if dtype not in INEXACT:
        raise DtypeError(f"nan_to_num takes numbers, got {found.aval}")
    if dtype in COMPLEXES:
        parts = [nan_to_num(part, copy, nan, posinf, neginf) for part in (found.real, found.imag)]
        return apply(complex_, *parts)
    high = LARGEST[dtype] if posinf is None else posinf
    low = -LARGEST[dtype] if neginf is None else neginf
    out = where(is_nan(found), astype(as_array(nan), dtype), found)
    out = where(out == math.inf, astype(as_array(high), dtype), out)
    return where(out == -math.inf, astype(as_array(low), dtype), out)


# NumPy's other names.

absolute = abs
true_divide = divide
mod = remainder
around: Final = round
