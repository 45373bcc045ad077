"""What Python's operators mean for arrays: quotients, remainders, powers, roundings, bits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tinyjax.arrays.elementwise import (
    LARGEST,
    apply,
    astype,
    broadcast,
    constant_like,
    elementwise,
    full_like,
    inexact,
    is_nan,
    numeric,
    promote,
    promote_numeric,
    where,
)
from tinyjax.arrays.intake import as_array, refuse_out
from tinyjax.arrays.shaping import integer
from tinyjax.errors import DtypeError, TypingError
from tinyjax.ir.dtypes import BOOL, COMPLEXES, FLOAT16, FLOAT32, FLOATS, INEXACT, INTEGERS, UNSIGNED, short_name
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.result_types import made_once
from tinyjax.prepared import closed
from tinyjax.prepared.functions import prepared, prepared_as
from tinyjax.primitives import complex as parts
from tinyjax.primitives import elementwise as elementwise_primitives
from tinyjax.primitives.arithmetic import IntegerPow, abs_, div, max_, min_, rem
from tinyjax.primitives.bitwise import (
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
)
from tinyjax.primitives.exponential import pow_
from tinyjax.primitives.rounding import round_away_from_zero, round_to_even, sign

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array, ArrayLike


def refuse_complex(name: str, *arrays: Array) -> None:
    """A DtypeError for complex operands."""
    for array in arrays:
        if array.aval.dtype in COMPLEXES:
            raise DtypeError(f"{name} does not accept complex operands, got {array.aval}")


# Sums and products.


def add(x: Array, y: Array) -> Array:
    """The sum; of bools whether either holds."""
    return elementwise(logical_or if x.aval.dtype == BOOL == y.aval.dtype else elementwise_primitives.add, x, y)


def subtract(x: Array, y: Array) -> Array:
    return elementwise(elementwise_primitives.sub, x, y)


def multiply(x: Array, y: Array) -> Array:
    """The product; of bools whether both hold."""
    return elementwise(logical_and if x.aval.dtype == BOOL == y.aval.dtype else elementwise_primitives.mul, x, y)


def negative(x: Array) -> Array:
    return apply(elementwise_primitives.neg, x)


def positive(x: Array) -> Array:
    return x


def absolute(x: Array) -> Array:
    """The magnitude."""
    dtype = x.aval.dtype
    return x if dtype == BOOL or dtype in UNSIGNED else apply(abs_, x)


# Quotients and remainders.


def divide(x: Array, y: Array) -> Array:
    """The quotient, a float."""
    return inexact(div, x, y)


def floor_divide(x: Array, y: Array) -> Array:
    """The quotient, rounded down."""
    x, y = promote_numeric(x, y)
    refuse_complex("floor_divide", x)
    return _floor_divide(x, y)


@prepared_as(closed.floor_divide)
def _floor_divide(x: Array, y: Array) -> Array:
    x, y = broadcast(x, y)
    dtype = x.aval.dtype
    if dtype in FLOATS:
        return _float_quotient(x, y)[0]
    quotient = apply(div, x, y)
    if dtype in UNSIGNED:
        return quotient
    rounded_up = (apply(sign, x) != apply(sign, y)) & (apply(rem, x, y) != 0)
    return where(rounded_up, quotient - 1, quotient)


def _float_quotient(x: Array, y: Array) -> tuple[Array, Array]:
    """The quotient, which has the sign of x / y even where it is zero, and what remains with the sign of x.

    Where x / y is known without rounding, at zeros and infinities, it is the quotient.
    """
    rest = apply(rem, x, y)
    plain = ~is_nan(rest) & (x != 0) & (apply(abs_, y) != math.inf)
    quotient = apply(div, where(plain, x - rest, x), y)
    opposite = plain & (rest != 0) & (apply(sign, y) != apply(sign, rest))
    quotient = where(opposite, quotient - 1, quotient)
    quotient = where(plain & (quotient == 0), constant_like(quotient, 0), quotient)
    return apply(round_away_from_zero, quotient), rest


@prepared_as(closed.divide_with_remainder)
def _float_divmod(x: Array, y: Array) -> tuple[Array, Array]:
    quotient, rest = _float_quotient(x, y)
    return quotient, _signed_remainder(rest, y)


def remainder(x: Array, y: Array) -> Array:
    """The remainder, with the sign of y; 0 for an integer y of 0."""
    x, y = promote_numeric(x, y)
    refuse_complex("remainder", x)
    return _remainder(x, y)


@prepared_as(closed.remainder)
def _remainder(x: Array, y: Array) -> Array:
    x, y = broadcast(x, _without_zero(y))
    return _signed_remainder(apply(rem, x, y), y)


def _signed_remainder(rest: Array, y: Array) -> Array:
    """What remains of a division by y with the sign of y, from what remains with the sign of the dividend."""
    negative = y < 0
    turned = ((rest < 0) != negative) & (rest != 0)
    if y.aval.dtype not in FLOATS:
        return where(turned, rest + y, rest)
    # Zero too, by sums alone, whose derivatives are 1 and keep nothing: both zeros are made -0.0, to which 0.0 is added
    # if the sign is to be another.
    zero = where(negative, constant_like(rest, -0.0), constant_like(rest, 0.0))
    return -(constant_like(rest, 0.0) - rest) + where(turned, y, zero)


def truncated_remainder(x: Array, y: Array) -> Array:
    """The remainder, with the sign of x; 0 for an integer y of 0."""
    x, y = promote_numeric(x, y)
    refuse_complex("fmod", x)
    return _truncated_remainder(x, y)


@prepared
def _truncated_remainder(x: Array, y: Array) -> Array:
    return apply(rem, x, _without_zero(y))


def _without_zero(y: Array) -> Array:
    """An integer divisor with 1 in the place of 0, so that the remainder is 0; floats as they are."""
    return where(y == 0, full_like(y, 1), y) if y.aval.dtype in INTEGERS else y


def divide_with_remainder(x: Array, y: Array) -> tuple[Array, Array]:
    """`floor_divide` and `remainder` at once."""
    x, y = broadcast(*promote_numeric(x, y))
    refuse_complex("divmod", x)
    if x.aval.dtype in FLOATS:
        return _float_divmod(x, y)
    return floor_divide(x, y), remainder(x, y)


# Powers.


def power(x: Array, y: Array) -> Array:
    """x to the power of y. The dtype is x's if y is one integer whose value is known."""
    exponent = _known_integer(y)
    if exponent is not None:
        return integer_power(promote_numeric(x)[0], exponent)
    if x.aval.dtype in INEXACT and y.aval.dtype in INTEGERS:
        return apply(pow_, x, y)
    base, raised = promote_numeric(x, y)
    if base.aval.dtype in INTEGERS:
        return _power_of_integers(*broadcast(base, raised))
    return apply(pow_, base, raised)


