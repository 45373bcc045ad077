"""Elementwise functions of one array, in the dtypes that each accepts: nothing is promoted."""

from __future__ import annotations

from tinyjax.lax.binding import strict
from tinyjax.primitives import arithmetic, bitwise, elementwise, exponential, rounding, special, trigonometric
from tinyjax.primitives import complex as parts
from tinyjax.tracing.array import Array, ArrayLike


def sin(x: ArrayLike) -> Array:
    """The sine; x in radians."""
    return strict(trigonometric.sin, x)


def cos(x: ArrayLike) -> Array:
    """The cosine; x in radians."""
    return strict(trigonometric.cos, x)


def tan(x: ArrayLike) -> Array:
    """The tangent; x in radians."""
    return strict(trigonometric.tan, x)


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


def tanh(x: ArrayLike) -> Array:
    """The hyperbolic tangent."""
    return strict(trigonometric.tanh, x)


def asinh(x: ArrayLike) -> Array:
    """The inverse hyperbolic sine."""
    return strict(trigonometric.asinh, x)


def acosh(x: ArrayLike) -> Array:
    """The inverse hyperbolic cosine."""
    return strict(trigonometric.acosh, x)


def atanh(x: ArrayLike) -> Array:
    """The inverse hyperbolic tangent."""
    return strict(trigonometric.atanh, x)


def exp(x: ArrayLike) -> Array:
    """e to the power x."""
    return strict(exponential.exp, x)


def exp2(x: ArrayLike) -> Array:
    """2 to the power x."""
    return strict(exponential.exp2, x)


def expm1(x: ArrayLike) -> Array:
    """exp(x) - 1, exact near 0."""
    return strict(exponential.expm1, x)


def log(x: ArrayLike) -> Array:
    """The natural logarithm."""
    return strict(exponential.log, x)


def log1p(x: ArrayLike) -> Array:
    """log(1 + x), exact near 0."""
    return strict(exponential.log1p, x)


def logistic(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x))."""
    return strict(exponential.logistic, x)


def sqrt(x: ArrayLike) -> Array:
    """The square root."""
    return strict(exponential.sqrt, x)


def rsqrt(x: ArrayLike) -> Array:
    """1 / sqrt(x)."""
    return strict(exponential.rsqrt, x)


def cbrt(x: ArrayLike) -> Array:
    """The cube root."""
    return strict(exponential.cbrt, x)


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
