"""Elementwise functions of one array, in the dtypes that each accepts: nothing is promoted.

`accuracy` says what would do, as in JAX: a parameter of the primitives, which XLA is told. It has one implementation of
each on the CPU and on GPUs.
"""

from __future__ import annotations

import math

from tinyjax.arrays.elementwise import constant_like
from tinyjax.lax.binding import accurate, strict
from tinyjax.primitives import arithmetic, bitwise, elementwise, exponential, rounding, special, trigonometric
from tinyjax.primitives import complex as parts
from tinyjax.primitives.accuracy import AccuracyMode, Tolerance
from tinyjax.tracing.array import Array, ArrayLike


def sin(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """The sine; x in radians."""
    return accurate(trigonometric.sin, x, accuracy)


def cos(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """The cosine; x in radians."""
    return accurate(trigonometric.cos, x, accuracy)


def tan(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """The tangent; x in radians."""
    return accurate(trigonometric.tan, x, accuracy)


def asin(x: ArrayLike) -> Array:
    """The inverse sine."""
    return strict(trigonometric.asin, x)


def acos(x: ArrayLike) -> Array:
    """The inverse cosine."""
    return strict(trigonometric.acos, x)


def atan(x: ArrayLike) -> Array:
    """The inverse tangent."""
    return strict(trigonometric.atan, x)


def sinh(x: ArrayLike) -> Array:
    """The hyperbolic sine."""
    return strict(trigonometric.sinh, x)


def cosh(x: ArrayLike) -> Array:
    """The hyperbolic cosine."""
    return strict(trigonometric.cosh, x)


def tanh(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """The hyperbolic tangent."""
    return accurate(trigonometric.tanh, x, accuracy)


def asinh(x: ArrayLike) -> Array:
    """The inverse hyperbolic sine."""
    return strict(trigonometric.asinh, x)


def acosh(x: ArrayLike) -> Array:
    """The inverse hyperbolic cosine."""
    return strict(trigonometric.acosh, x)


def atanh(x: ArrayLike) -> Array:
    """The inverse hyperbolic tangent."""
    return strict(trigonometric.atanh, x)


def exp(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """e to the power x."""
    return accurate(exponential.exp, x, accuracy)


def exp2(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """2 to the power x."""
    return accurate(exponential.exp2, x, accuracy)


def expm1(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """exp(x) - 1, exact near 0."""
    return accurate(exponential.expm1, x, accuracy)


def log(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """The natural logarithm."""
    return accurate(exponential.log, x, accuracy)


def log2(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """The logarithm to base 2.

    >>> log2(8.0)
    Array(3., dtype=float64, weak_type=True)
    """
    whole = log(x, accuracy=accuracy)
    return strict(arithmetic.div, whole, constant_like(whole, math.log(2)))


def log1p(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """log(1 + x), exact near 0."""
    return accurate(exponential.log1p, x, accuracy)


def logistic(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """1 / (1 + exp(-x))."""
    return accurate(exponential.logistic, x, accuracy)


def sqrt(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """The square root."""
    return accurate(exponential.sqrt, x, accuracy)


def rsqrt(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """1 / sqrt(x)."""
    return accurate(exponential.rsqrt, x, accuracy)


def cbrt(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """The cube root."""
    return accurate(exponential.cbrt, x, accuracy)


def erf(x: ArrayLike) -> Array:
    """The error function."""
    return strict(special.erf, x)


def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), exact for large x."""
    return strict(special.erfc, x)


def erf_inv(x: ArrayLike) -> Array:
    """The inverse of erf."""
    return strict(special.erf_inv, x)


def lgamma(x: ArrayLike) -> Array:
    """The logarithm of the absolute value of the gamma function."""
    return strict(special.lgamma, x)


def digamma(x: ArrayLike) -> Array:
    """The derivative of lgamma."""
    return strict(special.digamma, x)


def neg(x: ArrayLike) -> Array:
    """-x."""
    return strict(elementwise.neg, x)


def abs(x: ArrayLike) -> Array:
    """The absolute value; of complex numbers, a real one."""
    return strict(arithmetic.abs_, x)


def square(x: ArrayLike) -> Array:
    """x * x."""
    return strict(arithmetic.square, x)


def sign(x: ArrayLike) -> Array:
    """-1, 0 or 1; of complex numbers, x / abs(x)."""
    return strict(rounding.sign, x)


def floor(x: ArrayLike) -> Array:
    """The largest whole number not above x."""
    return strict(rounding.floor, x)


def ceil(x: ArrayLike) -> Array:
    """The smallest whole number not below x."""
    return strict(rounding.ceil, x)


def is_finite(x: ArrayLike) -> Array:
    """Whether x is neither infinite nor nan; a bool."""
    return strict(rounding.is_finite, x)


def bitwise_not(x: ArrayLike) -> Array:
    """Each bit flipped; of bools, the other one."""
    return strict(bitwise.logical_not, x)


def population_count(x: ArrayLike) -> Array:
    """The number of bits that are set."""
    return strict(bitwise.population_count, x)


def clz(x: ArrayLike) -> Array:
    """The number of leading bits that are not set."""
    return strict(bitwise.clz, x)


def real(x: ArrayLike) -> Array:
    """The real part of complex numbers."""
    return strict(parts.real, x)


def imag(x: ArrayLike) -> Array:
    """The imaginary part of complex numbers."""
    return strict(parts.imag, x)


def conj(x: ArrayLike) -> Array:
    """The complex conjugate."""
    return strict(parts.conj, x)
