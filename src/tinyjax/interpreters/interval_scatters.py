"""Bounds of arrays that are written to at computed positions, sorted together, or reduced over a named axis."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from tinyjax.interpreters.base import register_all
from tinyjax.interpreters.hidden import Hidden
from tinyjax.interpreters.interval_rules import Ctx, exact, magnitude, wrapping
from tinyjax.interpreters.intervals import INTERVAL_RULES, Interval, Parent, chosen, outward, slack, whole, widened
from tinyjax.ir.dtypes import FLOATS, INT32
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.arithmetic import max_, min_
from tinyjax.primitives.bitwise import logical_and
from tinyjax.primitives.collectives import Collective, PMax, PMin, PSum
from tinyjax.primitives.comparison import ge, gt
from tinyjax.primitives.elementwise import add, mul, neg
from tinyjax.primitives.exchanges import ReduceScatter
from tinyjax.primitives.gather import ScatterAdd, Scattering
from tinyjax.primitives.reductions import ReduceProd, reduce_max, reduce_min
from tinyjax.primitives.scatter import Scatter, ScatterExtreme, ScatterMax, ScatterMin, ScatterMul
from tinyjax.primitives.selection import select
from tinyjax.primitives.sorting import Sort, TopK
from tinyjax.primitives.structure import broadcast_in_dim, constant_like, full, reduce_sum


def _axes(p: Parent, x: Hidden) -> tuple[int, ...]:
    return tuple(range(p.aval(x).ndim))


def _touched(p: Parent, primitive: Scattering, x: Hidden, indices: Hidden, updates: Hidden) -> Hidden:
    """Which elements are written to."""
    counting = ScatterAdd(
        primitive.dimension_numbers, primitive.mode, primitive.indices_are_sorted, primitive.unique_indices
    )
    zeros, ones = (full(p, array_type(p.aval(a).shape, INT32), value) for a, value in ((x, 0), (updates, 1)))
    (count,) = p.bind(counting, zeros, indices, ones)
    return gt(p, count, constant_like(p, count, 0))


# Scatters. Where the positions aren't known, any of the updates may reach any element, or none.


@INTERVAL_RULES.register(ScatterAdd)
def _scatter_add(primitive: ScatterAdd, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    x, indices, updates = args

    def added(_: Primitive, ctx: Ctx, operands: Sequence[Interval]) -> Sequence[Interval]:
        (x, updates), p = operands, ctx.parent
        size, amount = magnitude(p, x).upper, magnitude(p, updates).upper
        if indices.point:
            pairs = (x.lower, updates.lower), (x.upper, updates.upper), (size, amount)
            lower, upper, total = (p.bind(primitive, a, indices.lower, b)[0] for a, b in pairs)
        else:
            zero, axes = constant_like(p, updates.lower, 0), _axes(p, updates.lower)
            lower = add(p, x.lower, reduce_sum(p, min_(p, updates.lower, zero), axes))
            upper = add(p, x.upper, reduce_sum(p, max_(p, updates.upper, zero), axes))
            total = add(p, size, reduce_sum(p, amount, axes))
        if p.aval(lower).dtype not in FLOATS:
            return [Interval(lower, upper)]
        error = slack(p, total, 2 + 2 * p.aval(updates.lower).size)
        return [widened(p, lower, upper, error, error)]

    return wrapping(added)(primitive, ctx, [x, updates])


@INTERVAL_RULES.register(ScatterMul)
def _scatter_mul(primitive: ScatterMul, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Of numbers that aren't negative, products of the bounds; of others, how far from zero products can be."""
    x, indices, updates = args

    def multiplied(_: Primitive, ctx: Ctx, operands: Sequence[Interval]) -> Sequence[Interval]:
        (x, updates), p = operands, ctx.parent
        zero, axes = constant_like(p, x.lower, 0), _axes(p, updates.lower)
        low, least = (max_(p, value.lower, zero) for value in (x, updates))
        high, greatest = (magnitude(p, value).upper for value in (x, updates))
        if indices.point:
            low, high = (p.bind(primitive, a, indices.lower, b)[0] for a, b in ((low, least), (high, greatest)))
        else:
            one = constant_like(p, x.lower, 1)
            low = mul(p, low, p.bind(ReduceProd(axes), min_(p, least, one))[0])
            high = mul(p, high, p.bind(ReduceProd(axes), max_(p, greatest, one))[0])
        natural = ge(p, reduce_min(p, updates.lower, axes), constant_like(p, updates.lower, 0))
        natural = broadcast_in_dim(p, natural, p.aval(x.lower).shape, ())
        low = select(p, logical_and(p, natural, ge(p, x.lower, zero)), low, neg(p, high))
        found = outward(p, low, high, 4 + 2 * p.aval(updates.lower).size)
        if not indices.point:
            return [found]
        return [chosen(p, _touched(p, primitive, x.lower, indices.lower, updates.lower), found, x)]

    return wrapping(multiplied)(primitive, ctx, [x, updates])


