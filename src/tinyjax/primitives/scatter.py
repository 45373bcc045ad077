"""Writing to windows at computed positions: replacing, multiplying, and taking the lesser or the greater."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import LinearityError, UnsupportedError
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import MOVABLE, NUMERIC, UINT32, UINT64, HostArray
from tinyjax.ir.primitive import Outputs, UndefPrimal, Zero
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.tangents import zero_tangents
from tinyjax.primitives import numpy_values
from tinyjax.primitives.arithmetic import div, reciprocal
from tinyjax.primitives.comparison import eq
from tinyjax.primitives.elementwise import Dtypes, add, mul
from tinyjax.primitives.gather import ScatterAdd, Scattering
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import iota, reshape
from tinyjax.primitives.structure import broadcast_in_dim, constant_like, full, instantiate
from tinyjax.primitives.windows import Positions

V = TypeVar("V")


def _moving(tangents: Sequence[V | Zero]) -> bool:
    return not isinstance(tangents[0], Zero) or not isinstance(tangents[2], Zero)


@final
@frozen
class Scatter(Scattering):
    """Replaces by the updates. Where windows overlap, one of the updates is taken; which one isn't said."""

    name: ClassVar[str] = "scatter"
    accepts: ClassVar[Dtypes] = MOVABLE

    @override
    def write(self, target: HostArray, index: tuple[Positions, ...], updates: HostArray) -> None:
        target[index] = updates

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((0, 2),)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        x, indices, updates = primals
        if not _moving(tangents):
            outs = ctx.bind(self, *primals)
            return outs, zero_tangents(ctx, outs)
        t, t_updates = instantiate(ctx, tangents[0]), instantiate(ctx, tangents[2])
        if self.unique_indices:
            return ctx.bind(self, *primals), ctx.bind(self, t, indices, t_updates)
        # Which of several updates of an element is taken isn't known, and the tangent must come from the same one. So
        # numbers of the updates are scattered, and taken back: an update is in effect where its own number is found.
        # What is left adds up, which has a transpose, too.
        untouched, effective = self._winners(ctx, x, indices, updates)
        adding = ScatterAdd(self.dimension_numbers, self.mode, self.indices_are_sorted, self.unique_indices)

        def merged(kept: V, new: V) -> Sequence[V]:
            kept = select(ctx, untouched, kept, constant_like(ctx, kept, 0))
            return ctx.bind(adding, kept, indices, select(ctx, effective, new, constant_like(ctx, new, 0)))

        return merged(x, updates), merged(t, t_updates)

    def _winners(self, ctx: Context[V], x: V, indices: V, updates: V) -> tuple[V, V]:
        """Which elements of x stay as they are, and which of the updates are taken."""
        windows = self.dimension_numbers.update_window_dims
        shape, operand = ctx.aval(updates).shape, ctx.aval(x).shape
        each = tuple(1 if axis in windows else size for axis, size in enumerate(shape))
        count = math.prod(each)
        dtype = UINT32 if count < 2**32 - 1 else UINT64
        counted = iota(ctx, dtype, (count,), 0)
        numbers = add(ctx, reshape(ctx, counted, each), constant_like(ctx, counted, 1))
        numbers = broadcast_in_dim(ctx, numbers, shape, tuple(range(len(shape))))
        none = full(ctx, array_type(operand, dtype), 0)
        (scattered,) = ctx.bind(self, none, indices, numbers)
        (found,) = ctx.bind(self.taking(operand, shape, fill=False), scattered, indices)
        return eq(ctx, scattered, constant_like(ctx, scattered, 0)), eq(ctx, numbers, found)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        if not self.unique_indices:
            raise UnsupportedError("the transpose of scatter is only implemented where unique_indices=True")
        (ct,), (x, indices, updates) = cotangents, args
        indices = self._linear(indices)
        if isinstance(ct, Zero):
            return [None, None, None]
        aval = updates.aval if isinstance(updates, UndefPrimal) else ctx.aval(updates)
        kept: V | None = None
        taken: V | None = None
        if isinstance(x, UndefPrimal):
            (kept,) = ctx.bind(self, ct, indices, full(ctx, ctx.aval(ct).of_shape(aval.shape).strengthen(), 0))
        if isinstance(updates, UndefPrimal):
            (taken,) = ctx.bind(self.taking(ctx.aval(ct).shape, aval.shape), ct, indices)
        return [kept, None, taken]


