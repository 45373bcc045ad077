"""Elements of a batch in groups: those that a collective over some of the batch's named axes lets see each other, or
within these the groups that its `axis_index_groups` say."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar, final

import numpy as np
from attrs import evolve, frozen

from tinyjax.errors import AxisNameError, ShapeError
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import INT32
from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.shapes import Shape
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.gather import Gather
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import reshape
from tinyjax.primitives.structure import broadcast_in_dim, full, move_axis, permute, with_leading_axis
from tinyjax.primitives.windows import GatherDimensionNumbers

V = TypeVar("V")

#: The elements along an axis in groups, by their numbers: each of them in one.
IndexGroups: TypeAlias = tuple[tuple[int, ...], ...]


def check_index_groups(name: str, groups: IndexGroups, size: int | None = None) -> None:
    """An AxisNameError unless each number from 0 is in one group; with a `size`, a ShapeError unless all have it."""
    numbers = sorted([number for row in groups for number in row])
    if not numbers or numbers != list(range(len(numbers))) or not all(groups):
        raise AxisNameError(f"{name}: axis_index_groups has each number from 0 once, got {list(groups)}")
    if size is not None and any(len(row) != size for row in groups):
        raise ShapeError(f"{name}: each group of axis_index_groups has {size} elements here, got {list(groups)}")


@final
@frozen
class Group:
    """How a batch over several named axes, flattened row by row, is divided by some of them.

    `sizes` are those of the axes, and `order` puts those of the group first, in the order of their names, and then the
    others. With `index_groups`, each of the groups is divided once more.
    """

    sizes: Shape
    order: tuple[int, ...]
    count: int
    index_groups: IndexGroups | None = None

    @property
    def size(self) -> int:
        """How many elements a group has, at most."""
        return self.shape[0]

    @property
    def uneven(self) -> bool:
        """Whether some groups are smaller than others."""
        return self.index_groups is not None and len({*map(len, self.index_groups)}) > 1

    @property
    def rest(self) -> int:
        """How many groups there are."""
        return self.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        along, rest = self._along
        groups = self.index_groups
        return (along, rest) if groups is None else (max(map(len, groups)), len(groups) * rest)

    @property
    def _along(self) -> tuple[int, int]:
        """How many elements there are along the axes of the group, and how many such rows."""
        sizes = [self.sizes[i] for i in self.order]
        return math.prod(sizes[: self.count]), math.prod(sizes[self.count :])

    def grouped(self, ctx: Context[V], x: V) -> V:
        """x, whose first axis is the batch, with two axes for it: within a group, and which group. What smaller groups
        lack is their first element."""
        own = ctx.aval(x).shape[1:]
        x = reshape(ctx, x, (*self.sizes, *own))
        x = permute(ctx, x, (*self.order, *range(len(self.sizes), len(self.sizes) + len(own))))
        if self.index_groups is not None:
            places = range(max(map(len, self.index_groups)))
            numbers = [row[i if i < len(row) else 0] for i in places for row in self.index_groups]
            x = _rows(ctx, reshape(ctx, x, (*self._along, *own)), numbers)
        return reshape(ctx, x, (*self.shape, *own))

    def without_repeats(self, ctx: Context[V], x: V) -> V:
        """What `grouped` has made, with zeros where smaller groups repeat their first element."""
        if not self.uneven:
            return x
        groups, (size, count), shape = self.index_groups or (), self.shape, ctx.aval(x).shape
        there = np.array([[i < len(row) for row in groups] for i in range(size)])
        (found,) = ctx.bind(Constant(ConcreteValue.of(np.repeat(there, count // len(groups), axis=1))))
        return select(ctx, broadcast_in_dim(ctx, found, shape, (0, 1)), x, full(ctx, ctx.aval(x), 0))

    def ungrouped(self, ctx: Context[V], x: V) -> V:
        """The way back."""
        own = ctx.aval(x).shape[2:]
        if (groups := self.index_groups) is not None:
            x = reshape(ctx, x, (self.size * len(groups), self._along[1], *own))
            at = {number: len(groups) * i + k for k, row in enumerate(groups) for i, number in enumerate(row)}
            x = _rows(ctx, x, [at[number] for number in range(len(at))])
        x = reshape(ctx, x, (*[self.sizes[i] for i in self.order], *own))
        back = sorted(range(len(self.order)), key=lambda i: self.order[i])
        x = permute(ctx, x, (*back, *range(len(self.sizes), len(self.sizes) + len(own))))
        return reshape(ctx, x, (math.prod(self.sizes), *own))

    def apply(self, ctx: Context[V], x: V, run: Callable[[V], tuple[V, int | None]]) -> V:
        """What `run` makes of each group: it is given x with the group as the first axis, and says where that is in its
        results (None: they are the same for the whole group). The batch is the first axis here and in the result."""
        out, where = run(self.grouped(ctx, x))
        if where is None:
            out = with_leading_axis(ctx, out, None, self.size, ctx.aval(out).shape)
        else:
            out = move_axis(ctx, out, where, 0)
        return self.ungrouped(ctx, out)


def _rows(ctx: Context[V], x: V, numbers: Sequence[int]) -> V:
    """These rows of x."""
    (_, *rest), indices = ctx.aval(x).shape, np.array(numbers, INT32).reshape(-1, 1)
    dims = GatherDimensionNumbers(tuple(range(1, len(rest) + 1)), (0,), (0,))
    (found,) = ctx.bind(Constant(ConcreteValue.of(indices)))
    return ctx.bind(Gather(dims, (1, *rest)), x, found)[0]


def group_of(axis: BatchAxis, names: Sequence[str], index_groups: IndexGroups | None = None) -> Group | None:
    """The groups that axes of these names make of a batch; None if it has none of them."""
    if axis.name is not None:
        own: tuple[tuple[str, int], ...] = ((axis.name, axis.size),)
    else:
        own = axis.mesh
    position = {name: i for i, (name, _) in enumerate(own)}
    found = [position[name] for name in names if name in position]
    if not found:
        return None
    if len(found) < len(names):
        raise AxisNameError(
            f"a collective over {', '.join(names)} needs axes that are mapped together, but only "
            f"{', '.join(own[i][0] for i in found)} are here. Use one collective after the other."
        )
    others = [i for i in range(len(own)) if i not in found]
    group = Group(tuple(size for _, size in own), (*found, *others), len(found))
    if index_groups is None:
        return group
    if (count := sum(map(len, index_groups))) != group.size:
        raise AxisNameError(
            f"a collective over {', '.join(names)} was staged with axis_index_groups of {count} elements; here there "
            f"are {group.size}"
        )
    return evolve(group, index_groups=index_groups)
