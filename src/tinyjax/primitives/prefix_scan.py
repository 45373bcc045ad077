"""Combining the elements along an axis, all of them or each with all before it, in parallel and in an order that is
fixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import COMPLEXES
from tinyjax.primitives.elementwise import add
from tinyjax.primitives.slicing import concatenate, pad, slice_in_dim

V = TypeVar("V")
#: Numbers, or numbers and their tangents.
Values: TypeAlias = tuple[V, ...]


def prefixes(
    ctx: Context[V], values: Values[V], axis: int, combine: Callable[[Context[V], Values[V], Values[V]], Values[V]]
) -> Values[V]:
    """Combines neighbours along an axis and goes on with what results, half as many: these are the elements at odd
    positions. Each at an even position is the one before it combined with its own element.

    JAX goes in the same order, which shows in how equal numbers share the tangent of a maximum.
    """
    size = ctx.aval(values[0]).shape[axis]
    if size < 2:
        return values
    pairs = combine(ctx, _part(ctx, values, axis, 0, size - 1, 2), _part(ctx, values, axis, 1, size, 2))
    odd = prefixes(ctx, pairs, axis, combine)
    even = _part(ctx, values, axis, 0, 1, 1)
    if size > 2:
        before = _part(ctx, odd, axis, 0, (size - 1) // 2, 1)
        later = combine(ctx, before, _part(ctx, values, axis, 2, size, 2))
        even = tuple(concatenate(ctx, pair, axis) for pair in zip(even, later, strict=True))
    return tuple(_interleave(ctx, *pair, axis) for pair in zip(even, odd, strict=True))


def combined(ctx: Context[V], x: V, combine: Callable[[Context[V], V, V], V]) -> V:
    """All along the first axis, at least one: the first half with the second half, until one is left."""
    while (size := ctx.aval(x).shape[0]) > 1:
        half = size // 2
        left, right = (slice_in_dim(ctx, x, start, start + half, 1, 0) for start in (0, half))
        joined = combine(ctx, left, right)
        x = concatenate(ctx, (joined, slice_in_dim(ctx, x, size - 1, size, 1, 0)), 0) if size % 2 else joined
    return x


def _part(ctx: Context[V], values: Values[V], axis: int, start: int, limit: int, stride: int) -> Values[V]:
    return tuple(slice_in_dim(ctx, v, start, limit, stride, axis) for v in values)


def _interleave(ctx: Context[V], even: V, odd: V, axis: int) -> V:
    """The elements at even and at odd positions, put together."""
    aval = ctx.aval(even)
    extra = aval.shape[axis] - ctx.aval(odd).shape[axis]
    before, after = ((0, 0, 0),) * axis, ((0, 0, 0),) * (aval.ndim - axis - 1)
    # To which every number can be added, zeros of either sign included.
    nothing = complex(-0.0, -0.0) if aval.dtype in COMPLEXES else -0.0
    spread = pad(ctx, even, (*before, (0, 1 - extra, 1), *after), nothing)
    return add(ctx, spread, pad(ctx, odd, (*before, (1, extra, 1), *after), nothing))
