"""Elementwise functions of one array, in the dtypes that each accepts: nothing is promoted."""

from __future__ import annotations

from tinyjax.lax.binding import strict
from tinyjax.primitives.arithmetic import ABS, SQUARE
from tinyjax.primitives.bitwise import CLZ, NOT, POPULATION_COUNT
from tinyjax.primitives.complex import CONJ, IMAG, REAL
from tinyjax.primitives.elementwise import NEG
from tinyjax.primitives.exponential import CBRT, EXP, EXP2, EXPM1, LOG, LOG1P, LOGISTIC, RSQRT, SQRT
from tinyjax.primitives.rounding import CEIL, FLOOR, IS_FINITE, SIGN
from tinyjax.primitives.special import DIGAMMA, ERF, ERF_INV, ERFC, LGAMMA
from tinyjax.primitives.trigonometric import ACOS, ACOSH, ASIN, ASINH, ATAN, ATANH, COS, COSH, SIN, SINH, TAN, TANH
from tinyjax.tracing.array import Array, ArrayLike


def sin(x: ArrayLike) -> Array:
    """The sine; x in radians."""
    return strict(SIN, x)


def cos(x: ArrayLike) -> Array:
    """The cosine; x in radians."""
    return strict(COS, x)


def tan(x: ArrayLike) -> Array:
    """The tangent; x in radians."""
    return strict(TAN, x)


def asin(x: ArrayLike) -> Array:
    """The inverse sine."""
    return strict(ASIN, x)


def acos(x: ArrayLike) -> Array:
    """The inverse cosine."""
    return strict(ACOS, x)


def atan(x: ArrayLike) -> Array:
    """The inverse tangent."""
    return strict(ATAN, x)


def sinh(x: ArrayLike) -> Array:
    """The hyperbolic sine."""
    return strict(SINH, x)


def cosh(x: ArrayLike) -> Array:
    """The hyperbolic cosine."""
    return strict(COSH, x)


def tanh(x: ArrayLike) -> Array:
    """The hyperbolic tangent."""
    return strict(TANH, x)


def asinh(x: ArrayLike) -> Array:
    """The inverse hyperbolic sine."""
    return strict(ASINH, x)


def acosh(x: ArrayLike) -> Array:
    """The inverse hyperbolic cosine."""
    return strict(ACOSH, x)


def atanh(x: ArrayLike) -> Array:
    """The inverse hyperbolic tangent."""
    return strict(ATANH, x)


def exp(x: ArrayLike) -> Array:
    """e to the power x."""
    return strict(EXP, x)


def exp2(x: ArrayLike) -> Array:
    """2 to the power x."""
    return strict(EXP2, x)


def expm1(x: ArrayLike) -> Array:
    """exp(x) - 1, exact near 0."""
    return strict(EXPM1, x)


def log(x: ArrayLike) -> Array:
    """The natural logarithm."""
    return strict(LOG, x)


def log1p(x: ArrayLike) -> Array:
    """log(1 + x), exact near 0."""
    return strict(LOG1P, x)


def logistic(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x))."""
    return strict(LOGISTIC, x)


def sqrt(x: ArrayLike) -> Array:
    """The square root."""
    return strict(SQRT, x)


def rsqrt(x: ArrayLike) -> Array:
    """1 / sqrt(x)."""
    return strict(RSQRT, x)


def cbrt(x: ArrayLike) -> Array:
    """The cube root."""
    return strict(CBRT, x)


def erf(x: ArrayLike) -> Array:
    """The error function."""
    return strict(ERF, x)


def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), exact for large x."""
    return strict(ERFC, x)


def erf_inv(x: ArrayLike) -> Array:
    """The inverse of erf."""
    return strict(ERF_INV, x)


def lgamma(x: ArrayLike) -> Array:
    """The logarithm of the absolute value of the gamma function."""
    return strict(LGAMMA, x)


def digamma(x: ArrayLike) -> Array:
    """The derivative of lgamma."""
    return strict(DIGAMMA, x)


def neg(x: ArrayLike) -> Array:
    """-x."""
    return strict(NEG, x)


def abs(x: ArrayLike) -> Array:
    """The absolute value; of complex numbers, a real one."""
    return strict(ABS, x)


def square(x: ArrayLike) -> Array:
    """x * x."""
    return strict(SQUARE, x)


def sign(x: ArrayLike) -> Array:
    """-1, 0 or 1; of complex numbers, x / abs(x)."""
    return strict(SIGN, x)


def floor(x: ArrayLike) -> Array:
    """The largest whole number not above x."""
    return strict(FLOOR, x)


def ceil(x: ArrayLike) -> Array:
    """The smallest whole number not below x."""
    return strict(CEIL, x)


def is_finite(x: ArrayLike) -> Array:
    """Whether x is neither infinite nor nan; a bool."""
    return strict(IS_FINITE, x)


def bitwise_not(x: ArrayLike) -> Array:
    """Each bit flipped; of bools, the other one."""
    return strict(NOT, x)


def population_count(x: ArrayLike) -> Array:
    """The number of bits that are set."""
    return strict(POPULATION_COUNT, x)


def clz(x: ArrayLike) -> Array:
    """The number of leading bits that are not set."""
    return strict(CLZ, x)


def real(x: ArrayLike) -> Array:
    """The real part of complex numbers."""
    return strict(REAL, x)


def imag(x: ArrayLike) -> Array:
    """The imaginary part of complex numbers."""
    return strict(IMAG, x)


def conj(x: ArrayLike) -> Array:
    """The complex conjugate."""
    return strict(CONJ, x)
