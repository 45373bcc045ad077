"""Products of vectors, matrices and tensors, and parts of matrices, as the array API has them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, SupportsIndex

import numpy.typing as npt

from tinyjax.arrays import shaping
from tinyjax.arrays.products import PrecisionLike
from tinyjax.errors import InputError, ShapeError
from tinyjax.lax.binding import sequence
from tinyjax.lax.explicit import computed
from tinyjax.lax.layouts import OutSharding
from tinyjax.numpy import products
from tinyjax.numpy.einsum import einsum
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

matrix_transpose: Final = shaping.matrix_transpose


def matmul(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
) -> Array:
    """The matrix product over the last two axes; see `tinyjax.numpy.matmul`.

    >>> import numpy as np
    >>> matmul(np.eye(2), np.array([1.0, 2.0]))
    Array([1., 2.], dtype=float64)
    """
    return products.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: SupportsIndex = -1,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
) -> Array:
    """The sum of products of elements of x2 with conjugates of those of x1, along an axis.

    >>> import numpy as np
    >>> vecdot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    Array(11., dtype=float64)
    """
    return products.vecdot(x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type)


def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axes: int | Sequence[int | Sequence[int]] = 2,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """The sum over pairs of axes: the last `axes` of x1 with the first of x2, or those of two lists.

    >>> import numpy as np
    >>> tensordot(np.ones((2, 3)), np.ones((2, 3)), axes=2)
    Array(6., dtype=float64)
    """
    return computed(
        lambda x, y: products.tensordot(x, y, axes, precision=precision, preferred_element_type=preferred_element_type),
        (as_array(x1), as_array(x2)),
        out_sharding,
    )


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of all elements of one vector with all of another, as a matrix.

    Raises:
      ShapeError: one of them isn't a vector.

    >>> import numpy as np
    >>> outer(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    Array([[3., 4.],
           [6., 8.]], dtype=float64)
    """
    a, b = as_array(x1), as_array(x2)
    if a.aval.ndim != 1 or b.aval.ndim != 1:
        raise ShapeError(f"outer: Input arrays must be one-dimensional, but they are {a.aval} and {b.aval}")
    return products.outer(a, b)


@prepared
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: SupportsIndex = -1) -> Array:
    """The cross product of vectors of size 3, along an axis.

    Raises:
      ShapeError: the vectors have another size.

    >>> import numpy as np
    >>> cross(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
    Array([0., 0., 1.], dtype=float64)
    """
    a, b = as_array(x1), as_array(x2)
    if any(x.aval.shape[shaping.canonical_axis(axis, x.aval.ndim, "cross")] != 3 for x in (a, b)):
        raise ShapeError(
            f"cross: Both input arrays must be (arrays of) 3-dimensional vectors along axis {axis}, but they are "
            f"{a.aval} and {b.aval}"
        )
    return products.cross(a, b, axis=axis)


def diagonal(x: ArrayLike, /, *, offset: SupportsIndex = 0) -> Array:
    """A diagonal of matrices, along the last two axes.

    >>> import numpy as np
    >>> diagonal(np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([1., 4.], dtype=float64)
    """
    return shaping.diagonal(as_array(x), offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: SupportsIndex = 0, dtype: npt.DTypeLike | None = None) -> Array:
    """The sum of a diagonal of matrices, along the last two axes.

    >>> import numpy as np
    >>> trace(np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array(5., dtype=float64)
    """
    return products.trace(as_array(x), offset, -2, -1, dtype)


def multi_dot(arrays: Sequence[ArrayLike], *, precision: PrecisionLike = None) -> Array:
    """The product of several matrices, in the order that costs least. The first and the last may be vectors.

    Raises:
      InputError: there are less than two.
      ShapeError: they don't fit.

    >>> import numpy as np
    >>> multi_dot([np.ones((2, 3)), np.ones((3, 4)), np.ones(4)])
    Array([12., 12.], dtype=float64)
    """
    found = [as_array(x) for x in sequence("what multi_dot takes", arrays)]
    listed = ", ".join(str(x.aval) for x in found)
    if len(found) < 2:
        raise InputError(f"multi_dot requires at least two arrays; got {len(found)}")
    ends, between = (found[0], found[-1]), found[1:-1]
    if any(x.aval.ndim not in (1, 2) for x in ends) or any(x.aval.ndim != 2 for x in between):
        raise ShapeError(
            "multi_dot: input arrays must all be two-dimensional, except for the first and last array which may be 1 "
            f"or 2 dimensional; got {listed}"
        )
    if any(x.aval.shape[-1] != y.aval.shape[0] for x, y in itertools.pairwise(found)):
        raise ShapeError(
            f"multi_dot: last dimension of each array must match first dimension of following array; got {listed}"
        )
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    names = [letters[i : i + 2] for i in range(len(found))]
    if found[0].aval.ndim == 1:
        names[0] = names[0][1:]
    if found[-1].aval.ndim == 1:
        names[-1] = names[-1][:1]
    result = (names[0][:1] if found[0].aval.ndim == 2 else "") + (names[-1][1:] if found[-1].aval.ndim == 2 else "")
    return einsum(f"{','.join(names)}->{result}", *found, precision=precision)
