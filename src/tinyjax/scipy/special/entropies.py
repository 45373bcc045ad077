"""Products with logarithms, entropies, and sums of exponentials."""

from __future__ import annotations

import math
from typing import Literal, overload

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.rules.custom_jvp import custom_jvp
from tinyjax.arrays.elementwise import apply, promote_inexact
from tinyjax.arrays.intake import optional
from tinyjax.arrays.reductions import Axis
from tinyjax.arrays.shaping import canonical_axes
from tinyjax.arrays.shifts import shift
from tinyjax.ir.dtypes import COMPLEXES
from tinyjax.prepared.functions import prepared
from tinyjax.primitives import exponential
from tinyjax.scipy.special.promoted import floats, inexacts, prepared_for_numbers
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


@prepared_for_numbers
def expit(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    >>> expit(0.0)
    Array(0.5, dtype=float64, weak_type=True)
    """
    return apply(exponential.logistic, *inexacts(x))


@prepared_for_numbers
def logit(x: ArrayLike) -> Array:
    """log(x / (1 - x)), the inverse of `expit`.

    >>> logit(0.75)
    Array(1.09861229, dtype=float64, weak_type=True)
    """
    (found,) = inexacts(x)
    return _logit(found)


@custom_jvp
def _logit(x: Array) -> Array:
    return lax.log(x / (1 - x))


def _logit_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    return _logit(x), t / (x * (1 - x))


_logit.defjvp(_logit_jvp)


@prepared_for_numbers
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(y), and 0 where x is 0.

    >>> import numpy as np
    >>> xlogy(np.array([0.0, 2.0]), np.array([0.0, 1.0]))
    Array([0., 0.], dtype=float64)
    """
    left, right = inexacts(x, y)
    return _xlogy(left, right)


@custom_jvp
def _xlogy(x: Array, y: Array) -> Array:
    return tnp.where((x != 0) | tnp.isnan(y), x * lax.log(y), lax.full_like(x, 0))


def _xlogy_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (x, y), (tx, ty) = primals, tangents
    return _xlogy(x, y), tx * lax.log(y) + ty * x / y


_xlogy.defjvp(_xlogy_jvp)


@prepared_for_numbers
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(1 + y), and 0 where x is 0.

    >>> import numpy as np
    >>> xlog1py(np.array([0.0, 2.0]), np.array([-1.0, 1.0]))
    Array([0.        , 1.38629436], dtype=float64)
    """
    left, right = inexacts(x, y)
    return _xlog1py(left, right)


@custom_jvp
def _xlog1py(x: Array, y: Array) -> Array:
    return tnp.where((x != 0) | tnp.isnan(y), x * lax.log1p(y), lax.full_like(x, 0))


def _xlog1py_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (x, y), (tx, ty) = primals, tangents
    return _xlog1py(x, y), tx * lax.log1p(y) + ty * x / (1 + y)


_xlog1py.defjvp(_xlog1py_jvp)


@prepared_for_numbers
def entr(x: ArrayLike) -> Array:
    """-x log(x), 0 at 0, and -inf for negative numbers.

    >>> import numpy as np
    >>> entr(np.array([0.0, 0.5, -1.0]))
    Array([-0.        ,  0.34657359,        -inf], dtype=float64)
    """
    (found,) = floats("entr", x)
    return _entr(found)


@custom_jvp
def _entr(x: Array) -> Array:
    return tnp.where(x < 0, lax.full_like(x, -math.inf), -_xlogy(x, x))


def _entr_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    outside = x < 0  # where it is -inf throughout
    return _entr(x), tnp.where(outside, 0, -t * (lax.log(tnp.where(outside, 1, x)) + 1))


_entr.defjvp(_entr_jvp)


@prepared_for_numbers
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """p log(p / q), 0 where p is 0 and q isn't negative, and infinite where one is negative or q is 0.

    >>> import numpy as np
    >>> rel_entr(np.array([0.0, 0.5]), np.array([0.5, 0.25]))
    Array([0.        , 0.34657359], dtype=float64)
    """
    x, y = floats("rel_entr", p, q)
    one = lax.full_like(x, 1)
    both, zero = (x > 0) & (y > 0), (x == 0) & (y >= 0)
    left, right = tnp.where(both, x, one), tnp.where(both, y, one)
    value = left * (lax.log(left) - lax.log(right))
    found = tnp.where(both, value, tnp.where(zero, lax.full_like(x, 0), lax.full_like(x, math.inf)))
    return tnp.where(tnp.isnan(x) | tnp.isnan(y), lax.full_like(x, math.nan), found)


@prepared_for_numbers
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """rel_entr(p, q) - p + q: the Kullback–Leibler divergence, element by element.

    >>> import numpy as np
    >>> kl_div(np.array([0.0, 0.5]), np.array([0.5, 0.25]))
    Array([0.5       , 0.09657359], dtype=float64)
    """
    x, y = floats("kl_div", p, q)
    value = rel_entr(x, y)
    found = value - x + y
    outside = (x < 0) | (y < 0) | ((y == 0) & (x > 0))
    return tnp.where(outside & tnp.isnan(found) & (value == math.inf), value, found)


@prepared_for_numbers
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """The Box–Cox transform: (x ** lmbda - 1) / lmbda, and log(x) where lmbda is 0.

    >>> import numpy as np
    >>> boxcox(2.0, np.array([0.0, 1.0]))
    Array([0.69314718, 1.        ], dtype=float64)
    """
    number, power = inexacts(x, lmbda)
    return _powered(lax.log(number), power)


@prepared_for_numbers
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """The Box–Cox transform of 1 + x.

    >>> import numpy as np
    >>> boxcox1p(1.0, np.array([0.0, 1.0]))
    Array([0.69314718, 1.        ], dtype=float64)
    """
    number, power = inexacts(x, lmbda)
    return _powered(lax.log1p(number), power)


def _powered(logarithm: Array, power: Array) -> Array:
    zero = power == 0
    safe = tnp.where(zero, lax.full_like(power, 1), power)
    return tnp.where(zero, logarithm, lax.expm1(safe * logarithm) / safe)


@overload
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: Literal[False] = False,
    where: ArrayLike | None = None,
) -> Array: ...
@overload
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    *,
    return_sign: Literal[True],
    where: ArrayLike | None = None,
) -> tuple[Array, Array]: ...
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Array | tuple[Array, Array]:
    """The logarithm of the sum of b exp(a) over axes, without overflow; b is 1 by default, and only elements `where`
    this is true count. With `return_sign` that of the magnitude, and the sign; else nan where the sum is negative.

    >>> import numpy as np
    >>> logsumexp(np.array([1000.0, 1000.0]))
    Array(1000.69314718, dtype=float64)
    """
    return _logsumexp(as_array(a), axis, optional(b), bool(keepdims), bool(return_sign), optional(where))


@prepared
def _logsumexp(
    a: Array, axis: Axis, b: Array | None, keepdims: bool, return_sign: bool, where: Array | None
) -> Array | tuple[Array, Array]:
    x, factors = (promote_inexact(a)[0], None) if b is None else tnp.broadcast_arrays(*promote_inexact(a, b))
    if where is not None:
        x = tnp.where(where, x, lax.full_like(x, -math.inf))
    if factors is not None:  # what doesn't count may be infinite
        x = tnp.where(factors == 0, lax.full_like(x, -math.inf), x)
    size = lax.real(x) if x.aval.dtype in COMPLEXES else x
    axes = canonical_axes(axis, x.aval.ndim, "logsumexp")
    largest = shift(lax.stop_gradient(size), axis, keepdims=False)
    largest = tnp.where(tnp.isfinite(largest), largest, lax.full_like(largest, 0))
    terms = lax.exp(x - tnp.expand_dims(largest, axes))
    total = tnp.sum(terms if factors is None else terms * factors, axis)
    found, sign = lax.log(lax.abs(total) if return_sign else total) + largest, lax.sign(total) if return_sign else total
    if keepdims:
        found, sign = tnp.expand_dims(found, axes), tnp.expand_dims(sign, axes)
    return (found, sign) if return_sign else found


@prepared
def softmax(x: ArrayLike, axis: Axis = None) -> Array:
    """exp(x) divided by its sum over axes: all by default, as in SciPy.

    >>> import numpy as np
    >>> softmax(np.array([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float64)
    """
    (found,) = promote_inexact(as_array(x))
    terms = lax.exp(found - shift(lax.stop_gradient(found), axis))
    return terms / tnp.sum(terms, axis, keepdims=True)


@prepared
def log_softmax(x: ArrayLike, axis: Axis = None) -> Array:
    """The logarithm of `softmax`, also where that is too small a number.

    >>> import numpy as np
    >>> log_softmax(np.array([0.0, 1000.0]))
    Array([-1000.,     0.], dtype=float64)
    """
    (found,) = promote_inexact(as_array(x))
    moved = found - shift(lax.stop_gradient(found), axis)
    return moved - lax.log(tnp.sum(lax.exp(moved), axis, keepdims=True))
