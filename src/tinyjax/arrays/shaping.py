"""Changes of shape, as NumPy has them: reshape, transpose, squeeze and their relatives."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, SupportsIndex, TypeAlias

import numpy as np

from tinyjax.arrays.elementwise import promote
from tinyjax.arrays.intake import as_array
from tinyjax.caching import bounded
from tinyjax.deferred import LAID_OUT
from tinyjax.errors import AxisError, ConcretizationError, ShapeError, UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INTEGERS
from tinyjax.ir.result_types import made_once
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.meshes import NamedSharding, PartitionSpec
from tinyjax.prepared.functions import prepared
from tinyjax.primitives.shaping import Reshape, Squeeze
from tinyjax.primitives.slicing import Concatenate, Slice
from tinyjax.primitives.stacking import Stack
from tinyjax.primitives.structure import BroadcastInDim, Transpose

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array, ArrayLike

Axes: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
_INT: Final = frozenset({int})
#: Which axis of an array counts fastest: the last one, or the first.
_ORDERS: Final = ("C", "F")

# Axes.


def integer(x: SupportsIndex, what: str) -> int:
    """A Python integer; a ShapeError that says what must be one."""
    try:
        return operator.index(x)
    except ConcretizationError:
        raise
    except TypeError:
        if isinstance(x, np.generic) and x.dtype in INTEGERS:  # int4's are no indices of Python
            return int(x.astype(np.int64))
        raise ShapeError(f"{what} is an integer, got {x!r}") from None


def integers(x: SupportsIndex | Iterable[SupportsIndex], what: str) -> tuple[int, ...]:
    """One integer or several; a ShapeError that says what each of them must be."""
    # Protocols are slow to check, so plain integers come first.
    if type(x) is int:
        return (x,)
    if type(x) is tuple and _INT.issuperset(map(type, x)):
        return x
    if isinstance(x, Iterable) and getattr(x, "shape", None) != ():
        return tuple(integer(size, what) for size in x)
    if isinstance(x, SupportsIndex):
        return (integer(x, what),)
    raise ShapeError(f"{what} is an integer, got {x!r}")


def canonical_axis(axis: SupportsIndex, ndim: int, name: str) -> int:
    """An axis, counted from the end if negative, as one from 0 to ndim - 1; an AxisError if there is none."""
    found = integer(axis, f"{name}: an axis")
    if not -ndim <= found < ndim:
        raise AxisError(f"{name}: axis {found} is out of range for an array with {ndim} axes")
    return found % ndim


def canonical_axes(axes: SupportsIndex | Iterable[SupportsIndex] | None, ndim: int, name: str) -> tuple[int, ...]:
    """Axes in ascending order: all of them for None. An AxisError if one doesn't exist, a ShapeError if
    one is listed twice."""
    if axes is None:
        return tuple(range(ndim))
    if type(axes) is int:
        return (canonical_axis(axes, ndim, name),)
    given = integers(axes, f"{name}: an axis")
    found = sorted(canonical_axis(axis, ndim, name) for axis in given)
    if len(set(found)) < len(found):
        raise ShapeError(f"{name}: duplicate value in 'axis': {given}")
    return tuple(found)


# Shapes.


def reshape(x: Array, shape: SupportsIndex | Iterable[SupportsIndex], order: str = "C") -> Array:
    """The same elements in another shape; one size may be -1. `order` "F" counts the first axis fastest."""
    sizes = _full_shape(x.aval, integers(shape, "reshape: a size"))
    if not (type(order) is str and order in _ORDERS):
        raise UnsupportedError(f"reshape: order is 'C' or 'F', got {order!r}")
    if order == "C":
        return x if sizes == x.aval.shape else x._bind(made_once(Reshape, sizes), x)[0]
    return transpose(reshape(transpose(x), sizes[::-1]))


@bounded(4096)
def _full_shape(aval: ShapedArray, shape: tuple[int, ...]) -> Shape:
    """The shape with the size that -1 stands for."""
    sizes = list(shape)
    if sizes.count(-1) == 1:
        rest = math.prod(n for n in sizes if n != -1)
        if rest == 0 or aval.size % rest:
            raise ShapeError(f"reshape: {aval} can't have the shape {shape}: {aval.size} isn't a multiple of {rest}")
        sizes[sizes.index(-1)] = aval.size // rest
    if any(n < 0 for n in sizes):
        raise ShapeError(f"reshape: sizes are at least 0, and one may be -1, got {tuple(sizes)}")
    return as_shape(sizes)


def ravel(a: ArrayLike, order: str = "C", *, out_sharding: NamedSharding | PartitionSpec | None = None) -> Array:
    """The elements in one axis, which lies on a mesh as `out_sharding` says."""
    x = as_array(a)
    if out_sharding is None:
        return reshape(x, x.aval.size, order)
    return LAID_OUT.use(lambda x: reshape(x, x.aval.size, order), [x], out_sharding)


def transpose(x: Array, axes: Iterable[SupportsIndex] | None = None) -> Array:
    """The axes in this order, by default reversed."""
    ndim = x.aval.ndim
    if axes is None:
        order = tuple(range(ndim - 1, -1, -1))
    else:
        order = tuple(canonical_axis(axis, ndim, "transpose") for axis in axes)
    return x if order == tuple(range(ndim)) else x._bind(made_once(Transpose, order), x)[0]


def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two axes exchanged."""
    array = as_array(x)
    if array.aval.ndim < 2:
        raise ShapeError(f"matrix_transpose needs an array with at least two axes, got {array.aval}")
    return swapaxes(array, -1, -2)


