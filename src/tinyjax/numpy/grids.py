"""Positions: of the diagonals and triangles of matrices, in row-major order, and on grids."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, Literal, SupportsIndex, TypeVar, final, overload

import numpy as np
import numpy.typing as npt

from tinyjax.arrays.arithmetic import floor_divide, remainder
from tinyjax.arrays.elementwise import astype, broadcast_to, user_dtype, where
from tinyjax.arrays.shaping import expand_dims, integer, reshape
from tinyjax.errors import ChoiceError, ConcretizationError, InputError, ShapeError
from tinyjax.ir.dtypes import BOOL, INT64, INTEGERS, UINT64, UNSIGNED
from tinyjax.lax.binding import is_many, sequence
from tinyjax.numpy.arguments import iota, shape_of
from tinyjax.numpy.arithmetic import maximum
from tinyjax.numpy.creation import arange, asarray, ones
from tinyjax.numpy.finding import nonzero
from tinyjax.numpy.joining import stack
from tinyjax.numpy.ranges import range_of
from tinyjax.numpy.signatures import Arrays, Nested, ShapeLike
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

_T = TypeVar("_T")
_MODES: Final = "'raise', 'clip', 'wrap' or 'ignore'"

# Of matrices.


def tril_indices(n: SupportsIndex, k: SupportsIndex = 0, m: SupportsIndex | None = None) -> tuple[Array, Array]:
    """The rows and columns of the elements on and below the k-th diagonal of an n by m matrix.

    >>> tril_indices(2)
    (Array([0, 1, 1], dtype=int64), Array([0, 0, 1], dtype=int64))
    """
    return _pair(np.tril_indices(integer(n, "tril_indices: n"), integer(k, "tril_indices: k"), _columns(m)))


def triu_indices(n: SupportsIndex, k: SupportsIndex = 0, m: SupportsIndex | None = None) -> tuple[Array, Array]:
    """The rows and columns of the elements on and above the k-th diagonal of an n by m matrix.

    >>> triu_indices(2)
    (Array([0, 0, 1], dtype=int64), Array([0, 1, 1], dtype=int64))
    """
    return _pair(np.triu_indices(integer(n, "triu_indices: n"), integer(k, "triu_indices: k"), _columns(m)))


def _columns(m: SupportsIndex | None) -> int | None:
    return None if m is None else integer(m, "the number of columns m")


def _pair(found: Sequence[npt.NDArray[np.intp]]) -> tuple[Array, Array]:
    rows, columns = (as_array(places.astype(np.int64)) for places in found)
    return rows, columns


def tril_indices_from(arr: ArrayLike, k: SupportsIndex = 0) -> tuple[Array, Array]:
    """`tril_indices` for a matrix of this shape.

    >>> tril_indices_from(np.eye(2), -1)
    (Array([1], dtype=int64), Array([0], dtype=int64))
    """
    return tril_indices(*_offset_shape("tril_indices_from", arr, k))


def triu_indices_from(arr: ArrayLike, k: SupportsIndex = 0) -> tuple[Array, Array]:
    """`triu_indices` for a matrix of this shape.

    >>> triu_indices_from(np.eye(2), 1)
    (Array([0], dtype=int64), Array([1], dtype=int64))
    """
    return triu_indices(*_offset_shape("triu_indices_from", arr, k))


def _offset_shape(name: str, arr: ArrayLike, k: SupportsIndex) -> tuple[int, SupportsIndex, int]:
    x = as_array(arr)
    if x.ndim != 2:
        raise ShapeError(f"{name} takes a matrix, got {x.aval}")
    return x.shape[0], k, x.shape[1]


def diag_indices(n: SupportsIndex, ndim: SupportsIndex = 2) -> tuple[Array, ...]:
    """The positions of the main diagonal of an array with `ndim` axes of size n.

    >>> diag_indices(2)
    (Array([0, 1], dtype=int64), Array([0, 1], dtype=int64))
    """
    size, count = integer(n, "diag_indices: n"), integer(ndim, "diag_indices: ndim")
    if size < 0 or count < 0:
        raise ShapeError(f"diag_indices: n and ndim are at least 0, got {size} and {count}")
    return (arange(size),) * count


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The positions of the main diagonal of an array, whose axes have one size.

    >>> diag_indices_from(np.eye(2))
    (Array([0, 1], dtype=int64), Array([0, 1], dtype=int64))
    """
    x = as_array(arr)
    if x.ndim < 2 or len(set(x.shape)) > 1:
        raise ShapeError(f"diag_indices_from takes an array with two or more axes of one size, got {x.aval}")
    return diag_indices(x.shape[0], x.ndim)


