"""Arrays put together along a new axis, and taken apart again: each other's transposes, and inverses.

The classes come first, then the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import BatchAxis, UndefPrimal, Zero
from tinyjax.ir.shapes import inserted
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives import kernels
from tinyjax.primitives.elementwise import common_dtype, unmapped
from tinyjax.primitives.shaping import expand_dims
from tinyjax.primitives.slicing import Joint, pad
from tinyjax.primitives.structure import (
    Linear,
    check_arity,
    check_axes,
    check_elements,
    instantiate,
    shape_error,
    with_leading_axis,
)

V = TypeVar("V")


@final
@frozen
class Stack(Joint):
    """Puts arrays of one shape side by side along an axis that they don't have.

    >>> Stack(1).evaluate(np.array([1, 2]), np.array([3, 4]))[0].tolist()
    [[1, 3], [2, 4]]
    """

    axis: int
    name: ClassVar[str] = "stack"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        if not avals:
            raise shape_error(self.name, "at least one array is needed")
        dtype, first = common_dtype(self.name, avals), avals[0]
        other = next((aval for aval in avals if aval.shape != first.shape), None)
        if other is not None:
            raise shape_error(self.name, f"arrays of one shape are needed, got {first} and {other}")
        if not 0 <= self.axis <= first.ndim:
            raise shape_error(self.name, f"a stack of arrays like {first} has no axis {self.axis}")
        weak = all(aval.weak_type for aval in avals)
        return (array_type(inserted(first.shape, self.axis, len(avals)), dtype, weak),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.stack(args, self.axis),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return kernels.stacking(avals[0], self.axis)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        avals = list(map(ctx.aval, args))
        rest = unmapped(avals[0].shape, axes[0])
        if any(unmapped(x.shape, at) != rest for x, at in zip(avals, axes, strict=True)):
            check_elements(self, avals, axes)
        moved = [with_leading_axis(ctx, arg, at, axis.size, rest) for arg, at in zip(args, axes, strict=True)]
        return ctx.bind(Stack(self.axis + 1), *moved), [0]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,) = cotangents
        if isinstance(ct, Zero):
            return [None] * len(args)
        parts = ctx.bind(Unstack(self.axis), ct)
        return [part if isinstance(arg, UndefPrimal) else None for part, arg in zip(parts, args, strict=True)]


@final
@frozen
class Unstack(Linear):
    """The arrays along an axis of an array, without that axis.

    >>> [part.tolist() for part in Unstack(1).evaluate(np.array([[1, 3], [2, 4]]))]
    [[1, 2], [3, 4]]
    """

    axis: int
    name: ClassVar[str] = "unstack"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,) = avals
        check_axes(self.name, (self.axis,), x.ndim)
        return (array_type(unmapped(x.shape, self.axis), x.dtype, x.weak_type),) * x.shape[self.axis]

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        (x,) = args
        before = (slice(None),) * self.axis
        rows = [x[(*before, slice(i, i + 1))] for i in range(x.shape[self.axis])]
        return tuple([np.squeeze(row, self.axis) for row in rows])

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        at = axes[0] or 0
        outs = ctx.bind(Unstack(self.axis + (self.axis >= at)), *args)
        return outs, [at - (self.axis < at)] * len(outs)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        there = [(i, ct) for i, ct in enumerate(cotangents) if not isinstance(ct, Zero)]
        if not there:
            return [None]
        if len(there) > 1:
            return [*ctx.bind(Stack(self.axis), *map(partial(instantiate, ctx), cotangents))]
        # Of one alone, there is no need for zeros in the place of each of the others.
        ((i, ct),) = there
        row = expand_dims(ctx, ct, (self.axis,))
        config = [(0, 0, 0)] * (ctx.aval(ct).ndim + 1)
        config[self.axis] = (i, len(cotangents) - 1 - i, 0)
        return [pad(ctx, row, tuple(config))]


def stack(ctx: Context[V], parts: Sequence[V], axis: int) -> V:
    """Arrays of one type along a new axis."""
    return ctx.bind(Stack(axis), *parts)[0]


def unstack(ctx: Context[V], x: V, axis: int) -> Sequence[V]:
    """The arrays that a stack along this axis is made of."""
    return ctx.bind(Unstack(axis), x)
