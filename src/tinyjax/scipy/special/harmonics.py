"""Bessel functions of whole orders, and spherical harmonics."""

from __future__ import annotations

import math
from typing import SupportsIndex

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.arrays.shaping import integer
from tinyjax.errors import ShapeError, TypingError, UnsupportedError
from tinyjax.ir.dtypes import COMPLEX64, COMPLEX128, FLOAT64, INTEGERS
from tinyjax.prepared.functions import prepared_with_loops
from tinyjax.scipy.special.promoted import floats
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def bessel_jn(z: ArrayLike, *, v: SupportsIndex, n_iter: SupportsIndex = 50) -> Array:
    """The Bessel functions of the first kind of the orders from 0 to v, along a new first axis; by `n_iter` steps down,
    which is enough for numbers up to about half as large.

    >>> import numpy as np
    >>> bessel_jn(np.array([0.0, 1.0]), v=1)
    Array([[1.        , 0.76519769],
           [0.        , 0.44005059]], dtype=float64)
    """
    (found,), order = floats("bessel_jn", z), integer(v, "bessel_jn: the order v")
    steps = integer(n_iter, "bessel_jn: n_iter")
    if order < 0:
        raise ShapeError(f"bessel_jn: the order v is at least 0, got {order}")
    return _by_steps_down(found, order, max(steps, order + 1))


@prepared_with_loops
def _by_steps_down(z: Array, order: int, steps: int) -> Array:
    zero, one = lax.full_like(z, 0), lax.full_like(z, 1)
    places = np.arange(1, steps + 1, dtype=z.aval.dtype)

    def down(quotient: Array, k: Array) -> tuple[Array, Array]:
        found = z / (2 * k - z * quotient)
        return found, found

    def up(carry: tuple[Array, Array], along: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        (value, total), (quotient, even) = carry, along
        value = value * quotient
        return (value, total + even * value), value

    # The quotients of orders 1 and 0, 2 and 1, …
    _, rising = lax.scan(down, zero, places, reverse=True)
    (_, total), values = lax.scan(up, (one, one), (rising, 2 * (places % 2 == 0).astype(z.aval.dtype)))
    return tnp.concatenate([one[None], values[:order]]) / total


def sph_harm_y(
    n: ArrayLike,
    m: ArrayLike,
    theta: ArrayLike,
    phi: ArrayLike,
    diff_n: None = None,
    n_max: SupportsIndex | None = None,
) -> Array:
    """The spherical harmonics of degree n and order m, at colatitude theta and longitude phi: complex numbers.

    `n_max` is the largest degree, and must be given where n has no values yet, as in jitted functions.

    Raises:
      TypingError: n or m are no integers.
      UnsupportedError: `diff_n` is given; differentiate the function instead.

    >>> sph_harm_y(1, 0, 0.5, 0.0)
    Array(0.42878904+0.j, dtype=complex128)
    """
    if diff_n is not None:
        raise UnsupportedError("sph_harm_y: diff_n isn't supported; differentiate the function with jvp or grad")
    degree, order = as_array(n), as_array(m)
    if not {degree.dtype, order.dtype} <= INTEGERS:
        raise TypingError(f"sph_harm_y: n and m are integers, got {degree.aval} and {order.aval}")
    largest = integer(tnp.max(degree) if n_max is None else n_max, "sph_harm_y: n_max")
    polar, azimuth = promote_inexact(as_array(theta), as_array(phi))
    last, which, polar, azimuth = tnp.broadcast_arrays(degree, order, polar, azimuth)
    level, size = tnp.astype(last, polar.dtype), tnp.astype(tnp.abs(which), polar.dtype)
    cosine, sine = lax.cos(polar), lax.sin(polar)
    sine = tnp.where(sine < 0, -sine, sine)
    first = lax.full_like(polar, math.sqrt(1 / (4 * math.pi)))
    for k in range(1, largest + 1):
        first = tnp.where(k <= size, -first * sine * math.sqrt((2 * k + 1) / (2 * k)), first)
    before, found = lax.full_like(polar, 0), first
    for k in range(1, largest + 1):
        climbs = (k > size) & (k <= level)
        below = tnp.where(climbs, k * k - size * size, 1)
        factor = tnp.sqrt((4 * k * k - 1) / below)
        share = ((k - 1) ** 2 - size * size) / (4 * (k - 1) ** 2 - 1)
        rest = tnp.sqrt(tnp.where(climbs & (share > 0), share, 1)) * tnp.where(share > 0, before, 0)
        before, found = tnp.where(climbs, found, before), tnp.where(climbs, factor * (cosine * found - rest), found)
    found = tnp.where(size > level, 0, found)
    sign = tnp.where((which < 0) & (tnp.abs(which) % 2 == 1), -1, 1)
    angle = tnp.astype(which, polar.dtype) * azimuth
    value = lax.complex(lax.cos(angle), lax.sin(angle)) * (found * sign)
    return tnp.astype(value, COMPLEX128 if polar.dtype == FLOAT64 else COMPLEX64)
