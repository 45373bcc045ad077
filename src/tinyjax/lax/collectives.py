"""Reductions over named axes: those that an enclosing `vmap(..., axis_name=...)` maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tinyjax.arrays.elementwise import convert, promote_inexact
from tinyjax.ir.dtypes import BOOL, INT32
from tinyjax.ir.primitive import Primitive
from tinyjax.lax.binary import div
from tinyjax.lax.binding import axis_names, refuse_groups
from tinyjax.lax.signatures import AxisName
from tinyjax.primitives.collectives import AxisIndex, PMax, PMin, PSum
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array, find_axis
from tinyjax.tracing.core import bind

_T = TypeVar("_T")


def _reduce(make: Callable[[str], Primitive], x: _T, axis_name: AxisName) -> _T:
    def reduce(leaf: object) -> Array:
        array = as_array(leaf)
        for name in axis_names(axis_name):
            (array,) = bind(make(name), array)
        return array

    return tree.map_leaves(reduce, x)


def psum(x: _T, axis_name: AxisName, *, axis_index_groups: None = None) -> _T:
    """The sums of the leaves of x over one named axis or several.

    Of a value that is the same all along the axis, such as 1, it is that value times the size. Booleans are counted, in
    int32.

    >>> import numpy as np
    >>> from tinyjax.api.vectorize import vmap
    >>> vmap(lambda x: x / psum(x, "batch"), axis_name="batch")(np.array([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float64)
    """
    refuse_groups("psum", axis_index_groups)

    def counted(leaf: object) -> Array:
        array = as_array(leaf)
        return convert(array, INT32) if array.aval.dtype == BOOL else array

    return _reduce(PSum, tree.map_leaves(counted, x), axis_name)


def pmean(x: _T, axis_name: AxisName, *, axis_index_groups: None = None) -> _T:
    """The means of the leaves of x over one named axis or several."""
    refuse_groups("pmean", axis_index_groups)
    size = axis_size(axis_name)

    def mean(leaf: object) -> Array:
        (array,) = promote_inexact(as_array(psum(leaf, axis_name)))
        return div(array, size)

    return tree.map_leaves(mean, x)


def pmax(x: _T, axis_name: AxisName, *, axis_index_groups: None = None) -> _T:
    """The largest of the leaves of x over one named axis or several."""
    refuse_groups("pmax", axis_index_groups)
    return _reduce(PMax, x, axis_name)


def pmin(x: _T, axis_name: AxisName, *, axis_index_groups: None = None) -> _T:
    """The smallest of the leaves of x over one named axis or several."""
    refuse_groups("pmin", axis_index_groups)
    return _reduce(PMin, x, axis_name)


def axis_index(axis_name: AxisName) -> Array:
    """The position along a named axis, an int32; along several, the row-major one."""
    index: Array | None = None
    for name in axis_names(axis_name):
        (own,) = bind(AxisIndex(name))
        index = own if index is None else index * axis_size(name) + own
    return as_array(0) if index is None else index


def axis_size(axis_name: AxisName) -> int:
    """The size of a named axis, or of several together."""
    size = 1
    for name in axis_names(axis_name):
        size *= find_axis(name)[0].size
    return size
