"""Exponentials that add up to 1, their logarithms, and standardization."""

from __future__ import annotations

import math
from typing import Final, Literal

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.arrays.reductions import Axis
from tinyjax.arrays.shifts import shift
from tinyjax.errors import ChoiceError
from tinyjax.prepared.functions import prepared
from tinyjax.scipy.special import entropies
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

logsumexp: Final = entropies.logsumexp


def _moved(x: ArrayLike, axis: Axis, where: ArrayLike | None) -> Array:
    """x without its maximum over axes; -inf elsewhere than `where`."""
    (found,) = promote_inexact(as_array(x))
    if where is not None:
        found = tnp.where(where, found, -math.inf)
    return found - shift(lax.stop_gradient(found), axis)


@prepared
def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """exp(x) divided by its sum over axes, of the elements `where` this is true; 0 elsewhere.

    >>> import numpy as np
    >>> softmax(np.array([0.0, 0.0, 1000.0]), where=np.array([True, True, False]))
    Array([0.5, 0.5, 0. ], dtype=float64)
    """
    terms = tnp.exp(_moved(x, axis, where))
    found = terms / tnp.sum(terms, axis, keepdims=True, where=where)
    return found if where is None else tnp.where(where, found, 0)


@prepared
def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """The logarithm of `softmax`, also where that is too small a number; -inf elsewhere than `where`.

    >>> import numpy as np
    >>> log_softmax(np.array([0.0, 1000.0]))
    Array([-1000.,     0.], dtype=float64)
    """
    moved = _moved(x, axis, where)
    found = moved - tnp.log(tnp.sum(tnp.exp(moved), axis, keepdims=True, where=where))
    return found if where is None else tnp.where(where, found, -math.inf)


@prepared
def logmeanexp(x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """The logarithm of the mean of exp(x) over axes, of the elements `where` this is true, without overflow.

    >>> import numpy as np
    >>> logmeanexp(np.array([1000.0, 1000.0]))
    Array(1000., dtype=float64)
    """
    total = logsumexp(x, axis, keepdims=keepdims, where=where)
    ones = tnp.ones_like(as_array(x), dtype=total.dtype)
    return total - tnp.log(tnp.sum(ones, axis, keepdims=keepdims, where=where))


@prepared
def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: Literal["fast", "stable"] = "fast",
) -> Array:
    """(x - mean) / sqrt(variance + epsilon), with the mean and the variance over axes unless they are given.

    The variance is the mean of squares without the square of the mean; `algorithm="stable"` takes the mean of the
    squared differences, which doesn't cancel.

    >>> import numpy as np
    >>> standardize(np.array([1.0, 3.0]))
    Array([-0.999995,  0.999995], dtype=float64)
    """
    if algorithm not in ("fast", "stable"):
        raise ChoiceError(f"standardize: algorithm is 'fast' or 'stable', got {algorithm!r}")
    (found,) = promote_inexact(as_array(x))
    middle = tnp.mean(found, axis, keepdims=True, where=where) if mean is None else as_array(mean)
    if variance is not None:
        spread = as_array(variance)
    elif algorithm == "stable":
        spread = tnp.mean(tnp.square(found - middle), axis, keepdims=True, where=where)
    else:
        squares = tnp.mean(tnp.square(found), axis, keepdims=True, where=where)
        spread = tnp.clip(squares - tnp.square(middle), 0)  # which rounding may make negative
    return (found - middle) * lax.rsqrt(spread + as_array(epsilon))
