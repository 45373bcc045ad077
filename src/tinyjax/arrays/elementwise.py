"""From arrays of any dtypes and shapes to operands that an elementwise primitive takes: promotion and broadcasting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from tinyjax.arrays.lossy import warn_of_imaginary_parts
from tinyjax.arrays.promotion import promoted_pair, result_type
from tinyjax.caching import bounded
from tinyjax.errors import ShapeError
from tinyjax.ir.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INEXACT,
    INT32,
    INT64,
    KEYS,
    NARROW_FLOATS,
    SUPPORTED,
    UINT64,
    DType,
    Scalar,
    finite_limits,
)
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shapes import REDUCED, UNREDUCED, Shape, as_axes
from tinyjax.prepared.functions import prepared
from tinyjax.primitives.casts import PVary
from tinyjax.primitives.comparison import ne
from tinyjax.primitives.conversion import array_dtype, conversion
from tinyjax.primitives.selection import select_n
from tinyjax.primitives.structure import BroadcastInDim

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array

# Dtypes.

#: The largest finite number of each float dtype.
LARGEST: Final[dict[DType, float]] = {
    FLOAT16: 65504.0,
    BFLOAT16: float.fromhex("0x1.fep127"),
    FLOAT32: float.fromhex("0x1.fffffep127"),
    FLOAT64: float.fromhex("0x1.fffffffffffffp1023"),
    **{dtype: finite_limits(dtype)[1] for dtype in NARROW_FLOATS},
}


def inexact_dtype(dtype: DType) -> DType:
    """The dtype that functions with floats as values compute in: float64 for 64-bit integers, float32 for others."""
    if dtype in INEXACT:
        return dtype
    return FLOAT64 if dtype in (INT64, UINT64) else FLOAT32


def user_dtype(dtype: npt.DTypeLike | None) -> DType | None:
    """A dtype argument; a TypingError if arrays can't have it."""
    if dtype is None or (isinstance(dtype, np.dtype) and dtype in SUPPORTED):
        return dtype
    return array_dtype(dtype)


def promote(*arrays: Array) -> Sequence[Array]:
    """The arrays, converted to the dtype that they are promoted to."""
    if len(arrays) == 2:  # as operators have them
        x, y = arrays
        left, right = x.aval, y.aval
        if left is right or left.dtype == right.dtype:
            return arrays
        dtype, weak_type = promoted_pair(left.dtype, left.weak_type, right.dtype, right.weak_type)
        return convert(x, dtype, weak_type), convert(y, dtype, weak_type)
    avals = [array.aval for array in arrays]
    first = avals[0]
    for aval in avals:
        if aval is not first and aval.dtype != first.dtype:
            return _convert_all(arrays, *result_type(avals))
    return arrays


def promote_numeric(*arrays: Array) -> Sequence[Array]:
    """The same, and bools become int32."""
    promoted = promote(*arrays)
    return _convert_all(promoted, INT32, False) if promoted[0].aval.dtype == BOOL else promoted


def promote_inexact(*arrays: Array) -> Sequence[Array]:
    """The same, and bools and integers become floats."""
    if any(array.aval.dtype in INEXACT for array in arrays):
        return promote(*arrays)
    dtype, weak_type = result_type(array.aval for array in arrays)
    return _convert_all(arrays, inexact_dtype(dtype), weak_type)


def _convert_all(arrays: Iterable[Array], dtype: DType, weak_type: bool) -> list[Array]:
    return [convert(array, dtype, weak_type) for array in arrays]


def convert(x: Array, dtype: DType, weak_type: bool = False) -> Array:
    """x with another dtype; x itself, weak or not, if it has it already.

    Host scalars are converted at once, without an equation. An InputError if a Python integer doesn't fit.
    """
    aval = x.aval
    if aval.dtype == dtype:
        return x
    converted = x._convert_scalar(dtype, weak_type) if aval.shape == () else None
    return x._bind(conversion(dtype, weak_type), x)[0] if converted is None else converted


def astype(x: Array, dtype: DType) -> Array:
    """x with another dtype, not weakly typed; x itself if it has it and isn't."""
    aval = x.aval
    if aval.dtype == dtype and not aval.weak_type:
        return x
    warn_of_imaginary_parts(aval.dtype, dtype)
    converted = x._convert_scalar(dtype, False) if aval.shape == () else None
    return x._bind(conversion(dtype, False), x)[0] if converted is None else converted


def converted(x: Array, dtype: npt.DTypeLike | None) -> Array:
    """x with a dtype that somebody asks for, if any: only keys are of a dtype of keys, and only of their own."""
    own = x.aval.dtype
    chosen = own if own in KEYS and own == dtype else user_dtype(dtype)
    return x if chosen is None else astype(x, chosen)


# Shapes.


