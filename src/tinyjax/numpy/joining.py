"""Arrays joined, and cut into parts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import SupportsIndex, TypeGuard

import numpy as np
import numpy.typing as npt

from tinyjax.arrays import shaping
from tinyjax.arrays.elementwise import converted
from tinyjax.arrays.intake import refuse_out
from tinyjax.arrays.shaping import canonical_axis, integer, integers
from tinyjax.errors import ShapeError
from tinyjax.ir.result_types import made_once
from tinyjax.numpy.arguments import with_axes
from tinyjax.numpy.signatures import Arrays, Sections
from tinyjax.prepared.functions import prepared
from tinyjax.primitives.slicing import Split
from tinyjax.primitives.stacking import Unstack
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind


def _list(name: str, arrays: Arrays) -> list[Array]:
    found = [as_array(x) for x in arrays]
    if not found:
        raise ShapeError(f"{name} needs at least one array")
    return found


def _is_many(arrays: Arrays) -> TypeGuard[Array]:
    """Whether it is an array of arrays, which is joined as it is: on several devices, each row alone would be sent."""
    return isinstance(arrays, Array) and bool(arrays.aval.shape) and arrays.aval.shape[0] > 0


def _rows(arrays: Array, *shape: int) -> Array:
    """An array of arrays of another shape."""
    return shaping.reshape(arrays, (arrays.aval.shape[0], *shape))


def concatenate(arrays: Arrays, axis: SupportsIndex | None = 0, dtype: npt.DTypeLike | None = None) -> Array:
    """The arrays joined along an axis that they have; None: their elements in one axis."""
    if _is_many(arrays) and (axis is None or arrays.aval.ndim > 1):
        if axis is None:
            return converted(shaping.ravel(arrays), dtype)
        at = canonical_axis(axis, arrays.aval.ndim - 1, "concatenate")
        count, *shape = arrays.aval.shape
        shape[at] *= count
        return converted(shaping.reshape(shaping.moveaxis(arrays, 0, at), shape), dtype)
    parts = _list("concatenate", arrays)
    if axis is None:
        return concatenate([shaping.ravel(x) for x in parts], 0, dtype)
    if any(not x.aval.shape for x in parts):
        raise ShapeError("concatenate: scalars have no axis to be joined along; stack gives them one")
    at = canonical_axis(axis, parts[0].aval.ndim, "concatenate")
    return shaping.concatenate([converted(x, dtype) for x in parts], at)


def concat(arrays: Arrays, /, *, axis: SupportsIndex | None = 0) -> Array:
    """The arrays joined along an axis that they have; None: their elements in one axis."""
    return concatenate(arrays, axis)


def stack(arrays: Arrays, axis: SupportsIndex = 0, out: None = None, dtype: npt.DTypeLike | None = None) -> Array:
    """The arrays, all of one shape, joined along a new axis."""
    refuse_out("stack", out)
    if _is_many(arrays):
        return converted(shaping.moveaxis(arrays, 0, canonical_axis(axis, arrays.aval.ndim, "stack")), dtype)
    parts = _list("stack", arrays)
    if any(x.aval.shape != parts[0].aval.shape for x in parts):
        raise ShapeError(f"stack: the arrays must have one shape, got {', '.join(str(x.aval) for x in parts)}")
    at = canonical_axis(axis, parts[0].aval.ndim + 1, "stack")
    return shaping.stack([converted(x, dtype) for x in parts], at)


def vstack(tup: Arrays, dtype: npt.DTypeLike | None = None) -> Array:
    """The arrays joined along their first axis; vectors are rows."""
    if _is_many(tup):
        return concatenate(tup if tup.aval.ndim > 2 else _rows(tup, 1, -1), 0, dtype)
    return concatenate([with_axes(x, 2) for x in _list("vstack", tup)], 0, dtype)


def hstack(tup: Arrays, dtype: npt.DTypeLike | None = None) -> Array:
    """The arrays joined along their second axis; vectors along their only one."""
    if _is_many(tup):
        return concatenate(tup if tup.aval.ndim > 1 else _rows(tup, 1), 0 if tup.aval.ndim <= 2 else 1, dtype)
    parts = [with_axes(x, 1) for x in _list("hstack", tup)]
    return concatenate(parts, 0 if parts[0].aval.ndim == 1 else 1, dtype)


def dstack(tup: Arrays, dtype: npt.DTypeLike | None = None) -> Array:
    """The arrays joined along their third axis."""
    if _is_many(tup) and tup.aval.ndim <= 3:
        rows, columns = (1, 1, *tup.aval.shape[1:])[-2:]
        return concatenate(_rows(tup, rows, columns, 1), 2, dtype)
    if _is_many(tup):
        return concatenate(tup, 2, dtype)
    return concatenate([with_axes(x, 3) for x in _list("dstack", tup)], 2, dtype)


def column_stack(tup: Arrays) -> Array:
    """The arrays joined along their second axis; vectors are columns."""
    if _is_many(tup):
        return concatenate(tup if tup.aval.ndim > 2 else _rows(tup, -1, 1), 1)
    parts = [x if x.aval.ndim > 1 else shaping.transpose(with_axes(x, 2)) for x in _list("column_stack", tup)]
    return concatenate(parts, 1)


# Parts.


@prepared
def split(ary: ArrayLike, indices_or_sections: Sections, axis: SupportsIndex = 0) -> list[Array]:
    """Parts along an axis: as many equal ones, or those that begin at these indices."""
    return _split("split", as_array(ary), indices_or_sections, axis)


@prepared
def array_split(ary: ArrayLike, indices_or_sections: Sections, axis: SupportsIndex = 0) -> list[Array]:
    """Parts along an axis: as many, the first ones larger by one if need be, or those that begin at these indices."""
    return _split("array_split", as_array(ary), indices_or_sections, axis)


@prepared
def vsplit(ary: ArrayLike, indices_or_sections: Sections) -> list[Array]:
    """Parts along the first axis."""
    return split(ary, indices_or_sections, 0)


@prepared
def hsplit(ary: ArrayLike, indices_or_sections: Sections) -> list[Array]:
    """Parts along the second axis; of a vector along its only one."""
    x = as_array(ary)
    return split(x, indices_or_sections, 0 if x.aval.ndim == 1 else 1)


def dsplit(ary: ArrayLike, indices_or_sections: Sections) -> list[Array]:
    """Parts along the third axis."""
    return split(ary, indices_or_sections, 2)


@prepared
def unstack(x: ArrayLike, /, *, axis: SupportsIndex = 0) -> tuple[Array, ...]:
    """The arrays that a stack along this axis is made of."""
    found = as_array(x)
    at = canonical_axis(axis, found.aval.ndim, "unstack")
    return tuple(bind(made_once(Unstack, at), found))


def _split(name: str, x: Array, sections: Sections, axis: SupportsIndex) -> list[Array]:
    at = canonical_axis(axis, x.aval.ndim, name)
    size = x.aval.shape[at]
    if isinstance(sections, Array | np.ndarray) and sections.ndim:
        sections = integers(sections, f"{name}: a position")
    if isinstance(sections, Sequence):
        positions = integers(sections, f"{name}: a position")
        edges = [0, *(slice(i).indices(size)[1] for i in positions), size]
        sizes = [max(0, end - start) for start, end in itertools.pairwise(edges)]
        if sum(sizes) != size:
            raise ShapeError(f"{name}: the indices must be in order, got {positions}")
    else:
        count = integer(sections, f"{name}: the number of parts")
        if count < 1:
            raise ShapeError(f"{name}: there is at least one part, got {count}")
        whole, rest = divmod(size, count)
        if rest and name == "split":
            raise ShapeError(f"split: {count} equal parts can't be made of axis {at} of {x.aval}; array_split can")
        sizes = [whole + (i < rest) for i in range(count)]
    return list(bind(made_once(Split, tuple(sizes), at), x))
