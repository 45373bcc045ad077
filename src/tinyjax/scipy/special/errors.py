"""Error functions, and the distribution function of the normal distribution."""

from __future__ import annotations

import functools
import math
from typing import Final, SupportsIndex, TypeAlias

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.rules.custom_jvp import custom_jvp
from tinyjax.arrays.shaping import integer
from tinyjax.errors import ChoiceError
from tinyjax.ir.dtypes import FLOAT64
from tinyjax.numpy.signatures import Nested
from tinyjax.prepared.functions import prepared
from tinyjax.primitives import special as primitives
from tinyjax.scipy.special.promoted import applied, prepared_for_numbers, strong_floats
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def erf(x: ArrayLike) -> Array:
    """The error function.

    >>> erf(0.5)
    Array(0.52049988, dtype=float64, weak_type=True)
    """
    return applied("erf", primitives.erf, x)


@prepared_for_numbers
def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), exact where it is small.

    >>> erfc(0.5)
    Array(0.47950012, dtype=float64, weak_type=True)
    """
    return applied("erfc", primitives.erfc, x)


@prepared_for_numbers
def erfinv(x: ArrayLike) -> Array:
    """The inverse of the error function.

    >>> erfinv(0.5)
    Array(0.47693628, dtype=float64, weak_type=True)
    """
    return applied("erfinv", primitives.erf_inv, x)


@prepared
def ndtr(x: Nested) -> Array:
    """The distribution function of the normal distribution: the part of it that is below x.

    >>> import numpy as np
    >>> ndtr(np.array([0.0, 1.0, -10.0]))
    Array([5.00000000e-01, 8.41344746e-01, 7.61985302e-24], dtype=float64)
    """
    (found,) = strong_floats("ndtr", tnp.asarray(x))
    return lax.erfc(found * -math.sqrt(0.5)) * 0.5


@prepared
def log_ndtr(x: Nested, series_order: SupportsIndex = 3) -> Array:
    """The logarithm of `ndtr`, also where that is too small a number. There it is as exact as the dtype, whatever the
    `series_order` from 0 to 30.

    Raises:
      ChoiceError: `series_order` is something else.

    >>> import numpy as np
    >>> log_ndtr(np.array([0.0, 10.0, -100.0]))
    Array([-6.93147181e-01, -7.61985302e-24, -5.00552421e+03], dtype=float64)
    """
    if integer(series_order, "log_ndtr: series_order") not in range(31):
        raise ChoiceError(f"log_ndtr: series_order must be non-negative and <= 30, got {series_order!r}")
    (found,) = strong_floats("log_ndtr", tnp.asarray(x))
    return _log_ndtr(found)


@custom_jvp
def _log_ndtr(x: Array) -> Array:
    wide = x.aval.dtype == FLOAT64
    tail, terms = (-20.0, 8) if wide else (-10.0, 5)
    one = lax.full_like(x, 1)
    # Each way is given numbers that it can do with, so that none overflows where it isn't taken.
    far = tnp.where(x < tail, x, tail * one)
    inverse = 1 / lax.square(far)
    series, term = one, one
    for n in range(1, terms + 1):
        term = term * inverse * -(2.0 * n - 1)
        series = series + term
    below = lax.log(series) - lax.square(far) / 2 - lax.log(-far) - 0.5 * math.log(2 * math.pi)
    # What is above is less than 0.28: of -0.35 to -0.41, XLA's log1p for CPUs has 14 digits.
    above = x > 0.6
    near = tnp.where(x < tail, tail * one, tnp.where(above, -x, x))
    part = ndtr(near)
    found = tnp.where(above, lax.log1p(-part), lax.log(part))
    return tnp.where(x < tail, below, found)


def _log_ndtr_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    value = _log_ndtr(x)
    slope = lax.exp(lax.square(x) * -0.5 - value) * (1 / math.sqrt(2 * math.pi))
    return value, t * slope


_log_ndtr.defjvp(_log_ndtr_jvp)


@prepared_for_numbers
def ndtri(p: ArrayLike) -> Array:
    """The inverse of `ndtr`: the number below which a part p of the normal distribution is.

    >>> import numpy as np
    >>> ndtri(np.array([0.5, 0.975, 1e-20]))
    Array([ 0.        ,  1.95996398, -9.26234009], dtype=float64)
    """
    (found,) = strong_floats("ndtri", p)
    return _ndtri(found)


#: Coefficients of quotients of polynomials, from the highest power on: near 1/2, of parts down to exp(-25), and below.
_Row: TypeAlias = tuple[float, ...]
_MIDDLE: Final[tuple[_Row, _Row]] = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.3871328727963666080),
    (5226.495278852854561, 28729.085735721942674, 39307.895800092710610, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)  # fmt: skip
_SMALL: Final[tuple[_Row, _Row]] = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
     3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1.0),
)  # fmt: skip
_SMALLEST: Final[tuple[_Row, _Row]] = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
)  # fmt: skip


def _quotient(x: Array, polynomials: tuple[_Row, _Row]) -> Array:
    above, below = (functools.reduce(lambda total, c: total * x + c, row, lax.full_like(x, 0)) for row in polynomials)
    return above / below


@custom_jvp
def _ndtri(p: Array) -> Array:
    """By Wichura's approximations (AS 241), as exact as doubles are."""
    offset = p - 0.5
    central = lax.abs(offset) <= 0.425
    part = tnp.where(offset > 0, 1 - p, p)
    root = lax.sqrt(-lax.log(tnp.where(central, 0.25, part)))
    tail = tnp.where(root <= 5, _quotient(root - 1.6, _SMALL), _quotient(tnp.where(root > 28, 28, root) - 5, _SMALLEST))
    tail = tnp.where(part == 0, math.inf, tail)
    near = offset * _quotient(0.180625 - tnp.where(central, offset, 0) ** 2, _MIDDLE)
    return tnp.where(central, near, tnp.where(offset < 0, -tail, tail))


def _ndtri_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (p,), (t,) = primals, tangents
    x = _ndtri(p)
    return x, t * lax.exp(lax.square(x) * 0.5) * math.sqrt(2 * math.pi)


_ndtri.defjvp(_ndtri_jvp)
