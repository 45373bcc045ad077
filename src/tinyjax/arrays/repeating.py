"""Each element several times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

from tinyjax import arrays
from tinyjax.arrays import along_axis
from tinyjax.arrays.elementwise import astype, broadcast_to
from tinyjax.arrays.intake import as_array
from tinyjax.arrays.operators import Operators
from tinyjax.arrays.shaping import canonical_axis, integer, ravel, reshape
from tinyjax.deferred import LAID_OUT
from tinyjax.errors import ConcretizationError, InputError, ShapeError
from tinyjax.ir.dtypes import INT64, INTEGERS, HostArray
from tinyjax.ir.result_types import made_once
from tinyjax.meshes import NamedSharding, PartitionSpec
from tinyjax.primitives.structure import BroadcastInDim

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array, ArrayLike


def repeat(
    a: ArrayLike,
    repeats: SupportsIndex | ArrayLike,
    axis: SupportsIndex | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """`tinyjax.numpy.repeat`."""
    x = as_array(a)
    if out_sharding is None:
        return _along(x, repeats, axis, total_repeat_length)
    return LAID_OUT.use(lambda x: _along(x, repeats, axis, total_repeat_length), [x], out_sharding)


def _along(
    x: Array, repeats: SupportsIndex | ArrayLike, axis: SupportsIndex | None, total_repeat_length: int | None
) -> Array:
    if axis is None:
        return _along(ravel(x), repeats, 0, total_repeat_length)
    if not x.aval.ndim:  # as in NumPy, a number is a vector of one
        x = ravel(x)
    at = canonical_axis(axis, x.aval.ndim, "repeat")
    counts = _counts(repeats, x, at)
    if total_repeat_length is None and (isinstance(counts, int) or counts.aval.shape == ()):
        return _repeated(x, integer(counts, "repeat: repeats"), at)
    given, size = as_array(counts), x.aval.shape[at]
    if total_repeat_length is None:
        known = given.concrete()
        if known is None:
            raise ConcretizationError(
                f"repeat: the size of the result is the sum of repeats, {given.aval}, which isn't known here. "
                "Pass total_repeat_length, for a result of that size; or call it outside of jit and vmap."
            )
        return arrays.taking.take(x, as_array(_places(np.broadcast_to(np.asarray(known.data), (size,)))), at, "clip")
    found = broadcast_to(given, (size,))
    total = integer(total_repeat_length, "repeat: total_repeat_length")
    if total < 0 or (total and not x.aval.shape[at]):
        raise ShapeError(f"repeat: a result of {total} elements can't be made of axis {at} of {x.aval}")
    if not total:
        return arrays.taking.take(x, as_array(np.zeros(0, np.int64)), at)
    ends = along_axis.cumsum(astype(found, INT64))
    # As many have ended before a place as its element's number says.
    marks = as_array(np.zeros(total, np.int64)).at[ends].add(1, mode="drop", wrap_negative_indices=False)
    return arrays.taking.take(x, along_axis.cumsum(marks), at, "clip")


def _vector(numbers: Sequence[object]) -> HostArray:
    try:
        return np.asarray(numbers)
    except ValueError:
        raise InputError(f"repeat: repeats must be integers, got {numbers!r}") from None


def _counts(repeats: SupportsIndex | ArrayLike, x: Array, axis: int) -> Array | int:
    """How often each element is repeated: a number, or an array."""
    if isinstance(repeats, int):
        return repeats
    if isinstance(repeats, np.ndarray | np.generic | float | complex | Operators):
        counts = as_array(repeats)
    elif isinstance(repeats, list | tuple):
        counts = as_array(_vector(repeats))
    else:
        return integer(repeats, "repeat: repeats")
    if not counts.aval.size and counts.aval.dtype not in INTEGERS:
        counts = astype(counts, INT64)
    if counts.aval.dtype not in INTEGERS:
        raise InputError(f"repeat: repeats must be integers, got {counts.aval}")
    if counts.aval.ndim > 1 or counts.aval.shape not in ((), (1,), (x.aval.shape[axis],)):
        raise ShapeError(f"repeat: there must be a number for each place on axis {axis} of {x.aval}, got {counts.aval}")
    return counts


def _places(counts: HostArray) -> HostArray:
    if (counts < 0).any():
        raise ShapeError(f"repeat: repeats are at least 0, got {counts.min()}")
    return np.repeat(np.arange(len(counts)), counts)


def _repeated(x: Array, count: int, at: int) -> Array:
    shape = x.aval.shape
    if count < 0:
        raise ShapeError(f"repeat: repeats is at least 0, got {count}")
    between = (*shape[: at + 1], count, *shape[at + 1 :])
    kept = tuple(i for i in range(len(between)) if i != at + 1)
    (repeated,) = x._bind(made_once(BroadcastInDim, between, kept), x)
    return reshape(repeated, (*shape[:at], shape[at] * count, *shape[at + 1 :]))
