"""Strict application: no promotion, but Python scalars take the dtype of their neighbours; no broadcasting, but
operands of elementwise functions with the same number of axes are repeated along axes of size 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import SupportsIndex

from tinyjax.arrays.elementwise import broadcast_shapes, broadcast_to, convert
from tinyjax.arrays.promotion import result_type
from tinyjax.arrays.shaping import integers
from tinyjax.errors import ShapeError, UnsupportedError
from tinyjax.ir.dtypes import COMPLEXES, INEXACT, INTEGERS, DType
from tinyjax.ir.primitive import Primitive
from tinyjax.lax.signatures import AxisName
from tinyjax.primitives.window_shapes import Padding
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind


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


def strict_pair(primitive: Primitive, x: ArrayLike, y: ArrayLike) -> Array:
    """Applies an elementwise primitive to two operands, of which each is repeated along axes of size 1."""
    return bind_pair(primitive, *operands(x, y))


def bind_pair(primitive: Primitive, x: Array, y: Array) -> Array:
    """The same, with operands whose dtypes are left as they are."""
    left, right = x.aval.shape, y.aval.shape
    if (
        left != right
        and len(left) == len(right)
        and all(m == n or 1 in (m, n) for m, n in zip(left, right, strict=True))
    ):
        shape = broadcast_shapes(left, right)
        x, y = broadcast_to(x, shape), broadcast_to(y, shape)
    return bind(primitive, x, y)[0]


def axes_tuple(axes: SupportsIndex | Sequence[SupportsIndex], ndim: int) -> tuple[int, ...]:
    """One axis or several; negative ones count from the end."""
    listed = integers(axes, "an axis")
    return tuple(axis + ndim if axis < 0 else axis for axis in listed)


def axis_names(axis_name: AxisName) -> tuple[str, ...]:
    """One name or several."""
    return (axis_name,) if isinstance(axis_name, str) else tuple(axis_name)


def refuse_groups(name: str, groups: None) -> None:
    if groups is not None:
        raise UnsupportedError(f"{name}: axis_index_groups are not supported. Map over two axes, and name them both.")


def padding_pairs(name: str, padding: Iterable[Sequence[SupportsIndex]]) -> Padding:
    """Pairs of numbers, one for each axis."""
    if isinstance(padding, Iterable):
        pairs = [integers(pair, f"{name}: padding") for pair in padding]
        if all(len(pair) == 2 for pair in pairs):
            return tuple((low, high) for low, high in pairs)
    raise ShapeError(f"{name}: the padding argument is a string, or a pair of numbers for each axis, got {padding!r}")