def _known_integer(x: Array) -> int | None:
    aval = x.aval
    if aval.shape != () or (aval.dtype not in INTEGERS and aval.dtype != BOOL):
        return None
    known = x.concrete()
    return None if known is None else int(np.asarray(known.data))


def integer_power(x: Array, exponent: int) -> Array:
    """x to a power that is known; a TypingError for a negative power of integers."""
    if exponent == 0:
        return full_like(x, 1)
    return x._own() if exponent == 1 else apply(made_once(IntegerPow, exponent), x)


def _power_of_integers(x: Array, y: Array) -> Array:
    """Repeated squaring, for exponents of up to 6 bits: others overflow, but for -1, 0 and 1."""
    dtype = x.aval.dtype
    result = where((x == 0) & (y != 0), astype(constant_like(x, 0), dtype), astype(constant_like(x, 1), dtype))
    for left in range(5, -1, -1):
        result = where(y & 1, result * x, result)
        if left:
            x = x * x
            y = apply(shift_right_logical, y, constant_like(y, 1))
    return result


# Bits.


def bitwise_and(x: Array, y: Array) -> Array:
    return elementwise(logical_and, x, y)


def bitwise_or(x: Array, y: Array) -> Array:
    return elementwise(logical_or, x, y)


def bitwise_xor(x: Array, y: Array) -> Array:
    return elementwise(logical_xor, x, y)


def invert(x: Array) -> Array:
    return apply(logical_not, x)


def left_shift(x: Array, y: Array) -> Array:
    return numeric(shift_left, x, y)


def right_shift(x: Array, y: Array) -> Array:
    """Fills with the sign bit."""
    x, y = promote_numeric(x, y)
    primitive: Primitive = shift_right_logical if x.aval.dtype in UNSIGNED else shift_right_arithmetic
    return apply(primitive, x, y)


# Parts and roundings.


def real(x: Array) -> Array:
    return apply(parts.real, x) if x.aval.dtype in COMPLEXES else x


def imag(x: Array) -> Array:
    return apply(parts.imag, x) if x.aval.dtype in COMPLEXES else full_like(x, 0)


def conjugate(x: ArrayLike, /) -> Array:
    """The complex conjugate."""
    array = as_array(x)
    return apply(parts.conj, array) if array.aval.dtype in COMPLEXES else array


@prepared
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Rounded to this many decimals, halves to even."""
    refuse_out("round", out)
    x = as_array(a)
    decimals, dtype = integer(decimals, "round: decimals"), x.aval.dtype
    if dtype == BOOL:
        raise TypingError("round does not accept bool operands")
    if dtype in INTEGERS:
        if decimals < 0:
            raise TypingError(f"round: integers ({short_name(dtype)}) can't be rounded to {decimals} decimals")
        return x
    if dtype in COMPLEXES:
        return apply(parts.complex_, round(real(x), decimals), round(imag(x), decimals))
    if decimals == 0 or dtype not in FLOATS:
        return apply(round_to_even, x)
    if decimals > math.log10(LARGEST[dtype]):
        return x
    wide = astype(x, FLOAT32) if dtype == FLOAT16 else x
    factor = float(10**decimals) if decimals > 0 else 10.0**decimals
    rounded = apply(round_to_even, wide * factor) / factor
    return astype(rounded, dtype) if dtype == FLOAT16 else rounded


def maximum(x: Array, y: Array) -> Array:
    """The larger one, or nan if one is."""
    return elementwise(max_, x, y)


def minimum(x: Array, y: Array) -> Array:
    """The smaller one, or nan if one is."""
    return elementwise(min_, x, y)


def clip(arr: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None, out: None = None) -> Array:
    """The elements, raised to `min` and lowered to `max`."""
    refuse_out("clip", out)
    bounds = [as_array(bound) for bound in (min, max) if bound is not None]
    x = as_array(arr)
    refuse_complex("clip", x, *bounds)
    x, *bounds = promote(x, *bounds)
    return _clip(x, None if min is None else bounds[0], None if max is None else bounds[-1])


@prepared
def _clip(x: Array, low: Array | None, high: Array | None) -> Array:
    if low is not None:
        x = maximum(low, x)
    return x if high is None else minimum(high, x)
