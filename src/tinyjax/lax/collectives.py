"""Reductions over named axes: those that an enclosing `vmap(..., axis_name=...)` maps, and those of the mesh of an
enclosing `shard_map`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from tinyjax.arrays.elementwise import constant_like, convert, promote_inexact
from tinyjax.errors import AxisNameError, ChoiceError, VaryingAxisError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL, COMPLEXES, INT32
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shapes import Axes, as_axes
from tinyjax.lax.binary import div
from tinyjax.lax.binding import axis_names
from tinyjax.lax.groups import Group, axis_groups
from tinyjax.lax.index_groups import AxisIndexGroups, Grouped
from tinyjax.lax.signatures import AxisName
from tinyjax.primitives.casts import Cast, PReduced, PVary, ReducedVaryCast, VaryUnreducedCast, name_of
from tinyjax.primitives.collectives import AxisIndex, PMax, PMin, PSum
from tinyjax.primitives.unreduced import UnreducedPSum
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array, find_axis
from tinyjax.tracing.core import bind

_T = TypeVar("_T")


def _reduce(make: Callable[[str | tuple[str, ...]], Primitive], x: _T, axis_name: AxisName) -> _T:
    def reduce(leaf: object) -> Array:
        array = as_array(leaf)
        for group in axis_groups(axis_name):
            if make is PSum and group.sums("psum", array):
                (array,) = bind(UnreducedPSum(group.name), array)
            else:
                (array,) = bind(make(group.name), group.admit(array))
        return array

    return tree.map_leaves(reduce, x)


def _in_groups(make: type[PSum] | type[PMax] | type[PMin], leaf: object, grouped: Grouped) -> Array:
    array, own = as_array(leaf), grouped.own
    # XLA doesn't compare complex numbers of several devices, and gathers no groups of several sizes.
    compared = make is not PSum and array.aval.dtype in COMPLEXES
    if own is not None and (grouped.even or not compared):
        return bind(make(own.name, grouped.groups), own.admit(array))[0]
    if make is PSum:
        return grouped.sum(array)
    members = grouped.members(array)
    return members.max(0) if make is PMax else members.min(0)


def psum(x: _T, axis_name: AxisName, *, axis_index_groups: AxisIndexGroups | None = None) -> _T:
    """The sums of the leaves of x over one named axis or several.

    With `axis_index_groups`, such as [[0, 1], [2, 3]], it is summed within each of these groups of elements, which may
    have several sizes.

    Of a value that is the same all along the axis, such as 1, it is that value times the size: of a number of Python, a
    number that is known. Of what is unreduced (`pcast`) it is the sum that this is. Booleans are counted, in int32.

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
    size: int | None = axis_size(axis_name)
    reduce: Callable[[object], object] = partial(_reduce, PSum, axis_name=axis_name)
    if axis_index_groups is not None:
        grouped = Grouped.of("psum", axis_name, axis_index_groups)
        size, reduce = grouped.size if grouped.even else None, partial(_in_groups, PSum, grouped=grouped)
    sums = [
        as_array(leaf * size) if size is not None and isinstance(leaf, int | float | complex) else reduce(leaf)
        for leaf in leaves
    ]
    found: _T = tree.unflatten(treedef, sums)
    return found


def pmean(x: _T, axis_name: AxisName, *, axis_index_groups: AxisIndexGroups | None = None) -> _T:
    """The means of the leaves of x over one named axis or several."""
    size = axis_size(axis_name)
    if axis_index_groups is not None:
        size = Grouped.of("pmean", axis_name, axis_index_groups).size

    def mean(leaf: object) -> Array:
        (array,) = promote_inexact(as_array(psum(leaf, axis_name, axis_index_groups=axis_index_groups)))
        return div(array, constant_like(array, size))

    return tree.map_leaves(mean, x)


def pmax(x: _T, axis_name: AxisName, *, axis_index_groups: AxisIndexGroups | None = None) -> _T:
    """The largest of the leaves of x over one named axis or several."""
    if axis_index_groups is not None:
        grouped = Grouped.of("pmax", axis_name, axis_index_groups)
        return tree.map_leaves(lambda leaf: _in_groups(PMax, leaf, grouped), x)
    return _reduce(PMax, x, axis_name)


