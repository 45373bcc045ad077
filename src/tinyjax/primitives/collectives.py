"""Sums, maxima and minima over named axes, and the index along one.

An axis is one that an enclosing batching context maps over, or of the mesh of an enclosing `shard_map`. There, types
say along which axes a value varies, and so does the transpose of a sum: that of one over axes along which its operand
varies gives every element the same cotangent, which is to vary along them (`pvary`), and the other way round.

The classes come first, then the vocabulary.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.errors import AxisNameError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import INT32, NUMERIC, SUPPORTED, HostArray
from tinyjax.ir.effects import Effects, NamedAxisEffect, names_of
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.roles import Tracking
from tinyjax.ir.shapes import REDUCED, UNREDUCED, Axes, as_axes
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.tangents import zero_tangents
from tinyjax.ir.varying import of_operands, without
from tinyjax.primitives.arithmetic import reciprocal
from tinyjax.primitives.bitwise import logical_or
from tinyjax.primitives.casts import pvary
from tinyjax.primitives.comparison import eq, ne
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import Dtypes, check_dtype, mul, scale
from tinyjax.primitives.grouping import Group, IndexGroups, check_index_groups, group_of
from tinyjax.primitives.reductions import reduce_max, reduce_min
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import iota
from tinyjax.primitives.structure import (
    broadcast_in_dim,
    check_arity,
    full,
    move_axis,
    reduce_sum,
    with_leading_axis,
)

V = TypeVar("V")


@frozen
class Collective(Primitive):
    """Needs the axis called `axis_name`, or several axes of a mesh, of which the last counts fastest."""

    axis_name: str | tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return (self.axis_name,) if isinstance(self.axis_name, str) else self.axis_name

    @property
    @override
    def effects(self) -> Effects:
        return frozenset(map(NamedAxisEffect, self.names))

    @property
    def index_groups(self) -> IndexGroups | None:
        """The groups within which elements communicate, by their numbers along the axes; None: all of them do."""
        return None

    def check_own(self, axes: Axes) -> None:
        """A TypingError if the operand is a sum along one of the axes yet to be made, or reduced."""
        for name in self.names:
            if UNREDUCED + name in axes:
                raise TypingError(
                    f"{self.name}: the operand is unreduced along {name!r}, a sum that the devices have yet to make: "
                    f"lax.psum(x, {name!r}) and lax.psum_scatter make it"
                )
            if REDUCED + name in axes:
                raise TypingError(
                    f"{self.name}: the operand is reduced along {name!r}; lax.pcast(x, {name!r}, to='varying') makes "
                    "it what each device has"
                )

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        raise AxisNameError(
            f"unbound axis name: {', '.join(self.names)}. {self.name} works within a function that is mapped by "
            f"vmap(..., axis_name={self.names[0]!r}), or within shard_map over a mesh that has the axis."
        )


@frozen
class ReducingCollective(Collective):
    """Reduces its operand, elementwise, over the named axis. The result is the same all along it; with
    `axis_index_groups`, in each of these groups of elements."""

    axis_index_groups: IndexGroups | None = None
    accepts: ClassVar[Dtypes] = SUPPORTED

    @abstractmethod
    def reduce(self, ctx: Context[V], x: V, axis: int) -> V:
        """x, whose axis `axis` is the named one, reduced over it."""

    @abstractmethod
    def repeat(self, ctx: Context[V], x: V, size: int) -> V:
        """The result for x the same all along the named axis, which has this size."""

    def reduce_groups(self, ctx: Context[V], x: V, group: Group) -> V:
        """The batch x, whose first axis it is, with what each group of elements gives."""
        return group.apply(ctx, x, lambda y: (self.reduce(ctx, y, 0), None))

    @property
    @override
    def index_groups(self) -> IndexGroups | None:
        return self.axis_index_groups

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        check_dtype(self.name, avals[0].dtype, self.accepts)
        if self.axis_index_groups is not None:
            check_index_groups(self.name, self.axis_index_groups)
        return avals

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        (x,), (at,) = args, axes
        own = tuple([name for name in self.names if name in names_of(axis)])
        if self.axis_index_groups is not None and own:
            own = self.names  # which are all here, or else it is an error
        group = group_of(axis, own, self.axis_index_groups)
        if group is None:
            return ctx.bind(self, x), [at]
        if at is None and not group.uneven:
            y = self.repeat(ctx, x, group.size)
        elif group.rest == 1:
            assert at is not None  # one group isn't uneven
            y, at = self.reduce(ctx, x, at), None
        else:
            shape = ctx.aval(x).shape
            x = with_leading_axis(ctx, x, at, axis.size, shape) if at is None else move_axis(ctx, x, at, 0)
            y, at = self.reduce_groups(ctx, x, group), 0
        if others := tuple([name for name in self.names if name not in own]):
            (y,) = ctx.bind(evolve(self, axis_name=others[0] if len(others) == 1 else others), y)
        return [y], [at]

    @override
    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray]) -> tuple[Sequence[Axes], Sequence[Axes]]:
        self.check_own(found[0])
        wanted, results = of_operands(self.name, found, self.linear_in(1), 1)
        if self.axis_index_groups is not None:  # the groups have results of their own
            return wanted, results
        return wanted, [without(axes, self.names) for axes in results]


@final
@frozen
class PSum(ReducingCollective):
    """The sum over a named axis, or within groups of its elements."""

    name: ClassVar[str] = "psum"
    accepts: ClassVar[Dtypes] = NUMERIC

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((0,),)

    @override
    def reduce(self, ctx: Context[V], x: V, axis: int) -> V:
        return reduce_sum(ctx, x, (axis,))

    @override
    def reduce_groups(self, ctx: Context[V], x: V, group: Group) -> V:
        return group.apply(ctx, x, lambda y: (self.reduce(ctx, group.without_repeats(ctx, y), 0), None))

    @override
    def repeat(self, ctx: Context[V], x: V, size: int) -> V:
        return scale(ctx, x, size)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        outs, (t,) = ctx.bind(self, *primals), tangents
        return outs, [t] if isinstance(t, Zero) else ctx.bind(self, t)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x,) = cotangents, args
        if isinstance(ct, Zero):
            return [Zero(x.aval.cotangent) if isinstance(x, UndefPrimal) else ct]
        tracked = self.axis_index_groups is None and isinstance(x, UndefPrimal) and {*self.names} <= {*x.aval.varying}
        return [pvary(ctx, ct, as_axes(self.names))] if tracked else ctx.bind(self, ct)


@frozen
class ChoosingCollective(ReducingCollective):
    """Chooses one of the elements. Where several are chosen, each has an equal share of the tangent."""

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (x,), (t,) = primals, tangents
        (out,) = ctx.bind(self, x)
        if isinstance(t, Zero):
            return [out], zero_tangents(ctx, [out])
        summed = PSum(self.axis_name, self.axis_index_groups)
        lost = ne(ctx, out, out)  # a nan, which equals nothing, and of which every share is nan
        chosen = logical_or(ctx, eq(ctx, x, out), lost)
        (count,) = ctx.bind(summed, convert(ctx, chosen, ctx.aval(t).dtype))
        share = select(ctx, lost, full(ctx, ctx.aval(count), math.nan), reciprocal(ctx, count))
        shares = select(ctx, chosen, share, full(ctx, ctx.aval(share), 0))
        return [out], ctx.bind(summed, mul(ctx, t, shares))


@final
@frozen
class PMax(ChoosingCollective):
    """The maximum over a named axis."""

    name: ClassVar[str] = "pmax"

    @override
    def reduce(self, ctx: Context[V], x: V, axis: int) -> V:
        return reduce_max(ctx, x, (axis,))

    @override
    def repeat(self, ctx: Context[V], x: V, size: int) -> V:
        return x


@final
@frozen
class PMin(ChoosingCollective):
    """The minimum over a named axis."""

    name: ClassVar[str] = "pmin"

    @override
    def reduce(self, ctx: Context[V], x: V, axis: int) -> V:
        return reduce_min(ctx, x, (axis,))

    @override
    def repeat(self, ctx: Context[V], x: V, size: int) -> V:
        return x


@final
@frozen
class AxisIndex(Collective, Tracking):
    """The index along a named axis, int32. `varies`: whether its type says so, as where types say along which axes of
    a mesh values vary."""

    varies: bool = False
    name: ClassVar[str] = "axis_index"

    @override
    def untracked(self) -> AxisIndex:
        return AxisIndex(self.axis_name)

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 0)
        return (array_type((), INT32, False, as_axes(self.names) if self.varies else ()),)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        group = group_of(axis, self.names)
        if group is None:
            return ctx.bind(self), [None]
        if group.rest == 1:
            return [iota(ctx, INT32, (axis.size,), 0)], [0]
        return [group.ungrouped(ctx, broadcast_in_dim(ctx, iota(ctx, INT32, (group.size,), 0), group.shape, (0,)))], [0]


# The vocabulary.


def psum(ctx: Context[V], x: V, axis_name: str | tuple[str, ...]) -> V:
    """The sum over the axis of this name, or over several axes."""
    return ctx.bind(PSum(axis_name), x)[0]


def pmax(ctx: Context[V], x: V, axis_name: str | tuple[str, ...]) -> V:
    """The largest over the axis of this name, or over several axes."""
    return ctx.bind(PMax(axis_name), x)[0]


def pmin(ctx: Context[V], x: V, axis_name: str | tuple[str, ...]) -> V:
    """The smallest over the axis of this name, or over several axes."""
    return ctx.bind(PMin(axis_name), x)[0]


def axis_index(ctx: Context[V], axis_name: str) -> V:
    """Which element of the axis of this name this is: an int32."""
    return ctx.bind(AxisIndex(axis_name))[0]
