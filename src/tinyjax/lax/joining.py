"""Arrays put side by side, taken apart, and repeated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from tinyjax.arrays import elementwise
from tinyjax.arrays.shaping import canonical_axis, integers
from tinyjax.errors import InputError, ShapeError
from tinyjax.ir.dtypes import as_dtype
from tinyjax.ir.result_types import made_once
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.lax.binding import sequence, strict
from tinyjax.lax.layouts import OutSharding, laid_out
from tinyjax.lax.shaping import broadcast_in_dim, full, reshape
from tinyjax.prepared.functions import prepared
from tinyjax.primitives.stacking import Stack, Unstack
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind


def stack(operands: Sequence[ArrayLike], axis: int = 0) -> Array:
    """Arrays of one shape and dtype along a new axis.

    >>> import numpy as np
    >>> stack([np.arange(3), np.arange(3) + 10], axis=1).shape
    (3, 2)
    """
    arrays = [as_array(x) for x in sequence("what stack takes", operands)]
    if not arrays:
        raise InputError("stack needs at least one array")
    if len({x.aval.shape for x in arrays}) > 1:
        raise ShapeError(f"stack needs arrays of one shape; got {', '.join(str(x.aval) for x in arrays)}")
    at = canonical_axis(axis, arrays[0].aval.ndim + 1, "stack")
    return strict(made_once(Stack, at), *arrays)


@prepared
def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The parts of an array along an axis, without that axis.

    >>> import numpy as np
    >>> [part.tolist() for part in unstack(np.arange(6).reshape(2, 3), axis=1)]
    [[0, 3], [1, 4], [2, 5]]
    """
    array = as_array(x)
    at = canonical_axis(axis, array.aval.ndim, "unstack")
    return tuple(bind(made_once(Unstack, at), array))


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """An array repeated along each of its axes as often as `reps` says: a number for each.

    >>> import numpy as np
    >>> tile(np.array([[1, 2]]), (2, 2)).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    x, counts = as_array(operand), integers(reps, "tile: a number of repetitions")
    shape = x.aval.shape
    if len(counts) != len(shape) or any(count < 0 for count in counts):
        raise ShapeError(f"tile needs a number that isn't negative for each axis of {x.aval}; got reps={counts}")
    spread = tuple(size for pair in zip(counts, shape, strict=True) for size in pair)
    repeated = broadcast_in_dim(x, spread, range(1, 2 * len(shape), 2))
    return reshape(repeated, tuple(count * size for count, size in zip(counts, shape, strict=True)))


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """The shape that arrays of these shapes are broadcast to together, by NumPy's rules; a ShapeError if there is none.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    return elementwise.broadcast_shapes(*map(as_shape, shapes))


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """An array broadcast to the shape of another one.

    >>> import numpy as np
    >>> broadcast_like(np.array([1, 2]), np.zeros((2, 2))).tolist()
    [[1, 2], [1, 2]]
    """
    return elementwise.broadcast_to(as_array(arr), as_array(like_arr).aval.shape)


def empty(shape: int | Sequence[int], dtype: npt.DTypeLike, *, out_sharding: OutSharding = None) -> Array:
    """An array whose elements nobody should read: here they are zeros.

    >>> empty((2, 3), "float32").shape
    (2, 3)
    """
    sizes = integers(shape, "empty: a size")
    return laid_out(full(as_shape(sizes), False, as_dtype(dtype)), out_sharding)
