"""Functions of each element: powers and roots, exponentials and logarithms, circular and hyperbolic functions.

Their values are floats: of 64-bit integers float64, of other integers float32.
"""

from __future__ import annotations

import math

from tinyjax.arrays import arithmetic
from tinyjax.arrays.elementwise import (
    apply,
    broadcast,
    constant_like,
    inexact,
    numeric,
    promote_inexact,
    where,
)
from tinyjax.ir.dtypes import COMPLEX128, COMPLEXES, FLOAT64
from tinyjax.numpy.universal import universal
from tinyjax.prepared.functions import prepared
from tinyjax.primitives import arithmetic as arithmetic_primitives
from tinyjax.primitives import exponential, trigonometric
from tinyjax.primitives.bitwise import logical_and
from tinyjax.primitives.complex import complex_
from tinyjax.primitives.rounding import is_finite
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array, as_operand


def _pair(x1: ArrayLike, x2: ArrayLike) -> tuple[Array, Array]:
    return as_operand(x1), as_operand(x2)


# Powers and roots.


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 to the power of x2. Integers can't be raised to negative powers."""
    return arithmetic.power(*_pair(x1, x2))


def float_power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 to the power of x2, a float."""
    return apply(exponential.pow_, *promote_inexact(*_pair(x1, x2)))


def square(x: ArrayLike, /) -> Array:
    """The square."""
    return numeric(arithmetic_primitives.square, as_operand(x))


def sqrt(x: ArrayLike, /) -> Array:
    """The square root: nan for negative floats."""
    return inexact(exponential.sqrt, as_operand(x))


def cbrt(x: ArrayLike, /) -> Array:
    """The real cube root."""
    return inexact(exponential.cbrt, as_operand(x))


# Exponentials and logarithms.


def exp(x: ArrayLike, /) -> Array:
    """The exponential."""
    return inexact(exponential.exp, as_operand(x))


def exp2(x: ArrayLike, /) -> Array:
    """2 to the power of x."""
    return inexact(exponential.exp2, as_operand(x))


def expm1(x: ArrayLike, /) -> Array:
    """exp(x) - 1, exact near zero."""
    return inexact(exponential.expm1, as_operand(x))


def log(x: ArrayLike, /) -> Array:
    """The natural logarithm."""
    return inexact(exponential.log, as_operand(x))


@prepared
def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2."""
    return _divided(log(x), math.log(2))


@prepared
def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10."""
    return _divided(log(x), math.log(10))


def _divided(x: Array, divisor: float) -> Array:
    """Part by part: complex division makes nan of infinities."""
    return apply(complex_, x.real / divisor, x.imag / divisor) if x.aval.dtype in COMPLEXES else x / divisor


def _multiplied(x: Array, factor: float) -> Array:
    """Part by part too."""
    return apply(complex_, x.real * factor, x.imag * factor) if x.aval.dtype in COMPLEXES else x * factor


def log1p(x: ArrayLike, /) -> Array:
    """log(1 + x), exact near zero."""
    return inexact(exponential.log1p, as_operand(x))


@universal(2, identity=-math.inf)
@prepared
def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """log(exp(x1) + exp(x2)), without overflow."""
    return _logaddexp(*promote_inexact(*_pair(x1, x2)))


@prepared
def _logaddexp(x: Array, y: Array) -> Array:
    return _log_of_sum(x, y, 1)


@prepared
def _logaddexp2(x: Array, y: Array) -> Array:
    return _log_of_sum(x, y, math.log(2))


def _log_of_sum(x: Array, y: Array, unit: float) -> Array:
    """The logarithm of the sum of two powers, all to the base exp(unit).

    Only the distance of the exponents is multiplied by the unit. Rounded products of both have another distance.
    """
    x, y = broadcast(x, y)
    # Where both are equal, the derivative is shared because each is one of the two.
    first = arithmetic.real(x) > arithmetic.real(y)
    larger, smaller = where(first, x, y), where(first, y, x)
    both_infinite = (larger == smaller) & (apply(arithmetic_primitives.abs_, arithmetic.real(larger)) == math.inf)
    distance = where(both_infinite, constant_like(larger, 0), smaller - larger)
    more = apply(exponential.log1p, apply(exponential.exp, distance if unit == 1 else _multiplied(distance, unit)))
    out = larger + (more if unit == 1 else _divided(more, unit))
    if out.aval.dtype not in COMPLEXES:
        return out
    # Of all logarithms the one whose imaginary part is between -π and π, in this unit.
    half = math.pi / unit
    real, imag = out.real, out.imag
    turned = arithmetic.remainder(imag + half, constant_like(imag, 2 * half)) - half
    return apply(complex_, real, turned)


@universal(2, identity=-math.inf)
@prepared
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """log2(2**x1 + 2**x2), without overflow."""
    return _logaddexp2(*promote_inexact(*_pair(x1, x2)))


# Circular and hyperbolic functions.


def sin(x: ArrayLike, /) -> Array:
    """The sine."""
    return inexact(trigonometric.sin, as_operand(x))


def cos(x: ArrayLike, /) -> Array:
    """The cosine."""
    return inexact(trigonometric.cos, as_operand(x))


def tan(x: ArrayLike, /) -> Array:
    """The tangent."""
    return inexact(trigonometric.tan, as_operand(x))


def asin(x: ArrayLike, /) -> Array:
    """The inverse sine: nan for floats outside of [-1, 1]."""
    return inexact(trigonometric.asin, as_operand(x))


def acos(x: ArrayLike, /) -> Array:
    """The inverse cosine: nan for floats outside of [-1, 1]."""
    return inexact(trigonometric.acos, as_operand(x))


def atan(x: ArrayLike, /) -> Array:
    """The inverse tangent."""
    return inexact(trigonometric.atan, as_operand(x))


def atan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The angle of the point with ordinate x1 and abscissa x2."""
    return inexact(trigonometric.atan2, *_pair(x1, x2))


