"""Strict application: no promotion and no broadcasting, but Python scalars take the dtype of their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

from tinyjax.ir.dtypes import COMPLEXES, INEXACT, INTEGERS, DType
from tinyjax.ir.primitive import Primitive
from tinyjax.tracing.core import Array, ArrayLike, as_array, bind
from tinyjax.tracing.elementwise import convert
from tinyjax.tracing.promotion import result_type
from tinyjax.tracing.shaping import integers


def operands(*values: ArrayLike) -> list[Array]:
    """The values as arrays. Weakly typed scalars take the dtype of the others, unless they would lose their kind."""
    arrays = [as_array(value) for value in values]
    dtypes = {array.aval.dtype for array in arrays}
    if len(dtypes) <= 1:
        return arrays
    strong = {array.aval.dtype for array in arrays if not array.aval.weak_type}
    if len(strong) > 1:
        return arrays
    weak_type = not strong
    dtype = result_type(array.aval for array in arrays)[0] if weak_type else strong.pop()
    return [convert(array, dtype, weak_type) if _adapts(array, dtype) else array for array in arrays]


def _adapts(x: Array, dtype: DType) -> bool:
    aval = x.aval
    if not aval.weak_type or aval.shape != ():
        return False
    if aval.dtype in INTEGERS:
        return dtype in INTEGERS or dtype in INEXACT
    return dtype in COMPLEXES or (aval.dtype not in COMPLEXES and dtype in INEXACT)


def strict(primitive: Primitive, *values: ArrayLike) -> Array:
    """Applies a primitive with one result."""
    return bind(primitive, *operands(*values))[0]


def axes_tuple(axes: SupportsIndex | Sequence[SupportsIndex], ndim: int) -> tuple[int, ...]:
    """One axis or several; negative ones count from the end."""
    listed = integers(axes, "an axis")
    return tuple(axis + ndim if axis < 0 else axis for axis in listed)
