"""NumPy implementations of functions of complex numbers, with C99's values at infinities, nan and zeros of either sign.

NumPy's own functions have them, but for those here.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tinyjax.ir.dtypes import COMPLEX64, COMPLEX128, HostArray, complex_dtype

Floats: TypeAlias = npt.NDArray[np.float64]
Complexes: TypeAlias = npt.NDArray[np.complex128]
#: Logarithms of numbers from which a few factors lead to the ends of a dtype.
_FAR: Final = {COMPLEX64: 80.0, COMPLEX128: 700.0}


def of_parts(re: Floats, im: Floats) -> Complexes:
    """The complex numbers with these parts."""
    result: Complexes = np.empty(np.broadcast_shapes(re.shape, im.shape), complex_dtype(re.dtype))
    result.real, result.imag = re, im
    return result


def divide(x: Complexes, y: Complexes) -> Complexes:
    """The quotient: infinite of an infinite or by a zero divisor, zero of a finite one by an infinite."""
    found = np.asarray(np.divide(x, y))
    if np.isfinite(found).all() and np.isfinite(y).all():
        return found
    x, y = np.broadcast_arrays(x, y)
    a, b, c, d = x.real, x.imag, y.real, y.imag
    zero = (y == 0) & ~(np.isnan(a) & np.isnan(b))
    infinity = np.copysign(np.asarray(math.inf, c.dtype), c)
    found = _replaced(found, zero, infinity * a, infinity * b)
    unknown = np.isnan(found.real) & np.isnan(found.imag) & ~zero
    large = unknown & (np.isinf(a) | np.isinf(b)) & np.isfinite(c) & np.isfinite(d)
    p, q = _corner(a), _corner(b)
    found = _replaced(found, large, np.inf * (p * c + q * d), np.inf * (q * c - p * d))
    small = unknown & (np.isinf(c) | np.isinf(d)) & np.isfinite(a) & np.isfinite(b)
    p, q = _corner(c), _corner(d)
    return _replaced(found, small, 0 * (a * p + b * q), 0 * (b * p - a * q))


def square(z: Complexes) -> Complexes:
    """z times z. The real part is made of factors: a difference of squares has no digits left where these are near each
    other, and overflows where they do."""
    x, y = z.real, z.imag
    opposite = np.isfinite(x) & (np.abs(x) == np.abs(y))
    return of_parts(np.where(opposite, x.dtype.type(0), (x - y) * (x + y)), 2 * (x * y))


def _corner(x: Floats) -> Floats:
    """1 for infinity and 0 for anything else, with the sign of x."""
    return np.asarray(np.copysign(np.isinf(x).astype(x.dtype), x))


def _replaced(z: Complexes, where: npt.NDArray[np.bool], re: Floats, im: Floats) -> Complexes:
    return of_parts(*(np.where(where, new, old).astype(old.dtype) for new, old in ((re, z.real), (im, z.imag))))


def _exp(z: Complexes) -> Complexes:
    """NumPy's exponential, but for zeros at an unknown angle: those take the sign of a nan, which XLA doesn't see."""
    unknown = np.isneginf(z.real) & ~np.isfinite(z.imag)
    return _replaced(np.asarray(np.exp(z)), unknown, np.zeros_like(z.real), np.where(z.imag < 0, -0.0, 0.0))


def exp2(z: Complexes) -> Complexes:
    log2 = z.real.dtype.type(math.log(2))
    return _exp(of_parts(z.real * log2, z.imag * log2))


def expm1(z: Complexes) -> Complexes:
    """exp(z) - 1, from the same of the real part. On the real axis, and far on the left, the angle doesn't matter."""
    x, y = z.real, z.imag
    half = np.sin(y * x.dtype.type(0.5))
    re = np.expm1(x) * np.cos(y) + -2 * half * half + 0
    re = np.where(y == 0, np.expm1(x) + 0, re)
    im = np.where(y == 0, y, np.exp(x) * np.sin(y))
    unknown = ~np.isfinite(y)
    re = np.where(np.isneginf(x), -1, np.where(unknown & np.isposinf(x), x, re))
    return of_parts(
        re.astype(x.dtype), np.where(unknown & np.isneginf(x), np.where(y < 0, -0.0, 0.0), im).astype(x.dtype)
    )


def log1p(z: Complexes) -> Complexes:
    """log(1 + z) that keeps its digits near zero, where NumPy's loses them."""
    x, y = z.real, z.imag
    near = (np.abs(x) < 0.5) & (np.abs(y) < 0.5)
    small = np.log1p(np.where(near, x * (2 + x) + y * y, 0)) / 2
    far = np.asarray(np.log(of_parts(1 + x, y)))
    return of_parts(np.where(near, small, far.real), far.imag)


def logistic(z: Complexes) -> Complexes:
    one = z.dtype.type(1)
    return divide(np.asarray(one), one + _exp(np.asarray(-z)))


