"""Sine and cosine integrals, the dilogarithm, Owen's function, and the logarithm of the gamma function in the plane."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.rules.custom_jvp import custom_jvp
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.ir.dtypes import COMPLEXES, FLOAT64
from tinyjax.numpy.signatures import Nested
from tinyjax.prepared.functions import prepared, prepared_with_loops
from tinyjax.scipy.special.errors import ndtr
from tinyjax.scipy.special.promoted import floats, prepared_for_numbers, strong_floats
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

_EULER = 0.5772156649015329


def sici(x: ArrayLike) -> tuple[Array, Array]:
    """The sine integral, of sin(t) / t from 0 to x, and the cosine integral, of -cos(t) / t from x to infinity; for
    negative x its real part.

    >>> sici(1.0)
    (Array(0.94608307, dtype=float64), Array(0.33740392, dtype=float64))
    """
    (found,) = floats("sici", x)
    return _sine_and_cosine(found)


@prepared_with_loops
def _sine_and_cosine(x: Array) -> tuple[Array, Array]:
    return _sine_integral(x), _cosine_integral(x)


def _exponential_integral(size: Array) -> tuple[Array, Array]:
    """Both parts of E1(ix), by a continued fraction of as many levels as x >= 4 needs."""
    levels = 60 if size.aval.dtype == FLOAT64 else 25

    def level(i: Array, parts: tuple[Array, Array]) -> tuple[Array, Array]:
        a, b = parts
        n = levels - i.astype(size.dtype)
        share = n * n / (a * a + b * b)
        return 2 * n - 1 - share * a, size + share * b

    a, b = lax.fori_loop(0, levels, level, (lax.full_like(size, 2 * levels + 1), size))
    slope = a / b
    below = b * (1 + slope * slope)
    cosine, sine = lax.cos(size), lax.sin(size)
    return (cosine * slope - sine) / below, -(sine * slope + cosine) / below


def _far(x: Array) -> tuple[Array, Array]:
    size = lax.abs(x)
    return _exponential_integral(tnp.where(size < 4, 4, tnp.where(size == math.inf, 4, size)))


@custom_jvp
def _sine_integral(x: Array) -> Array:
    near = lax.abs(x) < 4
    square, total = tnp.where(near, x * x, 0), lax.full_like(x, 0)
    for n in range(33, 0, -2):
        total = 1 / n - square / ((n + 1) * (n + 2)) * total
    value = tnp.where(tnp.abs(x) == math.inf, math.pi / 2, math.pi / 2 + _far(x)[1])
    return tnp.where(near, x * total, tnp.copysign(value, x))


@custom_jvp
def _cosine_integral(x: Array) -> Array:
    near = lax.abs(x) < 4
    square, total = tnp.where(near, x * x, 0), lax.full_like(x, 0)
    for n in range(34, 0, -2):
        total = -square / (n * (n - 1)) * (1 / n + total)
    series = _EULER + lax.log(tnp.where(near, lax.abs(x), 1)) + total
    value = tnp.where(x == math.inf, 0, tnp.where(x == -math.inf, math.nan, -_far(x)[0]))
    return tnp.where(near, series, value)


def _sine_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    return _sine_integral(x), t * tnp.sinc(x / math.pi)


def _cosine_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    return _cosine_integral(x), t * lax.cos(x) / x


_sine_integral.defjvp(_sine_jvp)
_cosine_integral.defjvp(_cosine_jvp)


@functools.cache
def _bernoulli(count: int) -> tuple[float, ...]:
    """B2 / 3!, B4 / 5!, …"""
    numbers = [Fraction(1)]
    for n in range(1, 2 * count + 1):
        numbers.append(-sum((math.comb(n + 1, k) * numbers[k] for k in range(n)), Fraction(0)) / (n + 1))
    return tuple(float(numbers[2 * k] / math.factorial(2 * k + 1)) for k in range(1, count + 1))


@prepared
def spence(x: Nested) -> Array:
    """Spence's function: the integral of log(t) / (1 - t) from 1 to x; nan for negative x.

    >>> spence(np.array([0.0, 1.0, 2.0]))
    Array([ 1.64493407, -0.        , -0.82246703], dtype=float64)
    """
    return _spence(*strong_floats("spence", tnp.asarray(x)))


@custom_jvp
def _spence(x: Array) -> Array:
    large = x > 2
    inverse = tnp.where(large, 1 / tnp.where(large, x, 1), x)
    low = inverse < 0.5
    middle = tnp.where(low, 1 - inverse, inverse)
    u = -lax.log(middle)
    total = lax.full_like(x, 0)
    for coefficient in reversed(_bernoulli(12)):
        total = (total + coefficient) * (u * u)
    near = u * (1 - u / 4 + total)
    logarithm = lax.log(tnp.where(inverse > 0, inverse, 1))
    turned = tnp.where(low, math.pi**2 / 6 + logarithm * u - near, near)
    found = tnp.where(large, -(lax.log(tnp.where(large, x, 1)) ** 2) / 2 - turned, turned)
    return tnp.where((x >= 0) & (x < math.inf), found, math.nan)


def _spence_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    one = x == 1
    return _spence(x), t * tnp.where(one, -1, lax.log(x) / tnp.where(one, 1, 1 - x))


_spence.defjvp(_spence_jvp)


@prepared_for_numbers
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's function: the probability that one normal number is larger than h, and another one between 0 and a times
    the first.

    >>> owens_t(1.0, 2.0)
    Array(0.07846819, dtype=float64)
    """
    return _owens_t(*strong_floats("owens_t", h, a))