@overload
def mask_indices(
    n: SupportsIndex, mask_func: Callable[[Array, int], Array], k: int = 0, *, size: int | None = None
) -> tuple[Array, Array]: ...
@overload
def mask_indices(
    n: SupportsIndex, mask_func: Callable[[Array, _T], Array], k: _T, *, size: int | None = None
) -> tuple[Array, Array]: ...
def mask_indices(
    n: SupportsIndex,
    mask_func: Callable[..., Array],
    k: object = 0,
    *,
    size: int | None = None,
) -> tuple[Array, Array]:
    """The rows and columns where `mask_func(ones((n, n)), k)` isn't zero. `size` as for nonzero.

    >>> import tinyjax.numpy as tnp
    >>> mask_indices(2, tnp.triu)
    (Array([0, 0, 1], dtype=int64), Array([0, 1, 1], dtype=int64))
    """
    count = integer(n, "mask_indices: n")
    rows, columns = nonzero(mask_func(ones((count, count)), k), size=size)
    return rows, columns


# In row-major order.


def unravel_index(indices: ArrayLike, shape: ShapeLike | Array) -> tuple[Array, ...]:
    """The positions on each axis of these places in row-major order. Those out of range are moved to the nearest end.

    They have the dtype of the places, or int64 if that is a signed one which is too short for an axis: negative places
    count from the end.
    The sizes may be traced; then they are computed with as int64.

    >>> unravel_index(5, (2, 3))
    (Array(1, dtype=int64, weak_type=True), Array(2, dtype=int64, weak_type=True))
    """
    places, sizes = as_array(indices), _sizes_to_compute_with(shape)
    if places.dtype == BOOL:
        places = astype(places, INT64)
    if places.dtype not in INTEGERS:
        raise InputError(f"unravel_index: positions must be integers, got {places.aval}")
    own, total = places.dtype, math.prod(sizes, start=1)
    short = any(isinstance(size, int) and size > 2 ** (8 * own.itemsize - 1) for size in sizes)
    if not isinstance(total, int) or own in UNSIGNED or total >= 2 ** (8 * own.itemsize - 1):
        places = astype(places.clip(0, 2**63 - 1) if own == UINT64 else places, INT64)
    total = as_array(total)
    places = where(places < -total, -total, where(places >= total, maximum(total - 1, 0), places))
    places = where(places < 0, places + total, places)
    out: list[Array] = []
    for left in range(len(sizes) - 1, -1, -1):
        size = as_array(sizes[left])
        out.append(remainder(places, size))
        places = floor_divide(places, maximum(size, 1)) if left else places
    kept = INT64 if short and own not in UNSIGNED else own
    return tuple(astype(x, kept) if x.dtype != kept else x for x in reversed(out))


def _sizes_to_compute_with(shape: ShapeLike | Array) -> Sequence[int | Array]:
    """Sizes as they are, if they are known; else as int64."""
    given: list[object] = list(shape) if is_many(shape) else [shape]
    if not any(isinstance(size, Array) and size.concrete() is None for size in given):
        return shape_of(shape)
    return [size if isinstance(size, int) else astype(as_array(size), INT64) for size in given]


def ravel_multi_index(
    multi_index: Arrays,
    dims: ShapeLike,
    mode: str | tuple[str, ...] = "raise",
    order: str = "C",
    *,
    dtype: npt.DTypeLike | None = None,
) -> Array:
    """The places in row-major order (or, for `order` "F", the other way round) of positions on each axis.

    `mode`, one for all axes or one for each, is what becomes of positions out of range: "clip", "wrap", "ignore" (they
    count as they are), or "raise", for which they must be known.

    >>> ravel_multi_index((np.array([0, 1]), np.array([2, 1])), (2, 3))
    Array([2, 4], dtype=int64)
    """
    positions, sizes = [as_array(x) for x in sequence("ravel_multi_index: multi_index", multi_index)], shape_of(dims)
    modes = (mode,) * len(sizes) if isinstance(mode, str) else sequence("ravel_multi_index: mode", mode)
    if not len(positions) == len(sizes) == len(modes):
        raise ShapeError(f"ravel_multi_index: {len(positions)} positions and {len(modes)} modes for {len(sizes)} sizes")
    if order not in ("C", "F"):
        raise ChoiceError(f"ravel_multi_index: order is 'C' or 'F', got {order!r}")
    if not all(isinstance(each, str) for each in modes):
        raise ChoiceError(f"ravel_multi_index: mode is {_MODES}, got {mode!r}")
    wide = user_dtype(dtype) or INT64
    strides = np.cumprod([1, *(sizes[:0:-1] if order == "C" else sizes[:-1])])[: len(sizes)].tolist()
    total = as_array(np.zeros((), INT64))
    for x, size, chosen, stride in zip(
        positions, sizes, modes, reversed(strides) if order == "C" else strides, strict=True
    ):
        if x.dtype not in INTEGERS:
            raise InputError(f"ravel_multi_index: positions must be integers, got {x.aval}")
        total = total + astype(_within(x, size, chosen), INT64) * stride
    return astype(total, wide)