def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine."""
    return inexact(trigonometric.sinh, as_operand(x))


def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine."""
    return inexact(trigonometric.cosh, as_operand(x))


def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent."""
    return inexact(trigonometric.tanh, as_operand(x))


def asinh(x: ArrayLike, /) -> Array:
    """The inverse hyperbolic sine."""
    return inexact(trigonometric.asinh, as_operand(x))


def acosh(x: ArrayLike, /) -> Array:
    """The inverse hyperbolic cosine: nan for floats below 1; of complex numbers the one with a positive real part."""
    out = inexact(trigonometric.acosh, as_operand(x))
    return where(arithmetic.real(out) < 0, -out, out) if out.aval.dtype in COMPLEXES else out


def atanh(x: ArrayLike, /) -> Array:
    """The inverse hyperbolic tangent: nan for floats outside of [-1, 1]."""
    return inexact(trigonometric.atanh, as_operand(x))


@prepared
def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees as radians."""
    return promote_inexact(as_array(x))[0] * (math.pi / 180)


@prepared
def rad2deg(x: ArrayLike, /) -> Array:
    """Radians as degrees."""
    return promote_inexact(as_array(x))[0] * (180 / math.pi)


@prepared
def sinc(x: ArrayLike, /) -> Array:
    """sin(πx) / (πx), and 1 at 0; at infinity its limit, 0."""
    (found,) = promote_inexact(as_array(x))
    endless = _endless(found)
    angle = where(endless, constant_like(found, 1), found * math.pi)
    # Near 0 the quotient's derivatives are small differences of large numbers, and at 0 there are none. The series has
    # them up to the ninth, and is exact as far as this for numbers of 64 bits, and of fewer.
    near = abs(angle) < (0.1 if angle.dtype in (FLOAT64, COMPLEX128) else 0.5)
    safe = where(near, constant_like(angle, 1), angle)
    small = where(near, angle, constant_like(angle, 0))  # elsewhere powers of it might overflow
    # Each term is a power, so that reverse mode keeps nothing but the base.
    series = 1 - (small * small) * (1 / 6) + small**4 * (1 / 120) - small**6 * (1 / 5040) + small**8 * (1 / 362880)
    ratio = where(near, series, apply(trigonometric.sin, safe) / safe)
    return where(endless, constant_like(found, 0), ratio)


def _endless(x: Array) -> Array:
    """Whether a number is infinite along the real axis."""
    if x.aval.dtype in COMPLEXES:
        finite = apply(is_finite, arithmetic.imag(x))
        return apply(logical_and, abs(arithmetic.real(x)) == math.inf, finite)
    return abs(x) == math.inf


# NumPy's other names.

pow = power
arcsin = asin
arccos = acos
arctan = atan
arctan2 = atan2
arcsinh = asinh
arccosh = acosh
arctanh = atanh
radians = deg2rad
degrees = rad2deg
