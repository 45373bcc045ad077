"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np

from tinyjax.arrays.elementwise import astype, broadcast_to, promote, promote_inexact
from tinyjax.arrays.shaping import integer, ravel
from tinyjax.errors import ShapeError
from tinyjax.ir.dtypes import BOOL, FLOAT64, INEXACT, INT64, WIDE
from tinyjax.lax.scanning import scan
from tinyjax.numpy.arguments import with_axes
from tinyjax.numpy.arithmetic import maximum
from tinyjax.numpy.creation import arange, asarray, ones, zeros
from tinyjax.numpy.editing import trim_zeros
from tinyjax.numpy.joining import concatenate
from tinyjax.numpy.linalg import eigvals
from tinyjax.numpy.sequences import convolve
from tinyjax.numpy.signatures import Nested
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array


def _vector(name: str, p: Nested, bools: bool = False) -> Array:
    x = with_axes(asarray(p), 1) if bools else _coefficients(p)
    if x.ndim > 1:
        raise ShapeError(f"{name} takes vectors of coefficients, got {x.aval}")
    return x


def _coefficients(p: Nested) -> Array:
    x = with_axes(asarray(p), 1)
    return astype(x, INT64) if x.dtype == BOOL else x


@prepared
def polyval(p: Nested, x: Nested, *, unroll: int = 16) -> Array:
    """The value of a polynomial at each x, by Horner's rule. `unroll`: steps of a loop that are done at once.

    >>> polyval(np.array([1, 0, 2]), 3)
    Array(11, dtype=int64)
    """
    coefficients, at = promote(asarray(p), asarray(x))
    if coefficients.ndim < 1:
        raise ShapeError(f"polyval takes a vector of coefficients, got {coefficients.aval}")
    coefficients, at = astype(coefficients, coefficients.dtype), astype(at, at.dtype)
    shape = np.broadcast_shapes(coefficients.shape[1:], at.shape)
    start = zeros(shape, at.dtype)
    if coefficients.shape[0] <= max(integer(unroll, "polyval: unroll"), 1):
        for i in range(coefficients.shape[0]):
            start = start * at + coefficients[i]
        return start
    return scan(lambda y, c: (y * at + c, None), start, coefficients, unroll=unroll)[0]


@prepared
def polyadd(a1: Nested, a2: Nested) -> Array:
    """The sum of two polynomials.

    >>> polyadd(np.array([1, 2]), np.array([3]))
    Array([1, 5], dtype=int64)
    """
    x, y = _aligned(a1, a2)
    return x + y


@prepared
def polysub(a1: Nested, a2: Nested) -> Array:
    """The difference of two polynomials.

    >>> polysub(np.array([1, 2]), np.array([3]))
    Array([ 1, -1], dtype=int64)
    """
    x, y = _aligned(a1, a2)
    return x - y


def _aligned(a1: Nested, a2: Nested) -> tuple[Array, Array]:
    """Both with as many coefficients, which are along the first axis; those of the shorter one are broadcast."""
    x, y = promote(_coefficients(a1), _coefficients(a2))
    return _longer(x, y), _longer(y, x)


def _longer(x: Array, other: Array) -> Array:
    rest, more = other.shape[1:], len(other) - len(x)
    if more <= 0:
        return x
    return concatenate([zeros((more, *rest), x.dtype), broadcast_to(x, (len(x), *rest))])