@prepared
def swapaxes(a: ArrayLike, axis1: SupportsIndex, axis2: SupportsIndex) -> Array:
    """Two axes exchanged."""
    x = as_array(a)
    ndim = x.aval.ndim
    first, second = canonical_axis(axis1, ndim, "swapaxes"), canonical_axis(axis2, ndim, "swapaxes")
    order = list(range(ndim))
    order[first], order[second] = second, first
    return transpose(x, order)


@prepared
def moveaxis(a: ArrayLike, source: Axes, destination: Axes) -> Array:
    """The axes `source` moved to `destination`; the others stay in order."""
    x = as_array(a)
    ndim = x.aval.ndim
    starts, ends = (_listed(axes, ndim) for axes in (source, destination))
    if len(starts) != len(ends) or len(set(starts)) < len(starts) or len(set(ends)) < len(ends):
        raise ShapeError(
            f"moveaxis: source and destination must list as many axes, each once, got {source}, {destination}"
        )
    order = [axis for axis in range(ndim) if axis not in starts]
    for end, start in sorted(zip(ends, starts, strict=True)):
        order.insert(end, start)
    return transpose(x, order)


def _listed(axes: Axes, ndim: int) -> list[int]:
    return [canonical_axis(axis, ndim, "moveaxis") for axis in (axes if isinstance(axes, Sequence) else [axes])]


def squeeze(a: ArrayLike, axis: SupportsIndex | Iterable[SupportsIndex] | None = None) -> Array:
    """The array without axes of size 1: all of them, or these."""
    x = as_array(a)
    shape = x.aval.shape
    if axis is None:
        axes = tuple(i for i, size in enumerate(shape) if size == 1)
    else:
        axes = canonical_axes(axis, len(shape), "squeeze")
    return x._bind(made_once(Squeeze, axes), x)[0] if axes else x


def expand_dims(a: ArrayLike, axis: Axes) -> Array:
    """a with new axes of size 1, which are at these places of the result."""
    x = as_array(a)
    count = 1 if type(axis) is int else len(axis) if isinstance(axis, Sequence) else 1
    added = canonical_axes(axis, x.aval.ndim + count, "expand_dims")
    return x._bind(expansion(x.aval.shape, added), x)[0] if added else x


@bounded(4096)
def expansion(own: Shape, added: tuple[int, ...]) -> BroadcastInDim:
    """What gives an array of this shape new axes of size 1, which are at these places of the result."""
    sizes, axes = iter(own), range(len(own) + len(added))
    shape = tuple(1 if i in added else next(sizes) for i in axes)
    return BroadcastInDim(shape, tuple(i for i in axes if i not in added))


def concatenate(arrays: Sequence[Array], axis: int) -> Array:
    """The arrays, promoted to one dtype and joined along an axis."""
    if len(arrays) == 1:
        return arrays[0]
    parts = promote(*arrays)
    return parts[0]._bind(made_once(Concatenate, axis), *parts)[0]


def stack(arrays: Sequence[Array], axis: int) -> Array:
    """The arrays, which have one shape, promoted to one dtype and joined along a new axis."""
    parts = promote(*arrays)
    return parts[0]._bind(made_once(Stack, axis), *parts)[0]


@prepared
def diagonal(a: ArrayLike, offset: SupportsIndex = 0, axis1: SupportsIndex = 0, axis2: SupportsIndex = 1) -> Array:
    """The elements whose index along `axis2` is that along `axis1` plus `offset`, as the last axis."""
    x = as_array(a)
    ndim, k = x.aval.ndim, integer(offset, "the offset")
    rows_at, columns_at = canonical_axis(axis1, ndim, "diagonal"), canonical_axis(axis2, ndim, "diagonal")
    if rows_at == columns_at:
        raise ShapeError(f"diagonal: axis1 and axis2 must be two axes, got {axis1} and {axis2}")
    x = moveaxis(x, (rows_at, columns_at), (-2, -1))
    *batch, rows, columns = x.aval.shape
    size = max(0, min(rows + min(k, 0), columns - max(k, 0)))
    # In row-major order they are `columns + 1` apart.
    start = max(k, 0) - min(k, 0) * columns if size else 0
    limit = start + (size - 1) * (columns + 1) + 1 if size else 0
    flat = reshape(x, (*batch, rows * columns))
    taken = made_once(Slice, (*[0] * len(batch), start), (*batch, limit), (*[1] * len(batch), columns + 1))
    return flat._bind(taken, flat)[0]
