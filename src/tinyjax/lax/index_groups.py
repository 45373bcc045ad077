"""`axis_index_groups`: communication of the elements along a named axis within groups of them.

Each element gets what all have, and takes what its own group has: so it is right for every kind of named axis, and its
derivatives and batches follow. Where groups are the rows or columns of a grid, two axes, of which one is named, say the
same, and less is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias, final

import numpy as np
from attrs import frozen

from tinyjax.arrays.shaping import integers, moveaxis, reshape
from tinyjax.errors import AxisNameError, InputError, ShapeError
from tinyjax.lax.groups import axis_groups
from tinyjax.lax.indexing import dynamic_slice_in_dim
from tinyjax.lax.shaping import broadcast_in_dim, expand_dims, full_like, select, squeeze
from tinyjax.lax.signatures import AxisName
from tinyjax.primitives.exchanges import AllGather
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

#: As users write them: the numbers of the elements in each group.
AxisIndexGroups: TypeAlias = Sequence[Sequence[int]]


@final
@frozen(eq=False)
class Grouped:
    """The elements along a named axis in groups. `index` is the number of the one that this is about."""

    what: str
    axis_name: AxisName
    groups: tuple[tuple[int, ...], ...]
    index: Array

    @staticmethod
    def of(what: str, axis_name: AxisName, groups: AxisIndexGroups, size: int, index: Array) -> Grouped:
        """Checked: an AxisNameError if not every element is in one group."""
        if not isinstance(groups, Iterable):
            raise InputError(f"{what}: axis_index_groups is a list of lists of numbers, got {groups!r}")
        rows = tuple([tuple(integers(group, f"{what}: a number in axis_index_groups")) for group in groups])
        if sorted(number for row in rows for number in row) != list(range(size)):
            raise AxisNameError(
                f"{what}: axis_index_groups has each of the {size} numbers along {axis_name!r} once, got {list(rows)}"
            )
        return Grouped(what, axis_name, rows, index)

    @property
    def size(self) -> int:
        """How many elements each group has; a ShapeError if they differ."""
        (first, *others) = {len(row) for row in self.groups}
        if others:
            raise ShapeError(
                f"{self.what}: the groups of axis_index_groups have the same size, got {list(self.groups)}"
            )
        return first

    def members(self, x: Array) -> Array:
        """What those of the own group have, along a new first axis; of smaller groups, their first one repeated."""
        x = expand_dims(x, (0,))
        for group in reversed(axis_groups(self.axis_name)):
            (x,) = bind(AllGather(group.name, group.size, 0), group.admit(x))
        longest = max(map(len, self.groups))
        return x[self._own([[*row, *row[:1] * (longest - len(row))] for row in self.groups])]

    def sum(self, x: Array) -> Array:
        found = self.members(x)
        if len({len(row) for row in self.groups}) > 1:
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
        size, count = x.shape[axis], self.size
        if size % count or (not tiled and size != count):
            raise ShapeError(
                f"{self.what}: the axis of size {size} that is divided has {'a multiple of ' * tiled}the {count} "
                "elements that each group of axis_index_groups has"
            )
        place = self._place()
        return dynamic_slice_in_dim(x, place * (size // count), size // count, axis)

    def _place(self) -> Array:
        """The own place in the group."""
        places = {number: place for row in self.groups for place, number in enumerate(row)}
        return as_array(np.array([places[i] for i in range(len(places))], np.int32))[self.index]

    def _own(self, rows: Sequence[Sequence[int]]) -> Array:
        """The row for the own group."""
        table = {number: row for members, row in zip(self.groups, rows, strict=True) for number in members}
        values = [table[i] for i in range(len(table))]
        dtype = np.bool_ if type(values[0][0]) is bool else np.int32
        return as_array(np.array(values, dtype))[self.index]

    def _joined(self, x: Array, axis: int, count: int) -> Array:
        shape = x.shape
        return reshape(x, (*shape[:axis], count * shape[axis + 1], *shape[axis + 2 :]))
