"""Bounds of what is done to arrays as a whole, and of branches and loops that may go either way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from tinyjax.control.call import Call
from tinyjax.control.cond import Cond
from tinyjax.control.loops import While
from tinyjax.interpreters.base import Form, Wanted, register_all
from tinyjax.interpreters.control import interpret_cond, interpret_while, transform_body, transform_branches
from tinyjax.interpreters.hidden import Hidden, staged
from tinyjax.interpreters.interval_logic import hull, possible
from tinyjax.interpreters.interval_rules import Ctx, exact, magnitude, wrapping
from tinyjax.interpreters.intervals import INTERVAL_RULES, Interval, Parent, slack, widened
from tinyjax.ir.dtypes import BOOL, FLOATS, INT32, SIGNED
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr, Literal
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.annotations import Name, OptimizationBarrier
from tinyjax.primitives.arithmetic import max_, min_
from tinyjax.primitives.bitwise import logical_and, logical_or
from tinyjax.primitives.comparison import gt, lt
from tinyjax.primitives.contractions import Bilinear
from tinyjax.primitives.conversion import Copy, ReducePrecision, StopGradient, convert
from tinyjax.primitives.cumulative import CumMax, CumMin, CumSum
from tinyjax.primitives.dynamic import DynamicSlice, DynamicUpdateSlice
from tinyjax.primitives.elementwise import add, mul, neg, scale, sub
from tinyjax.primitives.gather import Gather
from tinyjax.primitives.reduce_window import ReduceWindowMax, ReduceWindowMin, ReduceWindowSum
from tinyjax.primitives.reductions import (
    Position,
    ReduceMax,
    ReduceMin,
    ReduceProd,
    highest,
    lowest,
    reduce_max,
    reduce_min,
    reduce_or,
)
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import reshape
from tinyjax.primitives.slicing import Concatenate, Pad, pad, slice_in_dim
from tinyjax.primitives.stacking import Stack
from tinyjax.primitives.structure import Linear, ReduceSum, broadcast_scalar, constant_like, full, permute
from tinyjax.primitives.window_choices import SelectAndGatherAdd, SelectAndScatterAdd
from tinyjax.primitives.windows import GatherScatterMode

# Sums, whose rounding errors add up.


def _summed(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x,), p = args, ctx.parent
    (lower,), (upper,) = p.bind(primitive, x.lower), p.bind(primitive, x.upper)
    if p.aval(lower).dtype not in FLOATS:
        return [Interval(lower, upper)]
    aval = p.aval(x.lower)
    if isinstance(primitive, ReduceWindowSum):
        count = math.prod(primitive.window_dimensions)
    else:
        axes = primitive.axes if isinstance(primitive, ReduceSum) else tuple(range(aval.ndim))
        count = math.prod(aval.shape[i] for i in axes)
    error = slack(p, p.bind(primitive, magnitude(p, x).upper)[0], 2 + 2 * count)
    return [widened(p, lower, upper, error, error)]


def _dot(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Computed in the dtype that the primitive computes in."""
    assert isinstance(primitive, Bilinear)
    (aval,) = primitive.type_of(*map(ctx.aval, args))
    x, y = (ctx.aval(arg).dtype for arg in args)
    _, within = primitive.dtypes(x, y)
    ins = [convert(ctx, arg, within, ctx.aval(arg).weak_type) for arg in args]
    (found,) = wrapping(_float_dot if within in FLOATS else _whole_dot)(primitive.unconverted(), ctx, ins)
    return [convert(ctx, found, aval.dtype, aval.weak_type)]


