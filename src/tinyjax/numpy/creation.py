"""Arrays from nothing, from Python's lists and scalars, and from NumPy's arrays.

While a function is staged, these record equations: constants that are broadcast, and iota.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, SupportsIndex, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from tinyjax.errors import InputError, ShapeError, UnsupportedError
from tinyjax.ir.aval import Shape, ShapedArray, array_type, as_shape
from tinyjax.ir.dtypes import BOOL, FLOAT64, INEXACT, INT64, INTEGERS, DType, HostArray, Scalar, real_dtype
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.conversion import COPY
from tinyjax.primitives.shaping import Iota
from tinyjax.primitives.structure import BroadcastInDim
from tinyjax.tracing.arithmetic import multiply
from tinyjax.tracing.core import Array, ArrayLike, ConcreteArray, as_array, bind
from tinyjax.tracing.elementwise import (
    apply,
    astype,
    broadcast_shapes,
    broadcast_to,
    inexact_dtype,
    promote,
    user_dtype,
    where,
)
from tinyjax.tracing.promotion import result_type
from tinyjax.tracing.shaping import canonical_axis, concatenate, expand_dims, moveaxis, reshape

ShapeLike: TypeAlias = SupportsIndex | Iterable[SupportsIndex]


class SupportsArray(Protocol):
    """What NumPy can make an array of."""

    def __array__(self) -> HostArray: ...


#: Arrays, scalars, and sequences of these, nested.
Nested: TypeAlias = "ArrayLike | SupportsArray | Sequence[Nested]"


def shape_of(shape: ShapeLike) -> Shape:
    """A shape argument: one size or several."""
    return as_shape(shape if isinstance(shape, Iterable) else (operator.index(shape),))


def scalar(value: Scalar | np.generic, dtype: DType) -> ConcreteArray:
    """A scalar of this dtype, not weakly typed."""
    return ConcreteArray(ConcreteValue(np.asarray(value, dtype), array_type((), dtype)))


def iota(dtype: DType, shape: Shape, dimension: int) -> Array:
    """An array that counts from 0 along one axis."""
    return bind(Iota(dtype, shape, dimension))[0]


# From what is there.


def asarray(
    a: Nested, dtype: npt.DTypeLike | None = None, order: str | None = None, *, copy: bool | None = None
) -> Array:
    """An array, or a copy of NumPy's arrays and of lists. Python scalars are weakly typed unless a dtype is given."""
    if isinstance(a, Array):
        return array(a, dtype, copy=bool(copy), order=order)
    if copy is False:
        raise UnsupportedError("asarray: what isn't an array yet is always copied, so copy can't be False")
    return array(a, dtype, order=order)


def array(
    object: Nested, dtype: npt.DTypeLike | None = None, *, copy: bool = True, order: str | None = "K", ndmin: int = 0
) -> Array:
    """A new array of these elements; nested sequences become axes. Later writes to a NumPy array don't change it.

    >>> array([[1, 2], [3, 4]], "float32")
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    if order not in (None, "K", "C"):
        raise UnsupportedError(f"array: the order of elements in memory can't be chosen, got order={order!r}")
    out = _array(object, user_dtype(dtype), copy)
    missing = ndmin - out.aval.ndim
    return expand_dims(out, range(missing)) if missing > 0 else out


def _array(x: object, dtype: DType | None, copy: bool) -> Array:
    if isinstance(x, list | tuple):
        return _from_sequence(x, dtype)
    if isinstance(x, Array):
        known = x if dtype is None else astype(x, dtype)
        return apply(COPY, x) if copy and known is x else known
    if isinstance(x, np.ndarray):
        x = np.array(x)
    found = _as_array(x)
    if dtype is None:
        return found
    return astype(found, dtype) if not isinstance(found, ConcreteArray) else _convert_on_host(found, dtype)


def _as_array(x: object) -> Array:
    """Whatever `as_array` accepts or complains about."""
    known: ArrayLike = x  # type: ignore[assignment]
    return as_array(known)


def _convert_on_host(x: ConcreteArray, dtype: DType) -> Array:
    raise NotImplementedError
