"""Sums, maxima and minima over a named axis, which an enclosing batching context maps over, and the index along it.

The classes come first, then the vocabulary.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.errors import AxisNameError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import INT32, NUMERIC, SUPPORTED, HostArray
from tinyjax.ir.effects import Effects, NamedAxisEffect
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.elementwise import Dtypes, check_dtype, scale
from tinyjax.primitives.reductions import reduce_max, reduce_min
from tinyjax.primitives.shaping import iota
from tinyjax.primitives.structure import check_arity, reduce_sum

V = TypeVar("V")


@frozen
class Collective(Primitive):
    """Needs the axis called `axis_name`."""

    axis_name: str

    @property
    @override
    def effects(self) -> Effects:
        return frozenset({NamedAxisEffect(self.axis_name)})

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        raise AxisNameError(
            f"unbound axis name: {self.axis_name}. {self.name} works within a function that is mapped by "
            f"vmap(..., axis_name={self.axis_name!r})."
        )


@frozen
class ReducingCollective(Collective):
    """Reduces its operand, elementwise, over the named axis. The result is the same all along it."""

    accepts: ClassVar[Dtypes] = SUPPORTED

    @abstractmethod
    def reduce(self, ctx: Context[V], x: V, axis: int) -> V:
        """x, whose axis `axis` is the named one, reduced over it."""

    @abstractmethod
    def repeat(self, ctx: Context[V], x: V, size: int) -> V:
        """The result for x the same all along the named axis, which has this size."""

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        check_dtype(self.name, avals[0].dtype, self.accepts)
        return avals

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        (x,), (at,) = args, axes
        if axis.name != self.axis_name:
            return ctx.bind(self, x), [at]
        return [self.repeat(ctx, x, axis.size) if at is None else self.reduce(ctx, x, at)], [None]


@final
@frozen
class PSum(ReducingCollective):
    """The sum over a named axis."""

    name: ClassVar[str] = "psum"
    accepts: ClassVar[Dtypes] = NUMERIC

    @override
    def reduce(self, ctx: Context[V], x: V, axis: int) -> V:
        return reduce_sum(ctx, x, (axis,))

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
        (ct,) = cotangents
        return [ct] if isinstance(ct, Zero) else ctx.bind(self, ct)


@final
@frozen
class PMax(ReducingCollective):
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
class PMin(ReducingCollective):
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
class AxisIndex(Collective):
    """The index along a named axis, int32."""

    name: ClassVar[str] = "axis_index"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 0)
        return (array_type((), INT32),)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        if axis.name != self.axis_name:
            return ctx.bind(self), [None]
        return [iota(ctx, INT32, (axis.size,), 0)], [0]


# The vocabulary.


def psum(ctx: Context[V], x: V, axis_name: str) -> V:
    """The sum over the mapped axis of this name."""
    return ctx.bind(PSum(axis_name), x)[0]


def pmax(ctx: Context[V], x: V, axis_name: str) -> V:
    """The largest over the mapped axis of this name."""
    return ctx.bind(PMax(axis_name), x)[0]


def pmin(ctx: Context[V], x: V, axis_name: str) -> V:
    """The smallest over the mapped axis of this name."""
    return ctx.bind(PMin(axis_name), x)[0]


def axis_index(ctx: Context[V], axis_name: str) -> V:
    """Which element of the mapped axis of this name this is: an int32."""
    return ctx.bind(AxisIndex(axis_name))[0]
