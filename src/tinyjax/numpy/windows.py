"""Windows: weights for samples, which fall off towards both ends."""

from __future__ import annotations

import math
from typing import SupportsIndex

from tinyjax.arrays.elementwise import promote_inexact, where
from tinyjax.arrays.growing import grown
from tinyjax.arrays.shaping import integer
from tinyjax.errors import DtypeError, ShapeError
from tinyjax.ir.dtypes import COMPLEXES, FLOAT64
from tinyjax.lax.special import bessel_i0e
from tinyjax.numpy.arithmetic import maximum
from tinyjax.numpy.creation import arange, ones
from tinyjax.numpy.elementwise import cos, sqrt
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def _angles(name: str, M: SupportsIndex) -> Array | None:
    """From 0 to 2π; None if there is no way to go."""
    count = integer(M, f"{name}: M")
    if count < 0:
        raise ShapeError(f"{name}: M is at least 0, got {count}")
    return None if count < 2 else arange(count, dtype=FLOAT64) * (2 * math.pi / (count - 1))


def _cosines(name: str, M: SupportsIndex, *weights: float) -> Array:
    angles = _angles(name, M)
    if angles is None:
        return ones((integer(M, name),))
    out = ones(angles.shape) * weights[0]
    for i, weight in enumerate(weights[1:], 1):
        out = out + weight * cos(i * angles)
    return out


def bartlett(M: SupportsIndex) -> Array:
    """A triangle of M weights, 0 at both ends.

    >>> bartlett(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float64)
    """
    angles = _angles("bartlett", M)
    if angles is None:
        return ones((integer(M, "bartlett"),))
    way = angles / math.pi
    return where(way <= 1, way, 2 - way)


def hanning(M: SupportsIndex) -> Array:
    """M weights of one wave of the cosine, 0 at both ends.

    >>> hanning(3).round(2)
    Array([0., 1., 0.], dtype=float64)
    """
    return _cosines("hanning", M, 0.5, -0.5)


def hamming(M: SupportsIndex) -> Array:
    """M weights of one wave of the cosine, 0.08 at both ends.

    >>> hamming(3).round(2)
    Array([0.08, 1.  , 0.08], dtype=float64)
    """
    return _cosines("hamming", M, 0.54, -0.46)


def blackman(M: SupportsIndex) -> Array:
    """M weights of two waves of cosines, 0 at both ends.

    >>> blackman(5).round(2)
    Array([-0.  ,  0.34,  1.  ,  0.34, -0.  ], dtype=float64)
    """
    return _cosines("blackman", M, 0.42, -0.5, 0.08)


def kaiser(M: SupportsIndex, beta: ArrayLike) -> Array:
    """M weights of a Bessel function, the narrower the larger beta is.

    >>> kaiser(3, 2.0).round(2)
    Array([0.44, 1.  , 0.44], dtype=float64)
    """
    angles = _angles("kaiser", M)
    if angles is None:
        return ones((integer(M, "kaiser"),))
    width = as_array(beta)
    if width.shape:
        raise ShapeError(f"kaiser: beta is one number, got {width.aval}")
    return i0(width * sqrt(maximum(1 - (angles / math.pi - 1) ** 2, 0))) / i0(width)


@prepared
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind, of order 0.

    >>> import numpy as np
    >>> i0(np.float64(0))
    Array(1., dtype=float64)
    """
    (found,) = promote_inexact(as_array(x))
    if found.dtype in COMPLEXES:
        raise DtypeError(f"i0 does not accept complex operands, got {found.aval}")
    return grown(found, bessel_i0e)