@final
@frozen
class ScatterMul(Scattering):
    """Multiplies with the updates. Differentiable in them only where windows don't overlap."""

    name: ClassVar[str] = "scatter_mul"
    accepts: ClassVar[Dtypes] = NUMERIC

    @override
    def write(self, target: HostArray, index: tuple[Positions, ...], updates: HostArray) -> None:
        np.multiply.at(target, index, updates)

    def _need_unique(self) -> None:
        if not self.unique_indices:
            raise UnsupportedError(
                "scatter_mul is differentiable in its updates only if unique_indices=True. Pass it, if no element is "
                "updated twice."
            )

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (x, indices, updates), (t, _, t_updates) = primals, tangents
        outs = ctx.bind(self, *primals)
        total: V | Zero = Zero(ctx.aval(outs[0]).tangent)
        if not isinstance(t, Zero):
            (total,) = ctx.bind(self, t, indices, updates)
        if not isinstance(t_updates, Zero):
            self._need_unique()
            adding = ScatterAdd(self.dimension_numbers, self.mode, self.indices_are_sorted, self.unique_indices)
            zeros = full(ctx, ctx.aval(x), 0)
            part = mul(ctx, x, ctx.bind(adding, zeros, indices, t_updates)[0])
            total = part if isinstance(total, Zero) else add(ctx, total, part)
        return outs, [total]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x, indices, updates) = cotangents, args
        indices = self._linear(indices)
        if isinstance(ct, Zero):
            return [None, None, None]
        if not isinstance(updates, UndefPrimal):
            return [ctx.bind(self, ct, indices, updates)[0] if isinstance(x, UndefPrimal) else None, None, None]
        if isinstance(x, UndefPrimal):
            raise LinearityError("scatter_mul is linear in the operand and in the updates, but not in both together")
        self._need_unique()
        taking = self.taking(ctx.aval(ct).shape, updates.aval.shape)
        return [None, None, ctx.bind(taking, mul(ctx, ct, x), indices)[0]]


@frozen
class ScatterExtreme(Scattering):
    """Takes an extreme of the operand and all updates of an element. What is equal to it shares its derivative."""

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        x, indices, updates = primals
        (out,) = ctx.bind(self, *primals)
        if not _moving(tangents):
            return [out], zero_tangents(ctx, [out])
        t, t_updates = instantiate(ctx, tangents[0]), instantiate(ctx, tangents[2])
        adding = ScatterAdd(self.dimension_numbers, self.mode, self.indices_are_sorted, self.unique_indices)
        taking = self.taking(ctx.aval(x).shape, ctx.aval(updates).shape, fill=False)
        zero, one = (constant_like(ctx, updates, value) for value in (0, 1))
        zeros = full(ctx, ctx.aval(x).strengthen(), 0)

        def taken(operand: V) -> V:
            return ctx.bind(taking, operand, indices)[0]

        def counted(which: V) -> V:
            """How many updates there are of the element that each is one of."""
            shape = ctx.aval(updates).shape
            return taken(ctx.bind(adding, zeros, indices, broadcast_in_dim(ctx, which, shape, ()))[0])

        target = taken(out)
        wins = eq(ctx, updates, target)
        kept = eq(ctx, taken(x), target)
        shared = counted(select(ctx, wins, one, zero))
        with_operand = reciprocal(ctx, add(ctx, shared, one))
        weight = select(ctx, wins, select(ctx, kept, with_operand, reciprocal(ctx, shared)), zero)
        # The operand's tangent is there already: each of its updates takes away a part of what is too much.
        excess = add(ctx, select(ctx, kept, with_operand, zero), constant_like(ctx, updates, -1))
        share = div(ctx, excess, counted(one))
        moved = add(ctx, mul(ctx, taken(t), share), mul(ctx, t_updates, weight))
        return [out], ctx.bind(adding, t, indices, moved)

    @override
    @abstractmethod
    def write(self, target: HostArray, index: tuple[Positions, ...], updates: HostArray) -> None: ...


@final
@frozen
class ScatterMin(ScatterExtreme):
    """Takes the least of the operand and the updates, or nan if one of them is."""

    name: ClassVar[str] = "scatter_min"

    @override
    def write(self, target: HostArray, index: tuple[Positions, ...], updates: HostArray) -> None:
        numpy_values.take_extremes(np.minimum, target, index, updates)


@final
@frozen
class ScatterMax(ScatterExtreme):
    """Takes the greatest of the operand and the updates, or nan if one of them is."""

    name: ClassVar[str] = "scatter_max"

    @override
    def write(self, target: HostArray, index: tuple[Positions, ...], updates: HostArray) -> None:
        numpy_values.take_extremes(np.maximum, target, index, updates)
