"""Error functions, and the distribution function of the normal distribution."""

from __future__ import annotations

import math
from typing import SupportsIndex

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.rules.custom_jvp import custom_jvp
from tinyjax.arrays.shaping import integer
from tinyjax.errors import ChoiceError
from tinyjax.ir.dtypes import FLOAT64
from tinyjax.primitives import special as primitives
from tinyjax.scipy.special.promoted import applied, floats
from tinyjax.tracing.array import Array, ArrayLike


def erf(x: ArrayLike) -> Array:
    """The error function.

    >>> erf(0.5)
    Array(0.52049988, dtype=float64, weak_type=True)
    """
    return applied("erf", primitives.erf, x)


def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), exact where it is small.

    >>> erfc(0.5)
    Array(0.47950012, dtype=float64, weak_type=True)
    """
    return applied("erfc", primitives.erfc, x)


def erfinv(x: ArrayLike) -> Array:
    """The inverse of the error function.

    >>> erfinv(0.5)
    Array(0.47693628, dtype=float64, weak_type=True)
    """
    return applied("erfinv", primitives.erf_inv, x)


def ndtr(x: ArrayLike) -> Array:
    """The distribution function of the normal distribution: the part of it that is below x.

    >>> import numpy as np
    >>> ndtr(np.array([0.0, 1.0, -10.0]))
    Array([5.00000000e-01, 8.41344746e-01, 7.61985302e-24], dtype=float64)
    """
    (found,) = floats("ndtr", x)
    return lax.erfc(found * -math.sqrt(0.5)) * 0.5


def log_ndtr(x: ArrayLike, series_order: SupportsIndex = 3) -> Array:
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
    (found,) = floats("log_ndtr", x)
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
    near = tnp.where(x < tail, tail * one, tnp.where(x > 0, -x, x))
    smaller = ndtr(near)
    found = tnp.where(x > 0, lax.log1p(-smaller), lax.log(smaller))
    return tnp.where(x < tail, below, found)


def _log_ndtr_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    value = _log_ndtr(x)
    slope = lax.exp(lax.square(x) * -0.5 - value) * (1 / math.sqrt(2 * math.pi))
    return value, t * slope


_log_ndtr.defjvp(_log_ndtr_jvp)


def ndtri(p: ArrayLike) -> Array:
    """The inverse of `ndtr`: the number below which a part p of the normal distribution is.

    >>> import numpy as np
    >>> ndtri(np.array([0.5, 0.975, 1e-20]))
    Array([ 0.        ,  1.95996398, -9.26234009], dtype=float64)
    """
    (found,) = floats("ndtri", p)
    return _ndtri(found)


@custom_jvp
def _ndtri(p: Array) -> Array:
    """In the middle by the inverse of the error function; of small parts by Newton's method for the logarithm."""
    one = lax.full_like(p, 1)
    part = tnp.where(p > 0.5, 1 - p, p)
    small = (part > 0) & (part < 0.1)
    logarithm = lax.log(tnp.where(small, part, one * 0.05))
    x = -lax.sqrt(-2.0 * logarithm)
    for _ in range(6):
        value = _log_ndtr(x)
        slope = lax.exp(lax.square(x) * -0.5 - value) * (1 / math.sqrt(2 * math.pi))
        x = x - (value - logarithm) / slope
    middle = lax.erf_inv(2 * tnp.where(small, one * 0.5, part) - 1) * math.sqrt(2)
    lower = tnp.where(small, x, middle)
    return tnp.where(p > 0.5, -lower, lower)


def _ndtri_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (p,), (t,) = primals, tangents
    x = _ndtri(p)
    return x, t * lax.exp(lax.square(x) * 0.5) * math.sqrt(2 * math.pi)


_ndtri.defjvp(_ndtri_jvp)