def _whole_dot(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Of whole numbers: products of what is positive and what is negative in each operand, which rise with both."""
    (x, y), p = args, ctx.parent

    def dot(a: Hidden, b: Hidden) -> Hidden:
        return p.bind(primitive, a, b)[0]

    if ctx.aval(x).dtype in FLOATS:
        return _float_dot(primitive, ctx, args)
    if ctx.aval(x).dtype not in SIGNED:
        return [Interval(dot(x.lower, y.lower), dot(x.upper, y.upper))]
    (xp, xn), (yp, yn) = (_halves(p, operand) for operand in (x, y))
    rising, falling = ((xp, yp), (xn, yn)), ((xp, yn), (xn, yp))
    lows = [add(p, *[dot(a.lower, b.lower) for a, b in pairs]) for pairs in (rising, falling)]
    highs = [add(p, *[dot(a.upper, b.upper) for a, b in pairs]) for pairs in (rising, falling)]
    lower, upper = sub(p, lows[0], highs[1]), sub(p, highs[0], lows[1])
    return [Interval(lower, upper)]


register_all(INTERVAL_RULES, _dot, (Bilinear,))


def _halves(p: Parent, x: Interval) -> tuple[Interval, Interval]:
    """Bounds of the positive part, and of the negative one without its sign."""
    zero = constant_like(p, x.lower, 0)
    return Interval(max_(p, x.lower, zero), max_(p, x.upper, zero)), Interval(
        max_(p, neg(p, x.upper), zero), max_(p, neg(p, x.lower), zero)
    )


def _float_dot(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Where one operand is a point, its positive part takes the bound itself and its negative part the other one.
    Otherwise what the midpoints give, and what the radii can change in that."""
    (x, y), p = args, ctx.parent

    def dot(a: Hidden, b: Hidden) -> Hidden:
        return p.bind(primitive, a, b)[0]

    if y.point or x.point:
        positive, negative = _signed_parts(p, y.lower if y.point else x.lower)
        if y.point:
            lower = add(p, dot(x.lower, positive), dot(x.upper, negative))
            upper = add(p, dot(x.upper, positive), dot(x.lower, negative))
        else:
            lower = add(p, dot(positive, y.lower), dot(negative, y.upper))
            upper = add(p, dot(positive, y.upper), dot(negative, y.lower))
    else:
        (mx, rx), (my, ry) = _centered(p, x), _centered(p, y)
        radius = add(p, dot(magnitude(p, Interval(mx, mx)).upper, ry), dot(rx, magnitude(p, y).upper))
        center = dot(mx, my)
        lower, upper = sub(p, center, radius), add(p, center, radius)
    terms = primitive.terms(ctx.aval(x), ctx.aval(y)) if isinstance(primitive, Bilinear) else 1
    error = slack(p, dot(magnitude(p, x).upper, magnitude(p, y).upper), 16 + 8 * terms)
    return [widened(p, lower, upper, error, error)]


def _signed_parts(p: Parent, x: Hidden) -> tuple[Hidden, Hidden]:
    zero = constant_like(p, x, 0)
    return max_(p, x, zero), min_(p, x, zero)


def _centered(p: Parent, x: Interval) -> tuple[Hidden, Hidden]:
    """The middle, and how far the bounds are from it, at least."""
    middle = add(p, scale(p, x.lower, 0.5), scale(p, x.upper, 0.5))
    radius = max_(p, sub(p, x.upper, middle), sub(p, middle, x.lower))
    return middle, add(p, radius, slack(p, magnitude(p, x).upper, 4))


@INTERVAL_RULES.register(ReduceProd)
def _prod(primitive: ReduceProd, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Products of one half of the numbers with the other, until one is left."""
    (x,) = args
    shape = ctx.aval(x).shape
    kept = tuple(i for i in range(len(shape)) if i not in primitive.axes)
    size = math.prod(shape[i] for i in primitive.axes)
    rest = tuple(shape[i] for i in kept)
    x = reshape(ctx, permute(ctx, x, primitive.axes + kept), (size, *rest))
    half = 1 << max(size - 1, 0).bit_length()
    x = pad(ctx, x, ((0, half - size, 0), *[(0, 0, 0)] * len(rest)), 1)
    while half > 1:
        half //= 2
        x = mul(ctx, slice_in_dim(ctx, x, 0, half, 1, 0), slice_in_dim(ctx, x, half, 2 * half, 1, 0))
    return [reshape(ctx, x, rest)]


# Elements that are moved about, or chosen.


def _moved(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Elements from known positions; from others, they may be any element."""
    (x, *positions), p = args, ctx.parent
    if all(position.point for position in positions):
        return exact(primitive, ctx, args)
    (aval,) = primitive.type_of(*map(ctx.aval, args))
    axes = tuple(range(ctx.aval(x).ndim))
    lower, upper = reduce_min(p, x.lower, axes), reduce_max(p, x.upper, axes)
    if isinstance(primitive, Gather) and primitive.mode is GatherScatterMode.FILL_OR_DROP:
        lower, upper = (constant_like(p, x.lower, end(aval.dtype)) for end in (lowest, highest))
    return [Interval(broadcast_scalar(p, lower, aval.shape), broadcast_scalar(p, upper, aval.shape))]


@INTERVAL_RULES.register(DynamicUpdateSlice)
def _updated(primitive: DynamicUpdateSlice, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    (x, update, *positions), p = args, ctx.parent
    if all(position.point for position in positions):
        return exact(primitive, ctx, args)
    axes = tuple(range(ctx.aval(x).ndim))
    return [
        Interval(
            min_(p, x.lower, reduce_min(p, update.lower, axes)), max_(p, x.upper, reduce_max(p, update.upper, axes))
        )
    ]


def _position(primitive: Primitive, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """Any position along the axis."""
    (x,), p = args, ctx.parent
    (aval,) = primitive.type_of(ctx.aval(x))
    size = next(n for n, m in zip(ctx.aval(x).shape, (*aval.shape, -1), strict=True) if n != m)
    return [Interval(full(p, aval, 0), full(p, aval, size - 1))]


register_all(INTERVAL_RULES, wrapping(_summed), (ReduceSum, CumSum, ReduceWindowSum))
register_all(INTERVAL_RULES, _moved, (Gather, DynamicSlice))
register_all(INTERVAL_RULES, _position, (Position,))
register_all(INTERVAL_RULES, exact, (Linear, Concatenate, Stack, Pad, Copy, StopGradient, ReducePrecision, Name))
register_all(INTERVAL_RULES, exact, (ReduceWindowMax, ReduceWindowMin))
for _cls in (SelectAndGatherAdd, SelectAndScatterAdd):
    INTERVAL_RULES.lacks(_cls, "which element is chosen isn't known from bounds")
register_all(INTERVAL_RULES, exact, (OptimizationBarrier, ReduceMax, ReduceMin, CumMax, CumMin))

# Branches and loops.


@INTERVAL_RULES.register(Cond)
def _cond(primitive: Cond, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """If any of several branches may be taken: bounds of what all of these return."""
    index, *operands = args
    if index.point:
        return interpret_cond(primitive, ctx, args)
    branches, forms = transform_branches(ctx, primitive.branches, list(map(ctx.form, operands)))
    parts = ctx.parts(operands)
    found = [ctx.assemble(forms, ctx.parent.bind(Call("branch", branch), *parts)) for branch in branches]
    chosen = [possible(ctx.parent, index, i, len(branches)) for i in range(len(branches))]
    return [hull(ctx.parent, chosen, cases) for cases in zip(*found, strict=True)]


@INTERVAL_RULES.register(While)
def _while(primitive: While, ctx: Ctx, args: Sequence[Interval]) -> Sequence[Interval]:
    """As long as the condition is certain, the loop runs. Then bounds grow by what further iterations reach, until they
    reach nothing new; what is still growing after some iterations has no bounds."""
    cond_consts, body_consts, init = primitive.operands(args)
    tested, used = list(map(ctx.form, cond_consts)), list(map(ctx.form, body_consts))
    carry, body = transform_body(ctx, primitive.body_jaxpr, body_consts, init)
    certain = _test(ctx, primitive.cond_jaxpr, [*tested, *body.outs])
    if certain is None:
        return interpret_while(primitive, ctx, args)
    first, last = ctx.parts(cond_consts), ctx.parts(body_consts)
    loop = While(certain[0], len(first), body.jaxpr, len(last))
    carry = ctx.assemble(body.outs, ctx.parent.bind(loop, *first, *last, *ctx.parts(carry)))
    carry = [ctx.widened(x, False) for x in carry]
    ranges = list(map(ctx.form, carry))
    growth = _growth(ctx, primitive.body_jaxpr, used, ranges)
    going = _test(ctx, primitive.cond_jaxpr, [*tested, *ranges])
    if going is None:
        return carry
    start = [ctx.parent.constant(Literal.of(0, INT32)), ctx.parent.constant(Literal.of(True))]
    loop = While(_with_state(going[1], len(first)), len(first), growth, len(last))
    return ctx.assemble(ranges, ctx.parent.bind(loop, *first, *last, *start, *ctx.parts(carry))[2:])


#: After how many iterations bounds that still grow are given up.
PATIENCE: Final = 16


def _test(ctx: Ctx, jaxpr: Jaxpr, forms: Sequence[Form[bool]]) -> tuple[Jaxpr, Jaxpr] | None:
    """Programs that tell whether the condition is certain, and whether it is possible; None if that is always the
    same."""
    test = ctx.transform(jaxpr, forms)
    if test.outs[0].structure:
        return None

    def end(i: int) -> Jaxpr:
        return staged(test.jaxpr.in_avals, lambda parent, ins: [interpret(parent, test.jaxpr, ins)[i]])

    return end(0), end(1)


def _with_state(jaxpr: Jaxpr, nconsts: int) -> Jaxpr:
    """The condition, and that bounds grew; the count of iterations and that mark come before the carry."""
    avals = jaxpr.in_avals

    def run(p: Parent, ins: list[Hidden]) -> Sequence[Hidden]:
        (found,) = interpret(p, jaxpr, [*ins[:nconsts], *ins[nconsts + 2 :]])
        return [logical_and(p, found, ins[nconsts + 1])]

    return staged([*avals[:nconsts], array_type((), INT32), array_type((), BOOL), *avals[nconsts:]], run)


def _growth(ctx: Ctx, jaxpr: Jaxpr, consts: Sequence[Form[bool]], ranges: Sequence[Form[bool]]) -> Jaxpr:
    """The body of the loop that makes bounds grow."""
    body = ctx.transform(jaxpr, [*consts, *ranges], [Wanted(form.structure, form.avals) for form in ranges])
    n = sum(len(form.avals) for form in consts)
    avals = body.jaxpr.in_avals

    def run(p: Parent, ins: list[Hidden]) -> Sequence[Hidden]:
        used, (count, _, *old) = ins[:n], ins[n:]
        new = interpret(p, body.jaxpr, [*used, *old])
        patient = lt(p, count, constant_like(p, count, PATIENCE))
        grown: Hidden = p.constant(Literal.of(False))
        results: list[Hidden] = []
        for i, (before, after) in enumerate(zip(old, new, strict=True)):
            aval = p.aval(before)
            beyond = (gt if i % 2 else lt)(p, after, before)
            limit = constant_like(p, before, (highest if i % 2 else lowest)(aval.dtype))
            results.append(select(p, beyond, select(p, patient, after, limit), before))
            grown = logical_or(p, grown, reduce_or(p, beyond, tuple(range(aval.ndim))) if aval.ndim else beyond)
        return [add(p, count, constant_like(p, count, 1)), grown, *results]

    return staged([*avals[:n], array_type((), INT32), array_type((), BOOL), *avals[n:]], run)