@INTERVAL_RULES.register(Scatter)
def _scatter(primitive: Scatter, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x, indices, updates), p = args, ctx.parent
    if not indices.point:
        return [_reached(p, x, updates)]
    if primitive.unique_indices:
        return exact(primitive, ctx, args)
    # It isn't said which of several updates of an element is taken.
    touched = _touched(p, primitive, x.lower, indices.lower, updates.lower)
    start = chosen(p, touched, Interval(whole(p, x).upper, whole(p, x).lower), x)
    least, greatest = (cls(primitive.dimension_numbers, primitive.mode) for cls in (ScatterMin, ScatterMax))
    (lower,) = p.bind(least, start.lower, indices.lower, updates.lower)
    (upper,) = p.bind(greatest, start.upper, indices.lower, updates.upper)
    return [Interval(lower, upper)]


def _reached(p: Parent, x: Interval, updates: Interval) -> Interval:
    """Any element of x may have become any of the updates."""
    if p.aval(updates.lower).size == 0:
        return x
    axes = _axes(p, updates.lower)
    low, high = reduce_min(p, updates.lower, axes), reduce_max(p, updates.upper, axes)
    return Interval(min_(p, x.lower, low), max_(p, x.upper, high))


def _scatter_extreme(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x, indices, updates), p = args, ctx.parent
    if indices.point:
        return exact(primitive, ctx, args)
    reached = _reached(p, x, updates)
    if isinstance(primitive, ScatterMin):
        return [Interval(reached.lower, x.upper)]
    return [Interval(x.lower, reached.upper)]


register_all(INTERVAL_RULES, _scatter_extreme, (ScatterExtreme,))

# Sorting.


@INTERVAL_RULES.register(Sort)
def _sort(primitive: Sort, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """The first key is sorted whatever the others are. If all keys are known, so is the order; if not, what follows
    them may be any element along the axis."""
    p, keys, at = ctx.parent, primitive.num_keys, primitive.dimension
    if all(key.point for key in args[:keys]):
        return exact(primitive, ctx, args)
    first = evolve(primitive, num_keys=1)
    lower, upper = (p.bind(first, end)[0] for end in (args[0].lower, args[0].upper))
    return [Interval(lower, upper), *(_anywhere(p, x, at) for x in args[1:])]


@INTERVAL_RULES.register(TopK)
def _top_k(primitive: TopK, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """What is chosen lies between what is chosen of the ends; it may come from anywhere along the axis."""
    (x,), p = args, ctx.parent
    if x.point:
        return exact(primitive, ctx, args)
    (lower, places), (upper, _) = (p.bind(primitive, end) for end in (x.lower, x.upper))
    aval = p.aval(places)
    last = p.aval(x.lower).shape[primitive.axis] - 1
    return [Interval(lower, upper), Interval(full(p, aval, 0), full(p, aval, max(last, 0)))]


def _anywhere(p: Parent, x: Interval, axis: int) -> Interval:
    """Any element along an axis."""
    shape = p.aval(x.lower).shape
    if 0 in shape:
        return x
    kept = tuple(i for i in range(len(shape)) if i != axis)
    low, high = reduce_min(p, x.lower, (axis,)), reduce_max(p, x.upper, (axis,))
    return Interval(broadcast_in_dim(p, low, shape, kept), broadcast_in_dim(p, high, shape, kept))


# Reductions over a named axis.


def _psum(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    assert isinstance(primitive, Collective)
    counting = PSum(primitive.axis_name, primitive.index_groups)

    def summed(_: Primitive, ctx: Ctx, operands: Sequence[Interval]) -> Sequence[Interval]:
        (x,), p = operands, ctx.parent
        lower, upper, total = (p.bind(primitive, end)[0] for end in (x.lower, x.upper, magnitude(p, x).upper))
        if p.aval(lower).dtype not in FLOATS:
            return [Interval(lower, upper)]
        (count,) = p.bind(counting, constant_like(p, lower, 1))
        error = mul(p, slack(p, total, 4), count)
        return [widened(p, lower, upper, error, error)]

    return wrapping(summed)(primitive, ctx, args)


register_all(INTERVAL_RULES, _psum, (PSum, ReduceScatter))
register_all(INTERVAL_RULES, exact, (PMax, PMin))
