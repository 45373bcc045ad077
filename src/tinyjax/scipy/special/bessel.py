"""Modified Bessel functions of the first kind."""

from __future__ import annotations

from tinyjax import lax
from tinyjax.arrays.growing import grown
from tinyjax.primitives import bessel
from tinyjax.scipy.special.promoted import applied, floats, prepared_for_numbers
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def i0e(x: ArrayLike) -> Array:
    """exp(-|x|) times the modified Bessel function of order 0.

    >>> i0e(1.0)
    Array(0.46575961, dtype=float64, weak_type=True)
    """
    return applied("i0e", bessel.bessel_i0e, x)


@prepared_for_numbers
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0.

    >>> i0(1.0)
    Array(1.26606588, dtype=float64, weak_type=True)
    """
    (found,) = floats("i0", x)
    return grown(found, lax.bessel_i0e)


@prepared_for_numbers
def i1e(x: ArrayLike) -> Array:
    """exp(-|x|) times the modified Bessel function of order 1.

    >>> i1e(1.0)
    Array(0.20791042, dtype=float64, weak_type=True)
    """
    return applied("i1e", bessel.bessel_i1e, x)


@prepared_for_numbers
def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1.

    >>> i1(1.0)
    Array(0.5651591, dtype=float64, weak_type=True)
    """
    (found,) = floats("i1", x)
    return grown(found, lax.bessel_i1e)
