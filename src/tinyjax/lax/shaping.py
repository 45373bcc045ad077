"""Functions that rearrange arrays, build them, or choose among them."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from tinyjax.arrays.elementwise import astype
from tinyjax.arrays.shaping import canonical_axis, integer, integers
from tinyjax.errors import IndexingError, ShapeError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INEXACT, DType, as_dtype
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.lax.binding import axes_tuple, operands, sequence, strict
from tinyjax.lax.explicit import computed, described_sharding, device_like, sharding_like
from tinyjax.lax.layouts import OutSharding, laid_out, varying_as
from tinyjax.lax.signatures import HasAval
from tinyjax.lax.types_said import Described, described
from tinyjax.primitives import conversion, selection
from tinyjax.primitives.conversion import BitcastConvertType, ReducePrecision
from tinyjax.primitives.shaping import Iota, Reshape, Rev, Squeeze
from tinyjax.primitives.slicing import Concatenate, Pad, Slice, Split
from tinyjax.primitives.structure import BroadcastInDim, Transpose
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

_T = TypeVar("_T")
#: NumPy's arrays have no more.
_MOST_AXES: Final = 64


def convert_element_type(operand: ArrayLike, new_dtype: npt.DTypeLike) -> Array:
    """The operand with another dtype, strongly typed. A float becomes an integer by rounding towards zero; an integer
    that doesn't fit keeps its lowest bits."""
    dtype = as_dtype(new_dtype)
    if type(operand) is int:  # a weak one may not be wrapped around
        operand = np.asarray(_of_integer(operand, dtype))[()]
    return astype(as_array(operand), dtype)


def _of_integer(number: int, dtype: DType) -> int | float:
    """It, or where it has more than 64 bits, the nearest float, if that is what it is going to be."""
    if -(2**63) <= number < 2**64 or dtype not in INEXACT:
        return number
    try:
        return float(number)
    except OverflowError:
        return number


def bitcast_convert_type(operand: ArrayLike, new_dtype: npt.DTypeLike) -> Array:
    """The same bits read as another dtype. A change of width adds or removes a last axis."""
    return strict(BitcastConvertType(as_dtype(new_dtype)), operand)


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """The operand rounded to a float format with fewer bits, in its own dtype."""
    bits = integers((exponent_bits, mantissa_bits), "reduce_precision: a number of bits")
    return strict(ReducePrecision(*bits), operand)


def copy(x: ArrayLike) -> Array:
    """The same elements in memory of their own."""
    return strict(conversion.copy, x)


def stop_gradient(x: _T) -> _T:
    """A tree of arrays whose derivative is taken to be zero.

    >>> from tinyjax.api.gradients import grad
    >>> grad(lambda x: x * stop_gradient(x))(3.0)
    Array(3., dtype=float64, weak_type=True)
    """
    return tree.map_leaves(lambda leaf: strict(conversion.stop_gradient, as_array(leaf)), x)


def broadcast(operand: ArrayLike, sizes: Sequence[int], *, out_sharding: OutSharding = None) -> Array:
    """The operand repeated along new leading axes of these sizes."""
    x = as_array(operand)
    lead = as_shape(sizes)
    shape = lead + x.aval.shape
    return laid_out(
        x if not lead else strict(BroadcastInDim(shape, tuple(range(len(lead), len(shape)))), x), out_sharding
    )


def broadcast_in_dim(
    operand: ArrayLike, shape: Sequence[int], broadcast_dimensions: Sequence[int], *, out_sharding: OutSharding = None
) -> Array:
    """The operand with its axes at `broadcast_dimensions` of `shape`, in any order, repeated along all others."""
    axes = integers(broadcast_dimensions, "broadcast_in_dim: an axis")
    if len(set(axes)) == len(axes) == as_array(operand).aval.ndim and list(axes) != sorted(axes):
        operand, axes = transpose(operand, sorted(range(len(axes)), key=axes.__getitem__)), tuple(sorted(axes))
    return laid_out(strict(BroadcastInDim(as_shape(shape), axes), operand), out_sharding)


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """x with leading axes of size 1, so that it has `rank` axes."""
    array = as_array(x)
    axes = integer(rank, "broadcast_to_rank: the rank")
    if axes > _MOST_AXES:
        raise ShapeError(f"broadcast_to_rank: an array has at most {_MOST_AXES} axes, as in NumPy, got {axes}")
    return expand_dims(array, range(axes - array.aval.ndim))


