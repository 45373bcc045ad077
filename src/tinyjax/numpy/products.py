"""Products of vectors, matrices and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, SupportsIndex

import numpy.typing as npt

from tinyjax.arrays import products, reductions, shaping
from tinyjax.arrays.arithmetic import conjugate, multiply
from tinyjax.arrays.elementwise import astype, broadcast_shapes, broadcast_to, full_like, user_dtype
from tinyjax.arrays.intake import refuse_out
from tinyjax.arrays.products import PrecisionLike
from tinyjax.arrays.shaping import canonical_axis
from tinyjax.errors import ShapeError
from tinyjax.lax.explicit import computed
from tinyjax.lax.layouts import OutSharding
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array, as_operand


def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """The matrix product over the last two axes; the axes before are broadcast. Vectors gain an axis and lose it."""
    arrays = as_operand(a), as_operand(b)
    return computed(lambda x, y: products.matmul(x, y, precision, preferred_element_type), arrays, out_sharding)


def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """The sum over the last axis of a and the last but one of b; for scalars the product."""
    arrays = as_operand(a), as_operand(b)
    return computed(
        lambda x, y: products.dot(x, y, precision=precision, preferred_element_type=preferred_element_type),
        arrays,
        out_sharding,
    )


trace: Final = reductions.trace


@prepared
def vdot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
) -> Array:
    """The sum of the products of all elements of b with the complex conjugates of those of a."""
    x, y = shaping.ravel(conjugate(as_array(a))), shaping.ravel(as_array(b))
    return products.dot(x, y, precision=precision, preferred_element_type=preferred_element_type)


@prepared
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: SupportsIndex = -1,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
) -> Array:
    """`vdot` along an axis; the other axes are broadcast."""
    x, y = as_array(x1), as_array(x2)
    x, y = (shaping.moveaxis(v, canonical_axis(axis, v.aval.ndim, "vecdot"), -1) for v in (x, y))
    if x.aval.shape[-1] != y.aval.shape[-1]:
        raise ShapeError(f"vecdot: {as_array(x1).aval} and {as_array(x2).aval} differ in size along axis {axis}")
    rows, columns = shaping.expand_dims(conjugate(x), -2), shaping.expand_dims(y, -1)
    return shaping.squeeze(products.matmul(rows, columns, precision, preferred_element_type), (-2, -1))


@prepared
def inner(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
) -> Array:
    """The sum over the last axes of both; for a scalar the product."""
    x, y = as_array(a), as_array(b)
    if x.aval.shape and y.aval.shape:
        return products.tensordot(x, y, (-1, -1), precision, preferred_element_type)
    chosen = user_dtype(preferred_element_type)
    return multiply(x, y) if chosen is None else multiply(astype(x, chosen), astype(y, chosen))


@prepared
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """The products of all elements of a with all elements of b, as a matrix."""
    refuse_out("outer", out)
    return _outer(as_array(a), as_array(b))


@prepared
def _outer(x: Array, y: Array) -> Array:
    return multiply(shaping.ravel(x)[:, None], shaping.ravel(y))


def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: int | Sequence[int | Sequence[int]] = 2,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """The sum over pairs of axes: the last `axes` of a with the first of b, or those of two lists."""
    arrays = as_operand(a), as_operand(b)
    return computed(
        lambda x, y: products.tensordot(x, y, axes, precision, preferred_element_type), arrays, out_sharding
    )


@prepared
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: each element of a times the whole of b."""
    x, y = as_array(a), as_array(b)
    ndim = max(x.aval.ndim, y.aval.ndim)
    x, y = (shaping.expand_dims(v, range(ndim - v.aval.ndim)) for v in (x, y))
    shape = tuple(m * n for m, n in zip(x.aval.shape, y.aval.shape, strict=True))
    pairs = multiply(
        shaping.expand_dims(x, range(1, 2 * ndim, 2)),
        shaping.expand_dims(y, range(0, 2 * ndim, 2)),
    )
    return shaping.reshape(pairs, shape)


@prepared
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: SupportsIndex = -1,
    axisb: SupportsIndex = -1,
    axisc: SupportsIndex = -1,
    axis: SupportsIndex | None = None,
) -> Array:
    """The cross product of vectors of size 3, or 2; of two vectors of size 2 only its last component."""
    x = shaping.moveaxis(as_array(a), axisa if axis is None else axis, -1)
    y = shaping.moveaxis(as_array(b), axisb if axis is None else axis, -1)
    if x.aval.shape[-1] not in (2, 3) or y.aval.shape[-1] not in (2, 3):
        raise ShapeError(f"cross takes vectors of size 2 or 3, got {as_array(a).aval} and {as_array(b).aval}")
    (x0, x1, x2), (y0, y1, y2) = _components(x), _components(y)
    last = x0 * y1 - x1 * y0
    if x.aval.shape[-1] == y.aval.shape[-1] == 2:
        return last
    parts = [x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, last]
    shape = broadcast_shapes(*[part.aval.shape for part in parts])
    stacked = shaping.stack([broadcast_to(part, shape) for part in parts], 0)
    return shaping.moveaxis(astype(stacked, stacked.aval.dtype), 0, axisc if axis is None else axis)


def _components(x: Array) -> tuple[Array, Array, Array]:
    """The components of a vector; the third of two is 0."""
    first, second = x[..., 0], x[..., 1]
    return first, second, x[..., 2] if x.aval.shape[-1] == 3 else full_like(first, 0)


@prepared
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of matrices, the last two axes of x1, and vectors, the last axis of x2; other axes are broadcast.

    >>> import numpy as np
    >>> matvec(np.array([[1, 2], [3, 4]]), np.array([1, 1]))
    Array([3, 7], dtype=int64)
    """
    x, y = as_array(x1), as_array(x2)
    if x.aval.ndim < 2 or not y.aval.ndim:
        raise ShapeError(f"matvec takes matrices and vectors, got {x.aval} and {y.aval}")
    if y.aval.ndim == 1:
        return matmul(x, y)
    if x.aval.ndim == 2:  # the vectors are the rows of one matrix
        return matmul(y, x.mT)
    return matmul(x, y[..., None])[..., 0]


@prepared
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of vectors, the last axis of x1, whose conjugates count, and matrices, the last two axes of x2; other
    axes are broadcast.

    >>> import numpy as np
    >>> vecmat(np.array([1, 1]), np.array([[1, 2], [3, 4]]))
    Array([4, 6], dtype=int64)
    """
    x, y = as_array(x1), as_array(x2)
    if not x.aval.ndim or y.aval.ndim < 2:
        raise ShapeError(f"vecmat takes vectors and matrices, got {x.aval} and {y.aval}")
    if x.aval.ndim == 1 or y.aval.ndim == 2:
        return matmul(conjugate(x), y)
    return matmul(conjugate(x)[..., None, :], y)[..., 0, :]