def _within(x: Array, size: int, mode: str) -> Array:
    if mode == "clip":
        return astype(x, INT64).clip(0, size - 1)
    if mode == "wrap":
        return remainder(astype(x, INT64), as_array(size))
    if mode == "ignore":
        return x
    if mode != "raise":
        raise ChoiceError(f"ravel_multi_index: mode is {_MODES}, got {mode!r}")
    known = x.concrete()
    if known is None:
        raise ConcretizationError(
            f"ravel_multi_index: with mode='raise' the positions must be known, which they aren't of {x.aval} here. "
            "Pass mode='clip' or mode='wrap'."
        )
    found = np.asarray(known.data)
    if ((found < 0) | (found >= size)).any():
        raise ChoiceError(f"invalid entry in coordinates array of ravel_multi_index, for an axis of size {size}")
    return x


# On grids.


@overload
def indices(
    dimensions: Sequence[SupportsIndex], dtype: npt.DTypeLike | None = None, sparse: Literal[False] = False
) -> Array: ...
@overload
def indices(
    dimensions: Sequence[SupportsIndex], dtype: npt.DTypeLike | None = None, *, sparse: Literal[True]
) -> tuple[Array, ...]: ...
def indices(
    dimensions: Sequence[SupportsIndex], dtype: npt.DTypeLike | None = None, sparse: bool = False
) -> Array | tuple[Array, ...]:
    """The position of each element of an array of this shape, on each axis; with `sparse` as arrays to be broadcast.

    >>> indices((2, 2)).tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    sizes, chosen = shape_of(dimensions), user_dtype(dtype) or INT64
    count = len(sizes)
    parts = [
        iota(chosen, tuple(n if not sparse or i == axis else 1 for i, n in enumerate(sizes)), axis)
        for axis in range(count)
    ]
    if sparse:
        return tuple(parts)
    return stack(parts) if parts else as_array(np.zeros((0,), chosen))


def ix_(*args: Nested) -> tuple[Array, ...]:
    """Vectors as arrays whose product is a grid: `x[ix_(rows, columns)]`. Bools stand for the positions of True.

    >>> ix_(np.array([0, 2]), np.array([1]))
    (Array([[0],
           [2]], dtype=int64), Array([[1]], dtype=int64))
    """
    out: list[Array] = []
    for axis, arg in enumerate(args):
        x = asarray(arg)
        if x.ndim != 1:
            raise ShapeError(f"ix_ takes vectors, got {x.aval}")
        if not x.size and not isinstance(arg, Array | np.ndarray):
            x = astype(x, INT64)
        found = nonzero(x)[0] if x.dtype == BOOL else x
        out.append(reshape(found, tuple(-1 if i == axis else 1 for i in range(len(args)))) if found.size else
                   reshape(found, tuple(0 if i == axis else 1 for i in range(len(args)))))  # fmt: skip
    return tuple(out)


@final
class _Grid:
    """See `mgrid` and `ogrid`."""

    __slots__ = ("_sparse",)

    def __init__(self, sparse: bool) -> None:
        self._sparse: bool = sparse

    def parts(self, key: slice | tuple[slice, ...]) -> list[Array]:
        vectors = [range_of(part) for part in (key if isinstance(key, tuple) else (key,))]
        if len({vector.dtype for vector in vectors}) > 1:
            wide = np.result_type(*[vector.dtype for vector in vectors])
            vectors = [astype(vector, wide) for vector in vectors]
        sizes = tuple(vector.size for vector in vectors)
        out: list[Array] = []
        for axis, vector in enumerate(vectors):
            x = expand_dims(vector, [i for i in range(len(vectors)) if i != axis])
            out.append(x if self._sparse else broadcast_to(x, sizes))
        return out


@final
class _DenseGrid:
    """`mgrid[0:2, 0:3]` are the coordinates of a grid, one array with a first axis for these ranges."""

    __slots__ = ()

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Array:
        if key == slice(None) or key == ():
            return arange(0)
        parts = _Grid(False).parts(key)
        return stack(parts) if isinstance(key, tuple) else parts[0]


@final
class _OpenGrid:
    """`ogrid[0:2, 0:3]` are the coordinates of a grid, as arrays to be broadcast."""

    __slots__ = ()

    @overload
    def __getitem__(self, key: slice) -> Array: ...
    @overload
    def __getitem__(self, key: tuple[slice, ...]) -> list[Array]: ...
    def __getitem__(self, key: slice | tuple[slice, ...]) -> Array | list[Array]:
        if key == slice(None):
            return arange(0)
        parts = _Grid(True).parts(key)
        return parts if isinstance(key, tuple) else parts[0]


mgrid: Final = _DenseGrid()
ogrid: Final = _OpenGrid()
