"""Lowering rules of loops: both become `stablehlo.while`."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.hlo.context import SSA, Body, LoweringContext
from tinyjax.hlo.keys import PAIRS
from tinyjax.hlo.rules.shapes import numbers
from tinyjax.hlo.tables import RULES
from tinyjax.hlo.text import regions_text, results_text, type_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INT32, INT64
from tinyjax.ir.effects import NO_EFFECTS, Effects, must_stay
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.comparison import lt
from tinyjax.primitives.elementwise import add, sub
from tinyjax.primitives.slicing import Slice, concatenate, slice_in_dim


def _emit(ctx: LoweringContext, start: Sequence[SSA], cond: Body, body: Body, effects: Effects) -> Sequence[SSA]:
    """A `stablehlo.while`. If it has effects, what keeps them in order is carried along."""
    ordered, avals = must_stay(effects), [value.aval for value in start]
    start = ctx.apart(start)
    if ordered:
        start = [ctx.order(), *start]

    def inside(run: Body, keep: bool) -> Body:
        def inner_run(inner: LoweringContext, now: Sequence[SSA]) -> Sequence[SSA]:
            outs = inner.apart(run(inner, inner.together(inner.after_effects(now) if ordered else now, avals)))
            return [inner.order(), *outs] if ordered and keep else outs

        return inner_run

    types = [value.aval for value in start]
    names, signature = ", ".join([value.name for value in start]), f"{types_text(types)} -> {results_text(types)}"
    regions = regions_text(ctx.region(types, inside(cond, False)), ctx.region(types, inside(body, True)))
    outs = ctx.emit_many(f'"stablehlo.while"({names}) {regions} : {signature}', types)
    return ctx.together(ctx.after_effects(outs) if ordered else outs, avals)


def repeat(ctx: LoweringContext, start: Sequence[SSA], cond: Body, body: Body) -> Sequence[SSA]:
    """The values at the end of a loop without effects."""
    return _emit(ctx, start, cond, body, NO_EFFECTS)


@RULES.register(While)
def _while(primitive: While, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    cond_consts, body_consts, carry = primitive.operands(args)

    # What the loop only reads needs not be carried: the regions use the values from outside.
    def cond(inner: LoweringContext, now: Sequence[SSA]) -> Sequence[SSA]:
        return inner.run(primitive.cond_jaxpr, [*cond_consts, *now], "while_cond")

    def body(inner: LoweringContext, now: Sequence[SSA]) -> Sequence[SSA]:
        return inner.run(primitive.body_jaxpr, [*body_consts, *now], "while_body")

    return _emit(ctx, carry, cond, body, primitive.effects)


@RULES.register(Scan)
def _scan(primitive: Scan, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    """A loop that counts positions from 0, reads slices and writes results there; then what is left after the last
    iteration of `unroll` applications."""
    consts, carry, xs = primitive.operands(args)
    stacks = [ctx.full(0, aval) for aval in types[primitive.num_carry :]]
    length, unroll = primitive.length, primitive.unroll
    read = [_within(ctx, x) for x in xs]
    dtype = INT32 if max([length, *(x.aval.shape[0] for x, _ in read)]) < 2**31 else INT64
    looped = length - length % unroll if length > unroll else 0

    def apply(inner: LoweringContext, count: SSA, many: int, state: Sequence[SSA]) -> list[SSA]:
        """So many applications, from the `count`-th on, to carries and stacks: rows are taken and written together."""
        at = sub(inner, inner.scalar(length - many, dtype), count) if primitive.reverse else count
        places = {first: add(inner, at, inner.scalar(first, dtype)) if first else at for _, first in read}
        taken = [_rows(inner, x, places[first], many) for x, first in read]
        current, filled = state[: primitive.num_carry], state[primitive.num_carry :]
        made: list[Sequence[SSA]] = [()] * many
        for i in reversed(range(many)) if primitive.reverse else range(many):
            operands = [*consts, *current, *(rows[i] for rows in taken)]
            if unroll == 1:
                outs = inner.run(primitive.jaxpr, operands, "scan_body")
            else:  # one function, called several times
                outs = inner.call(primitive.jaxpr, "scan_body", operands)
            current, made[i] = primitive.results(outs)
        parts = zip(*made, strict=True)
        return [*current, *(_written(inner, stack, rows, at) for stack, rows in zip(filled, parts, strict=True))]

    def body(inner: LoweringContext, state: Sequence[SSA]) -> list[SSA]:
        after = apply(inner, state[0], unroll, state[1:])
        return [add(inner, state[0], inner.scalar(unroll, dtype)), *after]

    state = [*carry, *stacks]
    if looped:

        def cond(inner: LoweringContext, now: Sequence[SSA]) -> list[SSA]:
            return [lt(inner, now[0], inner.scalar(looped, dtype))]

        state = list(_emit(ctx, [ctx.scalar(0, dtype), *state], cond, body, primitive.effects)[1:])
    left = length - looped
    return apply(ctx, ctx.scalar(looped, dtype), left, state) if left else state


def _within(ctx: LoweringContext, x: SSA) -> tuple[SSA, int]:
    """What x is most rows of, and from which on: they are read where they are, as a slice would be a copy of them."""
    first = 0
    while not ctx.is_divided and x.aval.dtype not in PAIRS:
        match ctx.made.get(x.name):
            case (Slice() as cut, [whole]) if 2 * x.aval.shape[0] >= whole.aval.shape[0] and _of_rows(cut, whole.aval):
                x, first = whole, first + cut.start_indices[0]
            case _:
                break
    return x, first


def _of_rows(cut: Slice, whole: ShapedArray) -> bool:
    """Whether a slice has whole rows, which follow upon each other."""
    others = (0,) * (whole.ndim - 1), whole.shape[1:]
    return set(cut.strides or (1,)) == {1} and (cut.start_indices[1:], cut.limit_indices[1:]) == others


def _rows(ctx: LoweringContext, x: SSA, at: SSA, many: int) -> Sequence[SSA]:
    """So many slices of x along its first axis, from a position on."""
    shape, dtype = x.aval.shape[1:], x.aval.dtype
    row = array_type(shape, dtype)
    if dtype in PAIRS:
        return [ctx.key_of(words, row) for words in _rows(ctx, ctx.words_of(x), at, many)]
    cut = array_type((many, *shape), dtype)
    places = [at, *(ctx.scalar(0, at.aval.dtype) for _ in shape)]
    names = ", ".join([value.name for value in (x, *places)])
    signature = f"{types_text([value.aval for value in (x, *places)])} -> {type_text(cut)}"
    taken = ctx.emit(f"stablehlo.dynamic_slice {names}, sizes = {numbers(cut.shape)} : {signature}", cut)
    ones = [taken] if many == 1 else [slice_in_dim(ctx, taken, i, i + 1, 1, 0) for i in range(many)]
    return [
        ctx.emit(f"stablehlo.reshape {one.name} : ({type_text(one.aval)}) -> {type_text(row)}", row) for one in ones
    ]


def _written(ctx: LoweringContext, stack: SSA, rows: Sequence[SSA], at: SSA) -> SSA:
    """The stack with slices along its first axis replaced, from a position on."""
    row = rows[0].aval
    if row.dtype in PAIRS:
        return ctx.key_of(_written(ctx, ctx.words_of(stack), [ctx.words_of(x) for x in rows], at), stack.aval)
    cut = array_type((1, *row.shape), row.dtype)
    ones = [ctx.emit(f"stablehlo.reshape {x.name} : ({type_text(row)}) -> {type_text(cut)}", cut) for x in rows]
    update = concatenate(ctx, ones, 0)
    places = [at, *(ctx.scalar(0, at.aval.dtype) for _ in row.shape)]
    names = ", ".join([value.name for value in (stack, update, *places)])
    signature = f"{types_text([value.aval for value in (stack, update, *places)])} -> {type_text(stack.aval)}"
    return ctx.emit(f"stablehlo.dynamic_update_slice {names} : {signature}", stack.aval)
