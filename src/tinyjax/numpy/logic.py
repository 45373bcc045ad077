"""Comparisons, logic, bits, and what kind of number an element is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import overload

import numpy as np

from tinyjax.arrays import arithmetic, comparisons
from tinyjax.arrays.elementwise import (
    apply,
    astype,
    broadcast_shapes,
    constant_like,
    convert,
    inexact,
    promote,
    promote_inexact,
    promote_numeric,
    truth,
)
from tinyjax.arrays.elementwise import (
    where as choose,
)
from tinyjax.arrays.intake import refuse_out
from tinyjax.errors import InputError, ShapeError
from tinyjax.ir.dtypes import (
    BOOL,
    COMPLEXES,
    FLOAT32,
    FLOATS,
    INT16,
    INT32,
    INT64,
    KEYS,
    NARROW_FLOATS,
    UINT8,
    HostArray,
    real_dtype,
)
from tinyjax.lax.binding import sequence
from tinyjax.numpy.creation import asarray, full
from tinyjax.numpy.finding import nonzero
from tinyjax.numpy.signatures import Nested
from tinyjax.numpy.universal import universal
from tinyjax.numpy.universal_methods import all_bits, any_bits, odd_bits, truths
from tinyjax.prepared import closed
from tinyjax.prepared.functions import prepared, prepared_as
from tinyjax.primitives import arithmetic as arithmetic_primitives
from tinyjax.primitives import bitwise
from tinyjax.primitives.comparison import eq, ne
from tinyjax.primitives.conversion import BitcastConvertType
from tinyjax.primitives.rounding import is_finite
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array, as_operand
from tinyjax.tracing.core import bind


def _pair(x1: ArrayLike, x2: ArrayLike) -> tuple[Array, Array]:
    return as_operand(x1), as_operand(x2)


# Comparisons.


def equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 == x2."""
    return comparisons.equal(*_pair(x1, x2))


def not_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 != x2."""
    return comparisons.not_equal(*_pair(x1, x2))


def less(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 < x2."""
    return comparisons.less(*_pair(x1, x2))


def less_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 <= x2."""
    return comparisons.less_equal(*_pair(x1, x2))


def greater(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 > x2."""
    return comparisons.greater(*_pair(x1, x2))


def greater_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 >= x2."""
    return comparisons.greater_equal(*_pair(x1, x2))


def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether |a - b| is at most atol + rtol * |b|. Infinities are close to themselves only, as keys are."""
    pair = _pair(a, b)
    if all(z.aval.dtype in KEYS for z in pair):
        return equal(*pair)
    x, y = promote_inexact(*pair)
    dtype = real_dtype(x.aval.dtype)
    relative, absolute = (convert(t, dtype, t.aval.weak_type) for t in (as_array(rtol), as_array(atol)))
    return _is_close(x, y, relative, absolute, bool(equal_nan))


@prepared
def _is_close(x: Array, y: Array, rtol: Array, atol: Array, equal_nan: bool) -> Array:
    distance, size = apply(arithmetic_primitives.abs_, x - y), apply(arithmetic_primitives.abs_, y)
    close = (x == y) | (isfinite(y) & (distance <= atol + rtol * size))
    return close | (isnan(x) & isnan(y)) if equal_nan else close


def allclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether all elements are close: see `isclose`."""
    return isclose(a, b, rtol, atol, equal_nan).all()


def array_equal(a1: Nested, a2: Nested, equal_nan: bool = False) -> Array:
    """Whether shapes and elements are equal."""
    x, y = asarray(a1), asarray(a2)
    if x.aval.shape != y.aval.shape:
        return full((), False, BOOL)
    same = x == y
    return (same | (isnan(x) & isnan(y)) if equal_nan else same).all()


def array_equiv(a1: Nested, a2: Nested) -> Array:
    """Whether the shapes can be broadcast, and then the elements are equal.

    >>> array_equiv(as_array(1), as_array(1))
    Array(True, dtype=bool)
    """
    x, y = asarray(a1), asarray(a2)
    try:
        broadcast_shapes(x.aval.shape, y.aval.shape)
    except ShapeError:
        return full((), False, BOOL)
    return (x == y).all()


# Logic.


@universal(2, identity=True, reduce=truths(all_bits))
@prepared
def logical_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether neither is zero."""
    return apply(bitwise.logical_and, *map(truth, _pair(x1, x2)))


@universal(2, identity=False, reduce=truths(any_bits))
@prepared
def logical_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether one isn't zero."""
    return apply(bitwise.logical_or, *map(truth, _pair(x1, x2)))


@universal(2, identity=False, reduce=truths(odd_bits))
@prepared
def logical_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether exactly one isn't zero."""
    return apply(bitwise.logical_xor, *map(truth, _pair(x1, x2)))


@prepared
def logical_not(x: ArrayLike, /) -> Array:
    """Whether it is zero."""
    return apply(bitwise.logical_not, truth(as_array(x)))


