"""Special functions of floats: nothing is promoted."""

from __future__ import annotations

from tinyjax.arrays.elementwise import broadcast_shapes, broadcast_to
from tinyjax.lax.binding import operands, strict, strict_pair
from tinyjax.primitives import bessel, incomplete
from tinyjax.primitives import special as primitives
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.core import bind


def bessel_i0e(x: ArrayLike) -> Array:
    """exp(-|x|) times the modified Bessel function of the first kind of order 0.

    >>> bessel_i0e(0.0)
    Array(1., dtype=float64, weak_type=True)
    """
    return strict(bessel.bessel_i0e, x)


def bessel_i1e(x: ArrayLike) -> Array:
    """exp(-|x|) times the modified Bessel function of the first kind of order 1.

    >>> bessel_i1e(1.0)
    Array(0.20791042, dtype=float64, weak_type=True)
    """
    return strict(bessel.bessel_i1e, x)


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """The Hurwitz zeta function: the sum of (q + n) ** -x over n = 0, 1, 2, …

    >>> zeta(2.0, 1.0)
    Array(1.64493407, dtype=float64, weak_type=True)
    """
    return strict_pair(primitives.zeta, x, q)


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function: the part of the gamma distribution of shape a that is below x.

    >>> igamma(1.0, 0.5)
    Array(0.39346934, dtype=float64, weak_type=True)
    """
    return strict_pair(incomplete.igamma, a, x)


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized upper incomplete gamma function: 1 - igamma(a, x), exact where it is small.

    >>> igammac(1.0, 0.5)
    Array(0.60653066, dtype=float64, weak_type=True)
    """
    return strict_pair(incomplete.igammac, a, x)


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of igamma(a, x) in a. It has one more in a, and all in x.

    >>> igamma_grad_a(1.0, 0.5)
    Array(-0.48945758, dtype=float64, weak_type=True)
    """
    return strict_pair(incomplete.igamma_grad_a, a, x)


def random_gamma_grad(a: ArrayLike, x: ArrayLike) -> Array:
    """The derivative in a of x, a sample of the gamma distribution of shape a: how the sample moves with its shape.

    >>> random_gamma_grad(1.0, 0.5)
    Array(0.80697912, dtype=float64, weak_type=True)
    """
    return strict_pair(incomplete.random_gamma_grad, a, x)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function: the part of the beta distribution of shapes a and b that is below x.
    It has a derivative in x only.

    >>> betainc(2.0, 1.0, 0.5)
    Array(0.25, dtype=float64, weak_type=True)
    """
    arrays = operands(a, b, x)
    shapes = [array.aval.shape for array in arrays if array.aval.shape]
    if len({len(shape) for shape in shapes}) == 1 and len(set(shapes)) > 1:
        shape = broadcast_shapes(*shapes)
        arrays = [broadcast_to(array, shape) for array in arrays]
    return bind(incomplete.regularized_incomplete_beta, *arrays)[0]
