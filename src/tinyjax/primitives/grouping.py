"""Elements of a batch in groups: those that a collective over some of the batch's named axes lets see each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar, final

from attrs import frozen

from tinyjax.errors import AxisNameError
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.shapes import Shape
from tinyjax.primitives.shaping import reshape
from tinyjax.primitives.structure import move_axis, permute, with_leading_axis

V = TypeVar("V")


@final
@frozen
class Group:
    """How a batch over several named axes, flattened row by row, is divided by some of them.

    `sizes` are those of the axes, and `order` puts those of the group first, in the order of their names, and then the
    others.
    """

    sizes: Shape
    order: tuple[int, ...]
    count: int

    @property
    def size(self) -> int:
        """How many elements a group has."""
        return self.shape[0]

    @property
    def rest(self) -> int:
        """How many groups there are."""
        return self.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        sizes = [self.sizes[i] for i in self.order]
        return math.prod(sizes[: self.count]), math.prod(sizes[self.count :])

    def grouped(self, ctx: Context[V], x: V) -> V:
        """x, whose first axis is the batch, with two axes for it: within a group, and which group."""
        own = ctx.aval(x).shape[1:]
        x = reshape(ctx, x, (*self.sizes, *own))
        x = permute(ctx, x, (*self.order, *range(len(self.sizes), len(self.sizes) + len(own))))
        return reshape(ctx, x, (*self.shape, *own))

    def ungrouped(self, ctx: Context[V], x: V) -> V:
        """The way back."""
        own = ctx.aval(x).shape[2:]
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


def group_of(axis: BatchAxis, names: Sequence[str]) -> Group | None:
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
    return Group(tuple(size for _, size in own), (*found, *others), len(found))