@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> Array: ...
@overload
def where(
    condition: ArrayLike,
    /,
    *,
    size: int | None = None,
    fill_value: ArrayLike | Sequence[ArrayLike] | None = None,
) -> tuple[Array, ...]: ...
def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: ArrayLike | Sequence[ArrayLike] | None = None,
) -> Array | tuple[Array, ...]:
    """x where the condition holds, y elsewhere; all three are broadcast. Of a condition alone: `nonzero` of it.

    >>> import numpy as np
    >>> where(as_array(np.array([True, False, True])), size=3, fill_value=-1)
    (Array([ 0,  2, -1], dtype=int64),)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise InputError("where takes a condition, or a condition and both x and y; one of these two is None")
    if size is not None or fill_value is not None:
        raise InputError("where: size and fill_value are for a condition alone, not for a choice between x and y")
    return choose(as_operand(condition), as_operand(x), as_operand(y))


def select(
    condlist: Sequence[ArrayLike] | Array | HostArray,
    choicelist: Sequence[ArrayLike] | Array | HostArray,
    default: ArrayLike = 0,
) -> Array:
    """The choice of the first condition that holds, `default` where none does. Arrays are lists of their rows."""
    conditions, given = sequence("select: condlist", condlist), sequence("select: choicelist", choicelist)
    if len(conditions) != len(given) or not conditions:
        raise ShapeError(f"select: as many choices as conditions, got {len(conditions)} and {len(given)}")
    out, *choices = promote(as_array(default), *map(as_array, given))
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        out = choose(as_array(condition), choice, out)
    return out


# Bits.


@universal(2, identity=-1, reduce=all_bits)
def bitwise_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 & x2."""
    return arithmetic.bitwise_and(*_pair(x1, x2))


@universal(2, identity=0, reduce=any_bits)
def bitwise_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 | x2."""
    return arithmetic.bitwise_or(*_pair(x1, x2))


@universal(2, identity=0, reduce=odd_bits)
def bitwise_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 ^ x2."""
    return arithmetic.bitwise_xor(*_pair(x1, x2))


def bitwise_invert(x: ArrayLike, /) -> Array:
    """~x."""
    return arithmetic.invert(as_array(x))


def bitwise_left_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 << x2."""
    return arithmetic.left_shift(*_pair(x1, x2))


def bitwise_right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 >> x2, filled with the sign bit."""
    return arithmetic.right_shift(*_pair(x1, x2))


@prepared
def bitwise_count(x: ArrayLike, /) -> Array:
    """The number of bits that are set in the magnitude, as uint8."""
    return astype(apply(bitwise.population_count, arithmetic.absolute(promote_numeric(as_array(x))[0])), UINT8)


# Kinds of numbers.


def isnan(x: ArrayLike, /) -> Array:
    """Whether it is nan."""
    found = as_array(x)
    return apply(ne, found, found)


def isfinite(x: ArrayLike, /) -> Array:
    """Whether it is neither nan nor infinite."""
    found = as_array(x)
    if found.aval.dtype in COMPLEXES:
        return apply(bitwise.logical_and, isfinite(found.real), isfinite(found.imag))
    return apply(is_finite, found) if found.aval.dtype in FLOATS else _everywhere(found, True)


@prepared
def isinf(x: ArrayLike, /) -> Array:
    """Whether it is infinite."""
    found = as_array(x)
    if found.aval.dtype in COMPLEXES:
        return apply(bitwise.logical_or, isinf(found.real), isinf(found.imag))
    if found.aval.dtype not in FLOATS:
        return _everywhere(found, False)
    return apply(eq, apply(arithmetic_primitives.abs_, found), constant_like(found, math.inf))


def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether it is inf."""
    refuse_out("isposinf", out)
    return _is_infinity("isposinf", as_array(x), math.inf)


def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether it is -inf."""
    refuse_out("isneginf", out)
    return _is_infinity("isneginf", as_array(x), -math.inf)


def _is_infinity(name: str, x: Array, infinity: float) -> Array:
    arithmetic.refuse_complex(name, x)
    return apply(eq, x, constant_like(x, infinity)) if x.aval.dtype in FLOATS else _everywhere(x, False)


def _everywhere(x: Array, value: bool) -> Array:
    return full(x.aval.shape, value, BOOL)


@prepared
def iscomplex(x: ArrayLike) -> Array:
    """Whether it has an imaginary part other than zero."""
    return as_array(x).imag != 0


@prepared
def isreal(x: ArrayLike) -> Array:
    """Whether it has no imaginary part other than zero."""
    return as_array(x).imag == 0


_INT_OF_WIDTH = {2: INT16, 4: INT32, 8: INT64}


@prepared
def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign is set, also that of -0.0 and of nan."""
    found = as_array(x)
    dtype = found.aval.dtype
    arithmetic.refuse_complex("signbit", found)
    if dtype in NARROW_FLOATS:
        found, dtype = found.astype(FLOAT32), FLOAT32
    if dtype in FLOATS:
        (found,) = bind(BitcastConvertType(_INT_OF_WIDTH[dtype.itemsize]), found)
    return found < 0 if dtype != BOOL else _everywhere(found, False)


@prepared_as(closed.of_floats(np.copysign))
def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The magnitude of x1 with the sign of x2."""
    x, y = promote_inexact(*_pair(x1, x2))
    arithmetic.refuse_complex("copysign", x)
    size = apply(arithmetic_primitives.abs_, x)
    return choose(signbit(y), -size, size)


def nextafter(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The float next to x1 in the direction of x2."""
    return inexact(arithmetic_primitives.nextafter, *_pair(x1, x2))


# NumPy's other names.

invert = bitwise_invert
bitwise_not = bitwise_invert
left_shift = bitwise_left_shift
right_shift = bitwise_right_shift
