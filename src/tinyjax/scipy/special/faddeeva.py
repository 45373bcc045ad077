"""The Faddeeva function, and what is made of it: scaled error functions, Dawson's and Fresnel's integrals."""

from __future__ import annotations

import functools
import math

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.rules.custom_jvp import custom_jvp
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.ir.dtypes import COMPLEX64, COMPLEX128, COMPLEXES, FLOAT32, FLOAT64
from tinyjax.scipy.special.promoted import floats, prepared_for_numbers
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def _terms(x: Array) -> tuple[int, float]:
    """How many terms numbers as exact as x need, and the width of the expansion that has so many."""
    count = 40 if x.aval.dtype in {FLOAT64, COMPLEX128} else 24
    return count, math.sqrt(count / math.sqrt(2))


@functools.cache
def _coefficients(terms: int, width: float) -> tuple[float, ...]:
    """Of Weideman's expansion in powers of (width + iz) / (width - iz), from the highest on: a Fourier transform."""
    count = 4 * terms
    at = width * np.tan(np.arange(1 - count // 2, count // 2) * np.pi / count)
    values = np.concatenate([[0.0], np.exp(-(at**2)) * (width**2 + at**2)])
    found = np.fft.fft(np.fft.fftshift(values)).real / count
    return tuple(found[terms:0:-1].tolist())


def _upper(z: Array) -> Array:
    """exp(-z²) erfc(-iz) where the imaginary part of z isn't negative."""
    rotated, width = _turned(z), _terms(z)[1]
    below = 1 / (width - rotated)
    return _expansion((width + rotated) * below, below)


def _expansion(quotient: Array, below: Array) -> Array:
    total = lax.full_like(quotient, 0)
    for coefficient in _coefficients(*_terms(quotient)):
        total = total * quotient + coefficient
    return (2 * total * below + 1 / math.sqrt(math.pi)) * below


def _widened(x: Array) -> Array:
    """Half precision in single."""
    return x if x.dtype in {FLOAT32, FLOAT64} else tnp.astype(x, FLOAT32)


def _turned(z: Array) -> Array:
    """1j times z, which is no nan at infinity."""
    return lax.complex(-z.imag, z.real)


@prepared_for_numbers
def wofz(z: ArrayLike) -> Array:
    """The Faddeeva function exp(-z²) erfc(-iz), a complex number.

    >>> wofz(1.0)
    Array(0.36787944+0.60715771j, dtype=complex128)
    """
    (found,) = promote_inexact(as_array(z))
    if found.dtype not in COMPLEXES:
        found = tnp.astype(found, COMPLEX128 if found.dtype == FLOAT64 else COMPLEX64)
    return _wofz(found)


@custom_jvp
def _wofz(z: Array) -> Array:
    lower = tnp.imag(z) < 0
    infinite = tnp.isinf(tnp.real(z)) | tnp.isinf(tnp.imag(z))
    above = tnp.where(infinite, 0, _upper(tnp.where(lower, -z, z)))
    below = tnp.where(lower, z, 0)
    x, y = below.real, below.imag
    square = lax.complex((y - x) * (y + x), tnp.where(x == 0, 0, -2 * x * y))  # -z², on the axis without nan
    half = lax.exp(square)
    return tnp.where(lower, half + half - above, above)  # 2 * half has nan where it is infinite


def _wofz_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (z,), (t,) = primals, tangents
    found = _wofz(z)
    return found, t * (2j / math.sqrt(math.pi) - 2 * z * found)


_wofz.defjvp(_wofz_jvp)


@prepared_for_numbers
def erfcx(x: ArrayLike) -> Array:
    """exp(x²) erfc(x), which doesn't underflow, of complex numbers too.

    >>> erfcx(np.array([0.0, 1.0, 1000.0]))
    Array([1.00000000e+00, 4.27583576e-01, 5.64189301e-04], dtype=float64)
    """
    given = as_array(x)
    if given.dtype in COMPLEXES:
        return wofz(_turned(given))
    (found,) = floats("erfcx", given)
    return tnp.astype(_erfcx(_widened(found)), found.dtype)


@custom_jvp
def _erfcx(x: Array) -> Array:
    size = lax.abs(x)
    far = size > 1e8  # of which the double may be infinite
    near = tnp.where(far, 1, size)
    below = 1 / (_terms(near)[1] + near)
    above = _expansion(1 - 2 * near * below, below)
    above = tnp.where(far, 1 / math.sqrt(math.pi) / size, above)
    return tnp.where(x < 0, 2 * lax.exp(x * x) - above, above)


def _erfcx_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    found = _erfcx(x)
    return found, t * (2 * (x * found) - 2 / math.sqrt(math.pi))


_erfcx.defjvp(_erfcx_jvp)


@prepared_for_numbers
def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral: exp(-x²) times the integral of exp(t²) from 0 to x.

    >>> dawsn(np.array([0.0, 1.0, 1000.0]))
    Array([0.00000000e+00, 5.38079507e-01, 5.00000250e-04], dtype=float64)
    """
    (found,) = floats("dawsn", x)
    return tnp.astype(_dawsn(_widened(found)), found.dtype)


@custom_jvp
def _dawsn(x: Array) -> Array:
    wide = lax.complex(x, lax.full_like(x, 0))
    value = tnp.imag(_upper(wide)) * (math.sqrt(math.pi) / 2)
    near = lax.abs(x) < 0.25
    square = tnp.where(near, x * x, 0)
    series = lax.full_like(x, 1)
    for n in range(10, 0, -1):
        series = 1 - 2 * square / (2 * n + 1) * series
    far = lax.abs(x) > 1e8
    large = tnp.where(far, x, 1)
    return tnp.where(near, x * series, tnp.where(far, 0.5 / large, value))


def _dawsn_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    found = _dawsn(x)
    return found, t * (1 - 2 * (x * found))


_dawsn.defjvp(_dawsn_jvp)


@prepared_for_numbers
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Fresnel's integrals from 0 to x: of sin(πt² / 2) and of cos(πt² / 2).

    >>> fresnel(1.0)
    (Array(0.43825915, dtype=float64), Array(0.7798934, dtype=float64))
    """
    (found,) = floats("fresnel", x)
    wide = _widened(found)
    return tnp.astype(_fresnel_sine(wide), found.dtype), tnp.astype(_fresnel_cosine(wide), found.dtype)


def _phase(x: Array) -> Array:
    """πx² / 2, less a multiple of 2π: squares of large numbers have few digits."""
    size = lax.abs(x)
    whole = lax.round(size / 2) * 2
    rest = size - whole
    turns = tnp.remainder(whole * rest, 2) + rest * rest / 2  # whole² / 2 is even
    return math.pi * turns


def _fresnel(x: Array) -> Array:
    """Both, as the parts of a complex number."""
    size = lax.abs(x)
    place = math.sqrt(math.pi) / 2 * size
    phase = _phase(x)
    turned = lax.complex(lax.cos(phase), lax.sin(phase)) * _upper(lax.complex(place, place))
    return (0.5 + 0.5j) * (1 - tnp.where(size > 1e15, 0, turned))


def _fresnel_series(x: Array, first: int) -> Array:
    """The power series, of which every second term is of one of the integrals: from `first` on."""
    near = lax.abs(x) < 1
    half = tnp.where(near, math.pi / 2 * x * x, 0)
    total = lax.full_like(x, 0)
    for n in range(first + 16, first - 1, -2):
        total = lax.full_like(x, 1 / (2 * n + 1)) - half * half / ((n + 1) * (n + 2)) * total
    return tnp.where(near, x, 0) * (half if first else 1) * total


@custom_jvp
def _fresnel_sine(x: Array) -> Array:
    value = tnp.copysign(tnp.imag(_fresnel(x)), x)
    return tnp.where(lax.abs(x) < 1, _fresnel_series(x, 1), value)


@custom_jvp
def _fresnel_cosine(x: Array) -> Array:
    value = tnp.copysign(tnp.real(_fresnel(x)), x)
    return tnp.where(lax.abs(x) < 1, _fresnel_series(x, 0), value)


def _sine_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    return _fresnel_sine(x), t * lax.sin(_phase(x))


def _cosine_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    return _fresnel_cosine(x), t * lax.cos(_phase(x))


_fresnel_sine.defjvp(_sine_jvp)
_fresnel_cosine.defjvp(_cosine_jvp)
