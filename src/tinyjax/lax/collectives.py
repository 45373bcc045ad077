"""Reductions over named axes: those that an enclosing `vmap(..., axis_name=...)` maps, and those of the mesh of an
enclosing `shard_map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tinyjax.arrays.elementwise import convert, promote_inexact
from tinyjax.errors import ChoiceError
from tinyjax.ir.dtypes import BOOL, INT32
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shapes import as_axes
from tinyjax.lax.binary import div
from tinyjax.lax.binding import axis_names
from tinyjax.lax.groups import axis_groups
from tinyjax.lax.index_groups import AxisIndexGroups, Grouped
from tinyjax.lax.signatures import AxisName
from tinyjax.primitives.collectives import AxisIndex, PMax, PMin, PSum, PVary
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array, find_axis
from tinyjax.tracing.core import bind

_T = TypeVar("_T")


def _reduce(make: Callable[[str | tuple[str, ...]], Primitive], x: _T, axis_name: AxisName) -> _T:
    def reduce(leaf: object) -> Array:
        array = as_array(leaf)
        for group in axis_groups(axis_name):
            (array,) = bind(make(group.name), group.admit(array))
        return array

    return tree.map_leaves(reduce, x)


def psum(x: _T, axis_name: AxisName, *, axis_index_groups: AxisIndexGroups | None = None) -> _T:
    """The sums of the leaves of x over one named axis or several.

    With `axis_index_groups`, such as [[0, 1], [2, 3]], it is summed within each of these groups of elements. Here and
    in its relatives, each element is then sent what all of them have.

    Of a value that is the same all along the axis, such as 1, it is that value times the size: of a number of Python, a
    number that is known. Booleans are counted, in int32.

    >>> import numpy as np
    >>> from tinyjax.api.vectorize import vmap
    >>> vmap(lambda x: x / psum(x, "batch"), axis_name="batch")(np.array([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float64)
    """

    def counted(leaf: object) -> object:
        if type(leaf) in (int, float, complex):
            return leaf
        array = as_array(leaf)
        return convert(array, INT32) if array.aval.dtype == BOOL else array

    leaves, treedef = tree.flatten(tree.map_leaves(counted, x))
    if axis_index_groups is not None:
        grouped = Grouped.of("psum", axis_name, axis_index_groups, axis_size(axis_name), axis_index(axis_name))
        in_each: _T = tree.unflatten(treedef, [grouped.sum(as_array(leaf)) for leaf in leaves])
        return in_each
    size = axis_size(axis_name)
    sums = [
        as_array(leaf * size) if isinstance(leaf, int | float | complex) else _reduce(PSum, leaf, axis_name)
        for leaf in leaves
    ]
    found: _T = tree.unflatten(treedef, sums)
    return found


def pmean(x: _T, axis_name: AxisName, *, axis_index_groups: AxisIndexGroups | None = None) -> _T:
    """The means of the leaves of x over one named axis or several."""
    size = axis_size(axis_name)
    if axis_index_groups is not None:
        size = Grouped.of("pmean", axis_name, axis_index_groups, axis_size(axis_name), axis_index(axis_name)).size

    def mean(leaf: object) -> Array:
        (array,) = promote_inexact(as_array(psum(leaf, axis_name, axis_index_groups=axis_index_groups)))
        return div(array, size)

    return tree.map_leaves(mean, x)


def pmax(x: _T, axis_name: AxisName, *, axis_index_groups: AxisIndexGroups | None = None) -> _T:
    """The largest of the leaves of x over one named axis or several."""
    if axis_index_groups is not None:
        grouped = Grouped.of("pmax", axis_name, axis_index_groups, axis_size(axis_name), axis_index(axis_name))
        return tree.map_leaves(lambda leaf: grouped.members(as_array(leaf)).max(0), x)
    return _reduce(PMax, x, axis_name)


def pmin(x: _T, axis_name: AxisName, *, axis_index_groups: AxisIndexGroups | None = None) -> _T:
    """The smallest of the leaves of x over one named axis or several."""
    if axis_index_groups is not None:
        grouped = Grouped.of("pmin", axis_name, axis_index_groups, axis_size(axis_name), axis_index(axis_name))
        return tree.map_leaves(lambda leaf: grouped.members(as_array(leaf)).min(0), x)
    return _reduce(PMin, x, axis_name)


def axis_index(axis_name: AxisName) -> Array:
    """The position along a named axis, an int32; along several, the row-major one."""
    index: Array | None = None
    for name in axis_names(axis_name):
        (own,) = bind(AxisIndex(name, bool(axis_groups(name)[0].varying)))
        index = own if index is None else index * axis_size(name) + own
    return as_array(0) if index is None else index


def axis_size(axis_name: AxisName) -> int:
    """The size of a named axis, or of several together."""
    size = 1
    for name in axis_names(axis_name):
        size *= find_axis(name)[0].size
    return size


def pcast(x: _T, axis_name: AxisName, *, to: str) -> _T:
    """The leaves of x, which are the same along these axes of the mesh of a `shard_map`, as values that may vary along
    them (`to="varying"`).

    Where values meet that vary along different axes, this is done without being asked for. It says where the sum of
    cotangents over the devices belongs, which is the transpose of it.

    Raises:
      AxisNameError: a leaf varies along one of the axes already, or the axis is none of a mesh whose types say so.
      ChoiceError: `to` is something else. ("reduced" and "unreduced" belong to JAX's explicit mode.)

    >>> import numpy as np
    >>> from tinyjax.api.shard_map import shard_map
    >>> from tinyjax.meshes import AbstractMesh, PartitionSpec as P
    >>> mesh = AbstractMesh((3,), ("x",))
    >>> shard_map(lambda a: pcast(a, "x", to="varying"), mesh=mesh, in_specs=P(), out_specs=P("x"))(
    ...     np.ones(1)
    ... )
    Array([1., 1., 1.], dtype=float64)
    """
    if to != "varying":
        raise ChoiceError(f"pcast: to must be 'varying', got {to!r}")
    groups = axis_groups(axis_name)
    names = as_axes([name for group in groups for name in group.varying])

    def cast(leaf: object) -> Array:
        array = as_array(leaf)
        return bind(PVary(names), array)[0] if names else array

    return tree.map_leaves(cast, x)


def pvary(x: _T, axis_name: AxisName) -> _T:
    """The same as `pcast(x, axis_name, to="varying")`, by its older name.

    >>> import numpy as np
    >>> from tinyjax.api.shard_map import shard_map
    >>> from tinyjax.meshes import AbstractMesh, PartitionSpec as P
    >>> mesh = AbstractMesh((3,), ("x",))
    >>> shard_map(lambda a: pvary(a, "x"), mesh=mesh, in_specs=P(), out_specs=P("x"))(np.ones(1))
    Array([1., 1., 1.], dtype=float64)
    """
    return pcast(x, axis_name, to="varying")
