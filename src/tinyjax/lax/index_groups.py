"""`axis_index_groups`: communication of the elements along a named axis within groups of them.

Collectives have such groups as a parameter, where one equation can name all axes: one that is mapped, or those of one
mesh. Along others together, each element gets what all have, and takes what its own group has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias, final

import numpy as np
from attrs import frozen

from tinyjax.arrays.shaping import integers, moveaxis, reshape
from tinyjax.errors import AxisNameError, InputError, ShapeError
from tinyjax.lax.binding import axis_names, is_many
from tinyjax.lax.groups import Group, axis_groups
from tinyjax.lax.indexing import dynamic_slice_in_dim
from tinyjax.lax.shaping import broadcast_in_dim, expand_dims, full_like, select, squeeze
from tinyjax.lax.signatures import AxisName
from tinyjax.primitives.collectives import AxisIndex
from tinyjax.primitives.exchanges import AllGather
from tinyjax.primitives.grouping import IndexGroups
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array, find_axis
from tinyjax.tracing.core import bind

#: As users write them: the numbers of the elements in each group.
AxisIndexGroups: TypeAlias = Sequence[Sequence[int]]


@final
@frozen(eq=False)
class Grouped:
    """The elements along a named axis in groups. `own` are the axes, if one equation can refer to them. Otherwise the
    methods do what there is no equation for."""

    what: str
    axis_name: AxisName
    groups: IndexGroups
    own: Group | None

    @staticmethod
    def of(what: str, axis_name: AxisName, groups: AxisIndexGroups) -> Grouped:
        """Checked: an AxisNameError if not every element is in one group."""
        if not is_many(groups):
            raise InputError(f"{what}: axis_index_groups is a list of lists of numbers, got {groups!r}")
        size = math.prod([find_axis(name)[0].size for name in axis_names(axis_name)])
        rows = tuple([tuple(integers(group, f"{what}: a number in axis_index_groups")) for group in groups])
        if sorted(number for row in rows for number in row) != list(range(size)):
            raise AxisNameError(
                f"{what}: axis_index_groups has each of the {size} numbers along {axis_name!r} once, got {list(rows)}"
            )
        axes = axis_groups(axis_name)
        return Grouped(what, axis_name, tuple([row for row in rows if row]), axes[0] if len(axes) == 1 else None)

    @property
    def even(self) -> bool:
        """Whether all groups have the same size."""
        return len({*map(len, self.groups)}) == 1

    @property
    def size(self) -> int:
        """How many elements each group has; a ShapeError if they differ."""
        if not self.even:
            raise ShapeError(
                f"{self.what}: the groups of axis_index_groups have the same size, got {list(self.groups)}"
            )
        return len(self.groups[0])

    def check_divided(self, x: Array, axis: int, tiled: bool) -> None:
        """A ShapeError unless a part of the axis can be given to each element of a group."""
        size, count = x.aval.shape[axis], self.size
        if size % count or (not tiled and size != count):
            raise ShapeError(
                f"{self.what}: the axis of size {size} that is divided has {'a multiple of ' * tiled}the {count} "
                "elements that each group of axis_index_groups has"
            )

    def members(self, x: Array) -> Array:
        """What those of the own group have, along a new first axis; of smaller groups, their first one repeated."""
        x = expand_dims(x, (0,))
        for group in reversed(axis_groups(self.axis_name)):
            (x,) = bind(AllGather(group.name, group.size, 0), group.admit(x))
        longest = max(map(len, self.groups))
        return x[self._own([[*row, *row[:1] * (longest - len(row))] for row in self.groups])]

    def sum(self, x: Array) -> Array:
        found = self.members(x)
        if not self.even:
            longest = max(map(len, self.groups))
            there = self._own([[True] * len(row) + [False] * (longest - len(row)) for row in self.groups])
            found = select(broadcast_in_dim(there, found.shape, (0,)), found, full_like(found, 0))
        return found.sum(0, dtype=found.dtype)

    def gather(self, x: Array, axis: int, tiled: bool) -> Array:
        count, found = self.size, moveaxis(self.members(x), 0, axis)
        return self._joined(found, axis, count) if tiled else found

    def scatter(self, x: Array, axis: int, tiled: bool) -> Array:
        found = self._part(self.sum(x), axis, tiled)
        return found if tiled else squeeze(found, (axis,))

    def exchange(self, x: Array, split: int, concat: int, tiled: bool) -> Array:
        count, found = self.size, self._part(self.members(x), split + 1, tiled)
        if tiled:
            return self._joined(moveaxis(found, 0, concat), concat, count)
        return moveaxis(squeeze(found, (split + 1,)), 0, concat)

    def _part(self, x: Array, axis: int, tiled: bool) -> Array:
        """The part of x that has the own place in the group."""
        self.check_divided(x, axis, tiled)
        part, place = x.shape[axis] // self.size, self._place()
        return dynamic_slice_in_dim(x, place * part, part, axis)

    def _index(self) -> Array:
        """The number of the element that this is about."""
        index = as_array(np.int32(0))
        for group in axis_groups(self.axis_name):
            (own,) = bind(AxisIndex(group.name, bool(group.varying)))
            index = index * group.size + own
        return index

    def _place(self) -> Array:
        """The own place in the group."""
        places = {number: place for row in self.groups for place, number in enumerate(row)}
        return as_array(np.array([places[i] for i in range(len(places))], np.int32))[self._index()]

    def _own(self, rows: Sequence[Sequence[int]]) -> Array:
        """The row for the own group."""
        table = {number: row for members, row in zip(self.groups, rows, strict=True) for number in members}
        values = [table[i] for i in range(len(table))]
        dtype = np.bool_ if type(values[0][0]) is bool else np.int32
        return as_array(np.array(values, dtype))[self._index()]

    def _joined(self, x: Array, axis: int, count: int) -> Array:
        shape = x.shape
        return reshape(x, (*shape[:axis], count * shape[axis + 1], *shape[axis + 2 :]))