def reshape(
    operand: ArrayLike,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """The elements in row-major order in another shape; in the order of axes `dimensions`, if given."""

    def run(x: Array) -> Array:
        return strict(Reshape(as_shape(new_sizes)), x if dimensions is None else transpose(x, dimensions))

    return computed(run, [as_array(operand)], out_sharding)


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """The operand with its axes permuted: axis i of the result is axis `permutation[i]`."""
    return strict(Transpose(integers(permutation, "transpose: an axis")), operand)


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """The array without these axes, whose sizes are 1."""
    x = as_array(array)
    return strict(Squeeze(axes_tuple(dimensions, x.aval.ndim)), x)


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """The array with new axes of size 1 at these positions of the result."""
    x = as_array(array)
    listed = integers(dimensions, "expand_dims: an axis")
    ndim = x.aval.ndim + len(listed)
    added = set(axes_tuple(listed, ndim))
    if len(added) != len(listed) or any(not 0 <= axis < ndim for axis in added):
        raise ShapeError(f"expand_dims: {listed} are not distinct axes of a result with {ndim} dimensions")
    kept = tuple(axis for axis in range(ndim) if axis not in added)
    sizes = iter(x.aval.shape)
    shape = tuple(1 if axis in added else next(sizes) for axis in range(ndim))
    return strict(BroadcastInDim(shape, kept), x) if added else x


def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Array:
    """The operands one after the other along an axis."""
    given = sequence("concatenate: operands", operands)
    if not given:
        raise ShapeError("concatenate needs at least one operand")
    return strict(Concatenate(integer(dimension, "concatenate: the dimension")), *given)


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """The parts of these sizes that an axis is made of, one after the other."""
    x = as_array(operand)
    axis = canonical_axis(axis, x.aval.ndim, "split")
    return list(bind(Split(integers(sizes, "split: a size"), axis), x))


def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """The operand with (low, high, interior) elements added along each axis; negative ones are taken away."""
    widths = [
        integers(sequence("pad: an entry of padding_config", widths, 3), "pad: a number of elements")
        for widths in sequence("pad: padding_config", padding_config)
    ]
    return strict(Pad(tuple((low, high, inner) for low, high, inner in widths)), operand, padding_value)


def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """The elements from `start_indices` up to `limit_indices`, every `strides`-th along each axis."""
    starts, limits = (integers(bounds, "slice: a bound") for bounds in (start_indices, limit_indices))
    steps = None if strides is None else integers(strides, "slice: a stride")
    return strict(Slice(starts, limits, steps), operand)


def slice_in_dim(
    operand: ArrayLike, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Array:
    """A slice along one axis; negative bounds count from the end."""
    x = as_array(operand)
    axis = canonical_axis(axis, x.aval.ndim, "slice_in_dim")
    starts, limits, strides = [0] * x.aval.ndim, list(x.aval.shape), [1] * x.aval.ndim
    size = limits[axis]
    start = 0 if start_index is None else integer(start_index, "slice_in_dim: a bound")
    limit = size if limit_index is None else integer(limit_index, "slice_in_dim: a bound")
    starts[axis] = start + size if start < 0 else start
    limits[axis] = limit + size if limit < 0 else limit
    strides[axis] = stride
    return slice(x, starts, limits, strides)


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """One element along an axis, which stays with size 1 if `keepdims`."""
    x = as_array(operand)
    axis = canonical_axis(axis, x.aval.ndim, "index_in_dim")
    index, size = integer(index, "index_in_dim: the index"), x.aval.shape[axis]
    if not -size <= index < size:
        raise IndexingError(
            f"index_in_dim: index {index} is out of bounds for axis {axis} with size {size}, of {x.aval}"
        )
    position = index % size
    found = slice_in_dim(x, position, position + 1, 1, axis)
    return found if keepdims else squeeze(found, (axis,))


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """The operand reversed along these axes."""
    x = as_array(operand)
    return strict(Rev(axes_tuple(dimensions, x.aval.ndim)), x)


def iota(dtype: npt.DTypeLike, size: int) -> Array:
    """0, 1, ..., size - 1."""
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(
    dtype: npt.DTypeLike, shape: Sequence[int], dimension: int, *, out_sharding: OutSharding = None
) -> Array:
    """An array in which each element is its own index along one axis."""
    return laid_out(
        bind(Iota(as_dtype(dtype), as_shape(shape), integer(dimension, "iota: the dimension")))[0], out_sharding
    )


def full(
    shape: Sequence[int], fill_value: ArrayLike, dtype: npt.DTypeLike | None = None, *, sharding: OutSharding = None
) -> Array:
    """An array filled with one scalar."""
    value = as_array(fill_value) if dtype is None else convert_element_type(fill_value, dtype)
    if value.aval.ndim:
        raise ShapeError(f"full: the fill value must be a scalar, got {value.aval}")
    return laid_out(broadcast(value, as_shape(shape)), sharding)


def full_like(
    x: ArrayLike | ShapedArray | HasAval | Described,
    fill_value: ArrayLike,
    dtype: npt.DTypeLike | None = None,
    shape: Sequence[int] | None = None,
    sharding: OutSharding = None,
) -> Array:
    """An array like x, or of such a type, filled with one scalar: of x's shape and type, unless others are given.

    Within `shard_map`, it varies along the axes of the mesh along which x does.
    """
    said = described(x)
    aval = as_array(x).aval if said is None else said
    if sharding is None and shape is None:
        sharding = sharding_like(x) if isinstance(x, Array) else described_sharding(x)
    value = convert_element_type(fill_value, aval.dtype if dtype is None else dtype)
    if dtype is None and aval.weak_type:
        (value,) = bind(conversion.conversion(aval.dtype, True), value)
    found = full(aval.shape if shape is None else shape, varying_as(value, aval))
    place = device_like(x) if sharding is None else None
    return laid_out(found if place is None else found.to_device(place), sharding)


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Where `pred` holds, the elements of `on_true`, elsewhere those of `on_false`. `pred` may be a scalar."""
    return select_n(pred, on_false, on_true)


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """For each element, that of the case whose number is in `which`: a bool (two cases) or an int32."""
    return bind(selection.select_n, as_array(which), *operands(*cases))[0]


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """x, or the nearest bound. The bounds have x's shape, or are scalars."""
    return strict(selection.clamp, min, x, max)


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """The operand with consecutive axes merged into one.

    The dimensions are bounds as those of a slice. Between bounds without an axis a new one of size 1 is made.

    >>> import numpy as np
    >>> collapse(np.zeros((2, 3, 4)), 1).shape
    (2, 12)
    >>> collapse(np.zeros((2, 3)), 2).shape
    (2, 3, 1)
    """
    x = as_array(operand)
    shape: Shape = x.aval.shape
    first = integer(start_dimension, "collapse: a dimension")
    last = None if stop_dimension is None else integer(stop_dimension, "collapse: a dimension")
    start, stop, _ = builtins.slice(first, last).indices(x.aval.ndim)
    if stop < start:
        raise ShapeError(f"collapse: {x.aval} has no dimensions from {first} to {last}")
    return reshape(x, (*shape[:start], math.prod(shape[start:stop]), *shape[stop:]))