def tanh(z: Complexes) -> Complexes:
    """NumPy's, but for the sign of the zero at ±infinity: that of the imaginary part, as the array API has it, not that
    of sin(2y), as in C99, which turns with the angle."""
    found = np.asarray(np.tanh(z))
    end = np.isinf(z.real) & np.isfinite(z.imag)
    if not end.any():
        return found
    return _replaced(found, end, found.real, np.copysign(np.zeros_like(z.imag), z.imag))


def tan(z: Complexes) -> Complexes:
    """The hyperbolic tangent of z with its parts exchanged."""
    w = tanh(of_parts(z.imag, z.real))
    return of_parts(w.imag, w.real)


def rsqrt(z: Complexes) -> Complexes:
    return divide(np.asarray(1, z.dtype), np.asarray(np.sqrt(z)))


def power(z: Complexes, w: Complexes) -> Complexes:
    """NumPy's where everything is finite and far from the ends of the dtype, elsewhere exp(w log(z)).

    Zero to a power with a positive real part is zero, anything to the power of zero is one, and to one is itself.
    """
    found = np.asarray(np.power(z, w))
    exponent = np.asarray(w * np.log(z))
    # Whole powers, which NumPy multiplies out, may overflow on the way.
    known = np.isfinite(z) & np.isfinite(w) & (np.abs(exponent.real) < _FAR[z.dtype])
    real = known & (z.imag == 0) & (w.imag == 0) & (z.real > 0)
    if (known & ~real).all():
        return found
    found = np.where(known, found, _exp(exponent))
    found.imag = np.where(real, exponent.imag, found.imag)
    found = np.where(z == 0, np.where(w.real > 0, 0, complex(math.nan, math.nan)), found)
    return np.where(w == 0, 1, np.where(w == 1, z, found)).astype(z.dtype)


def product(x: HostArray, axes: tuple[int, ...]) -> HostArray:
    """The product over axes, in the order of `prefix_scan.combined`."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    factors = x.transpose(*axes, *kept).reshape(-1, *[x.shape[axis] for axis in kept])
    while len(factors) > 1:
        half = len(factors) // 2
        joined = np.multiply(factors[:half], factors[half : 2 * half])
        factors = np.concatenate((joined, factors[2 * half :])) if len(factors) % 2 else joined
    result: HostArray = factors[0]
    return result


def sign(z: Complexes) -> Complexes:
    """The number of magnitude 1 in the same direction. Two infinite parts have none."""
    x, y = z.real, z.imag
    one = x.dtype.type(1)
    larger = np.maximum(np.abs(x), np.abs(y))
    divisor = np.where(larger == 0, one, larger)
    p, q = (np.where(np.isinf(larger), _corner(v), v / divisor) for v in (x, y))
    length = np.where(np.isinf(x) & np.isinf(y), np.nan, np.sqrt(p * p + q * q)).astype(x.dtype)
    return of_parts(*(np.where(larger == 0, 0, v / length).astype(x.dtype) for v in (p, q)))


def atan2(y: Complexes, x: Complexes) -> Complexes:
    """The analytic continuation of the angle of the point (x, y)."""
    turned = of_parts(-y.imag, y.real)
    log = np.log(divide(x + turned, np.asarray(np.sqrt(x * x + y * y))))
    return of_parts(log.imag, -log.real)


def maximum(x: Complexes, y: Complexes) -> Complexes:
    """The larger one by the real, then by the imaginary part. The first one with a nan, if there is any."""
    return _chosen(np.greater, x, y)


def minimum(x: Complexes, y: Complexes) -> Complexes:
    """The smaller one by the real, then by the imaginary part. The first one with a nan, if there is any."""
    return _chosen(np.less, x, y)


def clamp(low: Complexes, x: Complexes, high: Complexes) -> Complexes:
    return minimum(maximum(low, x), high)


def _chosen(better: np.ufunc, x: Complexes, y: Complexes) -> Complexes:
    tied = np.equal(x.real, y.real)
    first = np.where(tied, better(x.imag, y.imag), better(x.real, y.real)) | (x == y)
    return np.asarray(np.where(np.isnan(x) | (first & ~np.isnan(y)), x, y))


def logaddexp(x: Complexes, y: Complexes) -> Complexes:
    """log(exp(x) + exp(y)) with an imaginary part between -π and π, step by step as it is compiled."""
    real = x.real.dtype.type
    larger = maximum(x, y)
    gap = (x - larger) + (y - larger)
    size = np.exp(gap.real)
    angle = np.where(size == 0, 0, gap.imag).astype(size.dtype)
    p, q = size * np.cos(angle), size * np.sin(angle)
    near = p < -0.5
    distance = np.log(np.where(near, (p + 1) * (p + 1) + q * q, real(1)))
    re = np.where(near, distance, np.log1p(np.where(near, real(0), p * (p + 2) + q * q))) * real(0.5)
    both = np.where(np.isnan(gap), x + y, larger + of_parts(re, np.arctan2(q, p + 1)))
    turns = np.round(both.imag * real(1 / (2 * math.pi)))
    return of_parts(both.real, both.imag - turns * real(2 * math.pi))