@prepared
def polymul(a1: Nested, a2: Nested, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials. To trim leading zeros, as NumPy does, the coefficients must be known.

    >>> polymul(np.array([1, 2]), np.array([1, -2]))
    Array([ 1,  0, -4], dtype=int64)
    """
    x, y = promote(_vector("polymul", a1), _vector("polymul", a2))
    if trim_leading_zeros and (x.size > 1 or y.size > 1):
        x, y = trim_zeros(x, "f"), trim_zeros(y, "f")
    x, y = (v if v.size else zeros((1,), v.dtype) for v in (x, y))
    return convolve(x, y)


def polydiv(u: Nested, v: Nested, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """The quotient of two polynomials, and what remains. To trim leading zeros of that, as NumPy does, the coefficients
    must be known.

    >>> polydiv(np.array([1.0, 0.0, -4.0]), np.array([1.0, -2.0]))
    (Array([1., 2.], dtype=float64), Array([0., 0., 0.], dtype=float64))
    """
    rest, divisor = promote_inexact(_vector("polydiv", u, bools=True), _vector("polydiv", v, bools=True))
    if not divisor.size:
        raise ShapeError("polydiv: the divisor has no coefficients")
    steps = rest.size - divisor.size + 1
    found = []
    for i in range(max(steps, 0)):
        factor = rest[i] / divisor[0]
        rest = rest.at[i : i + divisor.size].add(-factor * divisor)
        found.append(factor[None])
    quotient = concatenate(found) if found else zeros((1,), rest.dtype)
    if trim_leading_zeros:
        rest = trim_zeros(rest, "f")
        rest = rest if rest.size else zeros((1,), rest.dtype)
    return quotient, rest


@prepared
def polyder(p: Nested, m: SupportsIndex = 1) -> Array:
    """The m-th derivative of a polynomial.

    >>> polyder(np.array([1, 2, 3]))
    Array([2, 2], dtype=int64)
    """
    x, order = _vector("polyder", p), integer(m, "polyder: m")
    if order < 0:
        raise ShapeError(f"polyder: the order m is at least 0, got {order}")
    if not order:
        return x
    powers = np.arange(x.size - 1, order - 1, -1)
    factors = as_array(np.asarray(np.prod([powers - i for i in range(order)], axis=0) if powers.size else powers))
    kept = x[: max(x.size - order, 0)]
    if x.dtype in INEXACT:
        return kept * astype(factors, x.dtype)
    # Small integers become larger ones, as in NumPy: 3 * 100 is no int8.
    return astype(kept, WIDE.get(x.dtype, x.dtype)) * factors


@prepared
def polyint(p: Nested, m: SupportsIndex = 1, k: Nested | None = None) -> Array:
    """The m-th antiderivative of a polynomial; k are the constants of integration, 0 by default.

    >>> polyint(np.array([2.0, 2.0]))
    Array([1., 2., 0.], dtype=float64)
    """
    order, constants = integer(m, "polyint: m"), ravel(asarray(0 if k is None else k))
    if order < 0:
        raise ShapeError(f"polyint: the order m is at least 0, got {order}")
    x, constants = promote_inexact(_vector("polyint", p), constants)
    if constants.size == 1:
        constants = constants * ones((max(order, 1),), constants.dtype)
    if constants.size != order and order:
        raise ShapeError(f"polyint: one constant, or one for each of {order} integrations, got {constants.size}")
    if not order:
        return x
    powers = arange(x.size + order - 1, -1, -1, dtype=FLOAT64)
    # 171! is more than any float, so further factors make no difference.
    factors = powers
    for i in range(1, min(order, 171)):
        factors = factors * maximum(powers - i, 1)
    return concatenate([x, constants]) / astype(maximum(factors, 1), x.dtype)


@prepared
def poly(seq_of_zeros: Nested) -> Array:
    """The coefficients of the polynomial that has these zeros, with 1 as the highest; of a square matrix, those of its
    characteristic polynomial, as complex numbers.

    >>> poly(np.array([1.0, -2.0]))
    Array([ 1.,  1., -2.], dtype=float64)
    """
    (roots,) = promote_inexact(asarray(seq_of_zeros))
    if roots.ndim == 2 and roots.shape[0] == roots.shape[1]:
        roots = eigvals(roots)
    elif roots.ndim > 1:
        raise ShapeError(f"poly takes a vector of zeros, or a square matrix, got {roots.aval}")
    roots = with_axes(roots, 1)
    out = ones((1,), roots.dtype)
    for i in range(roots.size):
        out = concatenate([out, zeros((1,), out.dtype)]) - concatenate([zeros((1,), out.dtype), out * roots[i]])
    return out
