"""Norms of vectors and of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from tinyjax.arrays.arithmetic import absolute, real
from tinyjax.arrays.elementwise import constant_like
from tinyjax.arrays.reductions import max as max_of
from tinyjax.arrays.reductions import min as min_of
from tinyjax.arrays.reductions import sum as sum_of
from tinyjax.arrays.shaping import canonical_axes, expand_dims, integers, moveaxis
from tinyjax.errors import ChoiceError, InputError, ShapeError
from tinyjax.ir.dtypes import COMPLEXES, real_dtype
from tinyjax.numpy.elementwise import sqrt
from tinyjax.numpy.linalg.decompositions import svdvals
from tinyjax.numpy.linalg.intake import inexact
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array, ArrayLike

_Axis = SupportsIndex | Sequence[SupportsIndex] | None


@prepared
def norm(
    x: ArrayLike, ord: float | str | None = None, axis: _Axis = None, keepdims: bool = False
) -> Array:  # fmt: skip
    """A norm of vectors along an axis, or of matrices along two.

    Without `ord` it is the root of the sum of squares; without `axis` too, of all elements. Vectors have the norms of
    `vector_norm`, and matrices those of `matrix_norm`.

    Raises:
      ShapeError: there are more than two axes, or they don't exist.
      ChoiceError: there is no such norm.

    >>> import numpy as np
    >>> norm(np.array([3.0, 4.0])), norm(np.array([[1.0, -7.0], [2.0, 3.0]]), 1)
    (Array(5., dtype=float64), Array(10., dtype=float64))
    """
    a = inexact(x)
    if axis is None and ord is None:
        return _euclidean(a, None, keepdims)
    axes = tuple(range(a.aval.ndim)) if axis is None else canonical_axes(axis, a.aval.ndim, "norm")
    if len(axes) == 1:
        return vector_norm(a, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ShapeError(
            f"Improper number of axes for norm: {axes}. Pass one axis to compute a vector-norm, or two axes to compute "
            "a matrix-norm."
        )
    # Rows are along the axis that is named first, wherever it is.
    ordered = axes if axis is None else integers(axis, "norm: an axis")
    found = matrix_norm(moveaxis(a, ordered, (-2, -1)), ord="fro" if ord is None else ord)
    return expand_dims(found, axes) if keepdims else found


def _euclidean(x: Array, axis: _Axis, keepdims: bool) -> Array:
    squares = real(x * x.conj()) if x.aval.dtype in COMPLEXES else x * x
    return sqrt(sum_of(squares, axis, keepdims=keepdims))


@prepared
def vector_norm(x: ArrayLike, /, *, axis: _Axis = None, keepdims: bool = False, ord: float | str | None = 2) -> Array:
    """A norm of vectors along axes; without them of all elements.

    `ord` p is the p-th root of the sum of the p-th powers of absolute values; `inf` and `-inf` are the largest and the
    least of these, and 0 counts those that aren't zero.

    Raises:
      ChoiceError: `ord` is a string.

    >>> import numpy as np
    >>> vector_norm(np.array([3.0, -4.0])), vector_norm(np.array([3.0, -4.0]), ord=np.inf)
    (Array(5., dtype=float64), Array(4., dtype=float64))
    """
    a = inexact(x)
    _one_order("vector_norm", ord)
    if ord is None or ord == 2:
        return _euclidean(a, axis, keepdims)
    if isinstance(ord, str):
        hint = {"inf": " Use numpy.inf instead.", "-inf": " Use -numpy.inf instead."}.get(ord, "")
        raise ChoiceError(f"Invalid order {ord!r} for vector norm.{hint}")
    if ord == np.inf:
        return max_of(absolute(a), axis, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return min_of(absolute(a), axis, keepdims=keepdims)
    if ord == 0:
        return sum_of(a != 0, axis, keepdims=keepdims, dtype=real_dtype(a.aval.dtype))
    if ord == 1:
        return sum_of(absolute(a), axis, keepdims=keepdims)
    power = constant_like(absolute(a), ord)
    return sum_of(absolute(a) ** power, axis, keepdims=keepdims) ** (1.0 / ord)


@prepared
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: float | str = "fro") -> Array:
    """A norm of matrices, along the last two axes.

    "fro" is the root of the sum of squares; 1 and -1 are the largest and the least sum of absolute values of a column,
    `inf` and `-inf` of a row; 2 and -2 are the largest and the least singular value, and "nuc" is the sum of these.

    Raises:
      ShapeError: there are less than two axes.
      ChoiceError: there is no such norm.

    >>> import numpy as np
    >>> matrix_norm(np.array([[1.0, -7.0], [2.0, 3.0]]), ord=np.inf)
    Array(8., dtype=float64)
    """
    a = inexact(x)
    if a.aval.ndim < 2:
        raise ShapeError(f"matrix_norm needs an array with at least two axes, got {a.aval}")
    _one_order("matrix_norm", ord)
    found = _matrix_norm(a, ord)
    return expand_dims(found, (-2, -1)) if keepdims else found


def _one_order(name: str, ord: object) -> None:
    """An InputError for several orders."""
    if isinstance(ord, np.ndarray | Array) and ord.ndim:
        raise InputError(f"{name}: ord is one number, or the name of a norm, got {ord!r}")


def _matrix_norm(a: Array, ord: float | str) -> Array:
    if ord in ("f", "fro"):
        return _euclidean(a, (-2, -1), False)
    if ord in (1, -1, np.inf, -np.inf):
        sums = sum_of(absolute(a), -2 if ord in (1, -1) else -1)
        return max_of(sums, -1, initial=0) if ord in (1, np.inf) else min_of(sums, -1)
    if ord in ("nuc", 2, -2):
        values = svdvals(a)
        if ord == "nuc":
            return sum_of(values, -1)
        return max_of(values, -1, initial=0) if ord == 2 else min_of(values, -1)
    raise ChoiceError(f"Invalid order {ord!r} for matrix norm.")