@bounded(4096)
def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that arrays of these shapes are broadcast to, as in NumPy; a ShapeError if there is none."""
    ndim = max(map(len, shapes), default=0)
    padded = [(1,) * (ndim - len(shape)) + shape for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        others = {size for size in sizes if size != 1}
        if len(others) > 1:
            raise ShapeError(f"arrays of shapes {', '.join(map(str, shapes))} can't be broadcast together")
        result.append(others.pop() if others else 1)
    return tuple(result)


@bounded(4096)
def _broadcast(source: Shape, shape: Shape) -> BroadcastInDim:
    offset = len(shape) - len(source)
    if offset < 0 or any(size not in (1, shape[offset + i]) for i, size in enumerate(source)):
        raise ShapeError(f"an array of shape {source} can't be broadcast to shape {shape}")
    return BroadcastInDim(shape, tuple(range(offset, len(shape))))


def broadcast_to(x: Array, shape: Shape) -> Array:
    """x repeated along leading axes and axes of size 1 to fill `shape`; x itself if it has that shape."""
    own = x.aval.shape
    return x if own == shape else x._bind(_broadcast(own, shape), x)[0]


def broadcast(*operands: Array) -> Sequence[Array]:
    """The arrays, all of one shape, apart from scalars."""
    shape: Shape = ()
    arrays: Sequence[Array] = operands
    for array in arrays:
        aval = array.aval
        if aval.axes:
            arrays = [_varying_among(array, arrays) for array in arrays]
            break
        own = aval.shape
        if own and own is not shape and own != shape:
            if shape:
                break
            shape = own
    else:
        return arrays
    shape = broadcast_shapes(*[array.aval.shape for array in arrays])
    return [_broadcast_among(array, shape, arrays) for array in arrays]


def _broadcast_among(x: Array, shape: Shape, arrays: Sequence[Array]) -> Array:
    """One of several arrays, repeated where all of them meet: a transformation of another one sees of what it is made,
    and keeps that."""
    own = x.aval.shape
    if not own or own == shape:
        return x
    repeat = _broadcast(own, shape)
    for other in arrays:
        if other.frame is not x.frame:
            return x._bind_among(arrays, repeat)
    return x._bind(repeat, x)[0]


def _varying_among(x: Array, arrays: Sequence[Array]) -> Array:
    """One of several arrays within `shard_map`, as one that varies along the axes along which another one does: before
    it is repeated, also by `vmap`, so that devices add up its cotangent, and not that of each repetition. A scalar
    isn't repeated."""
    aval, more = x.aval, []
    if aval.shape:
        own, others = aval.axes, {name for array in arrays for name in array.aval.varying}
        more = [name for name in others.difference(own) if REDUCED + name not in own and UNREDUCED + name not in own]
    return x._bind_among(arrays, PVary(as_axes(more))) if more else x


# Application.


def apply(primitive: Primitive, *operands: Array) -> Array:
    """Applies an elementwise primitive after broadcasting."""
    done = operands[0]._at_once(primitive, operands)
    if done is not None:
        return done
    arrays = operands if len(operands) == 1 else broadcast(*operands)
    return _bind(primitive, operands, arrays)


def elementwise(primitive: Primitive, *operands: Array) -> Array:
    """Applies an elementwise primitive, whose operands have one dtype, after promotion and broadcasting."""
    done = operands[0]._at_once(primitive, operands)
    if done is not None:
        return done
    arrays = broadcast(*promote(*operands))
    return _bind(primitive, operands, arrays)


def _bind(primitive: Primitive, asked: Sequence[Array], arrays: Sequence[Array]) -> Array:
    """Binds a primitive, which has been asked for already for the first of these operands."""
    x = arrays[0]
    bound = x._bind_first if all(map(is_, asked, arrays)) else x._bind
    return bound(primitive, *arrays)[0]


def inexact(primitive: Primitive, *operands: Array) -> Array:
    """The same, with bools and integers as floats."""
    if operands[0].aval.dtype in INEXACT:
        return elementwise(primitive, *operands)
    return apply(primitive, *promote_inexact(*operands))


def numeric(primitive: Primitive, *operands: Array) -> Array:
    """The same, for a primitive that doesn't take bools, with bools as int32."""
    if operands[0].aval.dtype != BOOL:
        return elementwise(primitive, *operands)
    return apply(primitive, *promote_numeric(*operands))


def constant_like(x: Array, value: Scalar) -> Array:
    """A Python scalar, converted to the dtype of x."""
    aval = x.aval
    # Python's integers become int64, unless only uint64 has them.
    constant = x._operands(np.uint64(value) if isinstance(value, int) and value >= 2**63 else value)[1]
    return convert(constant, aval.dtype, aval.weak_type)


def full_like(x: Array, value: Scalar) -> Array:
    """An array of the type of x, filled with one value."""
    aval, constant = x.aval, constant_like(x, value)
    return broadcast_to(constant if aval.weak_type else astype(constant, aval.dtype), aval.shape)


def truth(x: Array) -> Array:
    """Whether elements aren't zero."""
    return x if x.aval.dtype == BOOL else apply(ne, x, constant_like(x, 0))


def is_nan(x: Array) -> Array:
    """Whether elements aren't equal to themselves."""
    return apply(ne, x, x)


def where(condition: Array, x: Array, y: Array) -> Array:
    """x where the condition holds, y elsewhere."""
    x, y = promote(x, y)
    # Of integers, the primitive says which operand is taken, not whether they are other than zero.
    done = condition._at_once(select_n, (condition, y, x)) if condition.aval.dtype == BOOL else None
    return _where(condition, x, y) if done is None else done


@prepared
def _where(condition: Array, x: Array, y: Array) -> Array:
    return apply(select_n, truth(condition), y, x)