@custom_jvp
def _owens_t(h: Array, a: Array) -> Array:
    size, slope = lax.abs(h), lax.abs(a)
    steep = slope > 1
    product = tnp.where((size == 0) | (slope == 0), 0, size * slope)
    inside = _owens_part(tnp.where(steep, product, size), tnp.where(steep, 1 / tnp.where(steep, slope, 1), slope))
    first, second = ndtr(-size), ndtr(-product)
    value = tnp.where(steep, (first + second) / 2 - first * second - inside, inside)
    value = tnp.where(a < 0, -value, value)
    return tnp.where(tnp.isnan(h) | tnp.isnan(a), math.nan, value)


def _owens_part(h: Array, a: Array) -> Array:
    """By Gauss and Legendre's rule, up to where nothing is added."""
    end = tnp.minimum(a, 9 / tnp.maximum(h, 1))
    points, weights = np.polynomial.legendre.leggauss(40)
    total = lax.full_like(h, 0)
    half = tnp.where(tnp.isfinite(h), h, 1e3)
    for point, weight in zip(points.tolist(), weights.tolist(), strict=True):
        square = 1 + (end * (0.5 + point / 2)) ** 2
        total = total + weight * lax.exp(-half * half * square / 2) / square
    return total * end / (4 * math.pi)


def _owens_t_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (h, a), (th, ta) = primals, tangents
    by_h = -lax.exp(-h * h / 2) * lax.erf(a * h / math.sqrt(2)) / (2 * math.sqrt(2 * math.pi))
    square = 1 + a * a
    return _owens_t(h, a), th * by_h + ta * lax.exp(-h * h * square / 2) / (2 * math.pi * square)


_owens_t.defjvp(_owens_t_jvp)


@prepared_for_numbers
def loggamma(x: ArrayLike) -> Array:
    """The logarithm of the gamma function: for complex numbers the branch that is continuous but on the negative real
    axis; for real ones nan where they are negative.

    >>> loggamma(np.array([0.5, 1.0 + 2.0j]))
    Array([ 0.57236494+0.j        , -1.87607879+0.12964632j], dtype=complex128)
    """
    (found,) = promote_inexact(as_array(x))
    if found.dtype not in COMPLEXES:
        return tnp.where(found < 0, math.nan, lax.lgamma(found))
    real, imag = tnp.real(found), tnp.imag(found)
    turned = (real < -6) & (tnp.abs(imag) <= 7)
    z = tnp.where(turned, 1 - found, found)
    value = _shifted(z)
    inner = tnp.where(turned, found, 0.5)
    winding = tnp.copysign(2 * math.pi, imag) * tnp.floor(0.5 * real + 0.25)
    mirrored = math.log(math.pi) + 1j * winding - lax.log(lax.sin(math.pi * inner)) - value
    return tnp.where((real == math.inf) & (imag == 0), found, tnp.where(turned, mirrored, value))


def _shifted(z: Array) -> Array:
    """Stirling's series, 16 to the right, less the logarithms of what is between."""
    between = lax.full_like(z, 0)
    for n in range(16):
        between = between + lax.log(z + n)
    far = z + 16
    inverse = 1 / far
    series = lax.full_like(z, 0)
    for coefficient in (
        43867 / 244188,
        -3617 / 122400,
        1 / 156,
        -691 / 360360,
        1 / 1188,
        -1 / 1680,
        1 / 1260,
        -1 / 360,
    ):
        series = (series + coefficient) * inverse * inverse
    return (far - 0.5) * lax.log(far) - far + math.log(2 * math.pi) / 2 + (series + 1 / 12) * inverse - between