def pmin(x: _T, axis_name: AxisName, *, axis_index_groups: AxisIndexGroups | None = None) -> _T:
    """The smallest of the leaves of x over one named axis or several."""
    if axis_index_groups is not None:
        grouped = Grouped.of("pmin", axis_name, axis_index_groups)
        return tree.map_leaves(lambda leaf: _in_groups(PMin, leaf, grouped), x)
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
    """The leaves of x as what else they may be taken for along these axes of the mesh of a `shard_map`. No number
    changes, and nothing is communicated.

    - `to="varying"`: what is the same for all, or reduced, as values that may vary. Where values meet that vary along
      different axes, this is done without being asked for. It says where the sum of cotangents over the devices
      belongs, which is the transpose of it.
    - `to="unreduced"`: what varies as the terms of a sum that is yet to be made, by `psum` or `psum_scatter`, or
      outside, where `out_specs` say `P(unreduced={...})`. Until then, only what is linear may be done with it.
    - `to="reduced"`: what is the same for all as values whose cotangents are such sums, and aren't made.

    Raises:
      VaryingAxisError: a NameError and a ValueError; a leaf is none of these along the axes, or not along all of them,
        or there is no such axis.
      ChoiceError: `to` is something else.

    >>> import numpy as np
    >>> from tinyjax import make_jaxpr
    >>> from tinyjax.api.shard_map import shard_map
    >>> from tinyjax.meshes import AbstractMesh, PartitionSpec as P
    >>> mesh = AbstractMesh((3,), ("x",))
    >>> shard_map(lambda a: pcast(a, "x", to="varying"), mesh=mesh, in_specs=P(), out_specs=P("x"))(
    ...     np.ones(1)
    ... )
    Array([1., 1., 1.], dtype=float64)
    >>> make_jaxpr(
    ...     shard_map(
    ...         lambda a: psum(pcast(a, "x", to="unreduced"), "x"),
    ...         mesh=mesh,
    ...         in_specs=P("x"),
    ...         out_specs=P(),
    ...     )
    ... )(np.ones(3)).eqns[0].primitive.jaxpr
    { lambda ; a:f64[1]{V:x}. let
        b:f64[1]{U:x} = vary_unreduced_cast[axes=(x,)] a
        c:f64[1] = unreduced_psum[axis_name=x] b
      in (c,) }
    """
    if to not in ("varying", "unreduced", "reduced"):
        raise ChoiceError(f"pcast: to must be 'varying', 'unreduced' or 'reduced', got {to!r}")
    try:
        groups = axis_groups(axis_name)
    except AxisNameError as error:
        raise VaryingAxisError(str(error)) from None
    names = as_axes([name for group in groups for name in group.varying])
    together = Group(name_of(names), 0, names)

    def cast(leaf: object) -> Array:
        array = as_array(leaf)
        if not names:
            return array
        kind = _CASTS.get((together.state("pcast", array), to))
        if kind is None:
            raise VaryingAxisError(_no_cast(array.aval, names, to))
        return bind(kind(names), array)[0]

    return tree.map_leaves(cast, x)


_CASTS: Final[Mapping[tuple[str, str], type[Cast]]] = {
    ("invarying", "varying"): PVary,
    ("invarying", "reduced"): PReduced,
    ("reduced", "varying"): ReducedVaryCast,
    ("varying", "unreduced"): VaryUnreducedCast,
}


def _no_cast(aval: ShapedArray, names: Axes, to: str) -> str:
    takes = {
        "varying": "is the same along them",
        "unreduced": "varies along them",
        "reduced": "is the same along them",
    }
    make = f"; lax.psum(x, {names[0]!r}) makes the sum that it is" if {*names} & {*aval.unreduced} else ""
    return f"pcast to {to!r} along {', '.join(map(repr, names))} takes what {takes[to]}, not {aval}{make}"


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
