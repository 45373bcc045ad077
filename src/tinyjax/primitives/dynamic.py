"""Slices that begin at computed positions, and writing to them. A slice that would reach beyond the array is moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import LinearityError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import INT32, INTEGERS, MOVABLE, HostArray
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.tangents import zero_tangents
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import check_dtype, common_dtype
from tinyjax.primitives.gather import Gather
from tinyjax.primitives.scatter import Scatter
from tinyjax.primitives.slicing import concatenate
from tinyjax.primitives.structure import broadcast_in_dim, constant_like, full, instantiate, move_axis, shape_error
from tinyjax.primitives.windows import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    whole_numbers,
)

V = TypeVar("V")


def _check_starts(name: str, operand: ShapedArray, starts: Sequence[ShapedArray]) -> None:
    if len(starts) != operand.ndim:
        raise shape_error(name, f"a start for each axis of {operand} is needed, got {len(starts)}")
    if any(start.shape != () for start in starts):
        raise shape_error(name, f"the starts must be scalars, got {', '.join(map(str, starts))}")
    if any(start.dtype not in INTEGERS or start.dtype != starts[0].dtype for start in starts):
        raise TypingError(f"{name} needs starts of one integer dtype, got {', '.join(map(str, starts))}")


def _ranges(shape: Shape, sizes: Shape, starts: Sequence[HostArray]) -> tuple[slice, ...]:
    """The slice of each axis, moved into the array."""
    found = []
    for n, size, start in zip(shape, sizes, starts, strict=True):
        first = min(max(int(whole_numbers(start)), 0), n - size)
        found.append(slice(first, first + size))
    return tuple(found)


def _no_linear_starts(name: str, starts: Sequence[V | UndefPrimal]) -> list[V]:
    known = [start for start in starts if not isinstance(start, UndefPrimal)]
    if len(known) < len(starts):
        raise LinearityError(f"{name} is not linear in the starts")
    return known


def _with_start(ctx: Context[V], starts: Sequence[V], at: int) -> list[V]:
    """The starts for an array with one more axis, at `at`, all of which is meant."""
    zero = constant_like(ctx, starts[0], 0) if starts else full(ctx, array_type((), INT32), 0)
    return [*starts[:at], zero, *starts[at:]]


def _index_vectors(ctx: Context[V], size: int, starts: Sequence[V], axes: Sequence[int | None]) -> V:
    """Starts, some of which are mapped, as an array of index vectors."""
    columns = [
        broadcast_in_dim(ctx, start, (size, 1), () if at is None else (0,))
        for start, at in zip(starts, axes, strict=True)
    ]
    return concatenate(ctx, columns, 1)


@final
@frozen
class DynamicSlice(Primitive):
    """A slice of `slice_sizes` of the first operand, which begins at the positions that the others, scalars, give."""

    slice_sizes: Shape
    name: ClassVar[str] = "dynamic_slice"
    plain: ClassVar[bool] = True

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((0,),)

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        if not avals:
            raise TypingError(f"{self.name} needs an operand")
        (x, *starts), sizes = avals, self.slice_sizes
        check_dtype(self.name, x.dtype, MOVABLE)
        _check_starts(self.name, x, starts)
        if len(sizes) != x.ndim or any(not 0 <= size <= n for size, n in zip(sizes, x.shape, strict=True)):
            raise shape_error(
                self.name, f"slice_sizes must be a size for each axis of {x}, and not larger, got {sizes}"
            )
        return (array_type(sizes, x.dtype, x.weak_type),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        x, *starts = args
        return (x[_ranges(x.shape, self.slice_sizes, starts)],)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        outs, t = ctx.bind(self, *primals), tangents[0]
        if isinstance(t, Zero):
            return outs, zero_tangents(ctx, outs)
        return outs, ctx.bind(self, t, *primals[1:])

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        (x, *starts), (at, *starts_at) = args, axes
        sizes = self.slice_sizes
        if at is not None and not any(place is not None for place in starts_at):
            mapped = DynamicSlice((*sizes[:at], axis.size, *sizes[at:]))
            return ctx.bind(mapped, x, *_with_start(ctx, starts, at)), [at]
        every = tuple(range(len(sizes)))
        gather = Gather(GatherDimensionNumbers(every, (), every), sizes, GatherScatterMode.CLIP, None, True, True)
        return gather.batch(ctx, axis, [x, _index_vectors(ctx, axis.size, starts, starts_at)], [at, 0])

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x, *starts) = cotangents, args
        known = _no_linear_starts(self.name, starts)
        if isinstance(ct, Zero) or not isinstance(x, UndefPrimal):
            return [None] * len(args)
        zeros = full(ctx, array_type(x.aval.shape, ctx.aval(ct).dtype, x.aval.weak_type, ctx.aval(ct).axes), 0)
        return [dynamic_update_slice(ctx, zeros, ct, *known), *[None] * len(known)]


@final
@frozen
class DynamicUpdateSlice(Primitive):
    """The first operand with the second written to it, from the positions on that the others, scalars, give."""

    name: ClassVar[str] = "dynamic_update_slice"
    plain: ClassVar[bool] = True

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((0, 1),)

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        if len(avals) < 2:
            raise TypingError(f"{self.name} needs an operand and an update, got {len(avals)} operands")
        x, update, *starts = avals
        check_dtype(self.name, common_dtype(self.name, (x, update)), MOVABLE)
        _check_starts(self.name, x, starts)
        if update.ndim != x.ndim or any(size > n for size, n in zip(update.shape, x.shape, strict=True)):
            raise shape_error(self.name, f"the update must have as many axes as the operand {x}, and not be larger, "
                              f"got {update}")  # fmt: skip
        return (array_type(x.shape, x.dtype, all(aval.weak_type for aval in avals)),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        x, update, *starts = args
        out: HostArray = np.array(x)
        out[_ranges(x.shape, update.shape, starts)] = update
        return (out,)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        outs, (t, t_update) = ctx.bind(self, *primals), tangents[:2]
        if isinstance(t, Zero) and isinstance(t_update, Zero):
            return outs, zero_tangents(ctx, outs)
        return outs, ctx.bind(self, instantiate(ctx, t), instantiate(ctx, t_update), *primals[2:])

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        (x, update, *starts), (at, update_at, *starts_at) = args, axes
        if any(place is not None for place in starts_at):
            every = tuple(range(len(starts)))
            dims = ScatterDimensionNumbers(every, (), every)
            scatter = Scatter(dims, GatherScatterMode.CLIP, indices_are_sorted=True, unique_indices=True)
            vectors = _index_vectors(ctx, axis.size, starts, starts_at)
            outs, places = scatter.batch(ctx, axis, [x, vectors, update], [at, 0, update_at])
            weak = all(ctx.aval(arg).weak_type for arg in args)
            return [convert(ctx, out, ctx.aval(out).dtype, weak) for out in outs], places
        place = at or 0
        if at is None:
            x = _repeated(ctx, x, axis.size)
        update = _repeated(ctx, update, axis.size) if update_at is None else move_axis(ctx, update, update_at, 0)
        update = move_axis(ctx, update, 0, place)
        return [dynamic_update_slice(ctx, x, update, *_with_start(ctx, starts, place))], [place]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x, update, *starts) = cotangents, args
        known = _no_linear_starts(self.name, starts)
        rest = [None] * len(known)
        if isinstance(ct, Zero):
            return [None, None, *rest]
        aval = update.aval if isinstance(update, UndefPrimal) else ctx.aval(update)
        kept: V | None = None
        taken: V | None = None
        if isinstance(x, UndefPrimal):
            zeros = full(ctx, array_type(aval.shape, ctx.aval(ct).dtype, ctx.aval(ct).weak_type, ctx.aval(ct).axes), 0)
            kept = dynamic_update_slice(ctx, ct, zeros, *known)
        if isinstance(update, UndefPrimal):
            taken = dynamic_slice(ctx, ct, aval.shape, *known)
        return [kept, taken, *rest]


def _repeated(ctx: Context[V], x: V, size: int) -> V:
    """x, the same for each element of a mapped axis, which comes first."""
    shape = ctx.aval(x).shape
    return broadcast_in_dim(ctx, x, (size, *shape), tuple(range(1, len(shape) + 1)))


# The vocabulary.


def dynamic_slice(ctx: Context[V], x: V, sizes: Shape, *starts: V) -> V:
    """The slice of x of these sizes that begins at `starts`; x itself if it is all of x."""
    return x if ctx.aval(x).shape == sizes else ctx.bind(DynamicSlice(sizes), x, *starts)[0]


def dynamic_update_slice(ctx: Context[V], x: V, update: V, *starts: V) -> V:
    """x with `update` written to it from `starts` on."""
    return ctx.bind(DynamicUpdateSlice(), x, update, *starts)[0]
