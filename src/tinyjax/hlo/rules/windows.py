"""Lowering rules of reductions of windows, and of reductions by programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from tinyjax.control.reducing import Reduce, ReduceWindow, SelectAndScatter
from tinyjax.hlo.context import SSA, Body, LoweringContext
from tinyjax.hlo.rules.convolution import pairs_text
from tinyjax.hlo.rules.elementwise import convert
from tinyjax.hlo.rules.reducing import (
    Identity,
    all_bits_of,
    array_text,
    combining,
    is_sent,
    negative_zero_of,
    one_of,
    reduce,
    widened,
    zero_of,
)
from tinyjax.hlo.rules.undivided import whole_along
from tinyjax.hlo.tables import GPU_RULES, RULES
from tinyjax.hlo.text import regions_text, results_text, type_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL, FLOATS
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.arithmetic import Max, Min
from tinyjax.primitives.bitwise import And, Or, logical_or
from tinyjax.primitives.elementwise import Add, Elementwise, Mul, add
from tinyjax.primitives.reduce_window import ReduceWindowMax, ReduceWindowMin, ReduceWindowSum, WindowReduction
from tinyjax.primitives.reductions import highest, lowest
from tinyjax.primitives.selection import select
from tinyjax.primitives.slicing import pad, slice_
from tinyjax.primitives.sliding import Windowed
from tinyjax.primitives.window_choices import SelectAndGatherAdd, SelectAndScatterAdd, prefers, worst

WindowRule: TypeAlias = Callable[
    [WindowReduction, LoweringContext, Sequence[SSA], Sequence[ShapedArray]], Sequence[SSA]
]  # fmt: skip


def _attributes(dims: Sequence[int], strides: Sequence[int], padding: Sequence[Sequence[int]]) -> str:
    return (
        f"window_dimensions = {array_text(dims)}, window_strides = {array_text(strides)}, "
        f"padding = {pairs_text(padding)}"
    )


def _scalars(values: Sequence[SSA]) -> list[ShapedArray]:
    return [array_type((), value.aval.dtype) for value in values]


def reduce_windows(
    made: Windowed,
    ctx: LoweringContext,
    xs: Sequence[SSA],
    initial: Sequence[SSA],
    body: Body,
    outs: Sequence[ShapedArray],
) -> Sequence[SSA]:
    """The windows of several arrays, reduced together."""
    scalars = _scalars(xs)
    attributes = (
        f"{_attributes(made.window_dimensions, made.window_strides, made.padding)}, "
        f"base_dilations = {array_text(made.base_dilation)}, window_dilations = {array_text(made.window_dilation)}"
    )
    region = ctx.region((*scalars, *scalars), body)
    names = ", ".join(value.name for value in (*xs, *initial))
    signature = f"{types_text([*(x.aval for x in xs), *scalars])} -> {results_text(outs)}"
    return ctx.emit_many(f'"stablehlo.reduce_window"({names}) <{{{attributes}}}> {region} : {signature}', outs)


def _reducing(combine: Elementwise, wide: bool = False) -> WindowRule:
    """The rule of a reduction of windows by one primitive. `wide`: in the accumulator's dtype."""

    def rule(
        primitive: WindowReduction, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        (x,), (out,) = args, types
        if 0 in (x.aval.size, out.size):
            return (ctx.full(primitive.identity(out.dtype), out),)
        x = widened(ctx, x) if wide else x
        dtype = x.aval.dtype
        initial = ctx.scalar(-0.0 if combine is add and dtype in FLOATS else primitive.identity(dtype), dtype)
        (found,) = reduce_windows(primitive, ctx, [x], [initial], combining(combine), [array_type(out.shape, dtype)])
        return (convert(ctx, found, out),)

    return rule


RULES[ReduceWindowSum] = _reducing(add, wide=True)
RULES[ReduceWindowMax] = _reducing(Max())
RULES[ReduceWindowMin] = _reducing(Min())


def _program(jaxpr: Jaxpr) -> Body:
    """The inside of a reducer that is a program."""

    def body(ctx: LoweringContext, args: Sequence[SSA]) -> Sequence[SSA]:
        outs = ctx.run(jaxpr, args, "computation")
        return [convert(ctx, out, array_type((), out.aval.dtype)) for out in outs]

    return body


#: Operations of StableHLO, with what they leave as it is.
_OPERATIONS: Final[Mapping[type[Primitive], tuple[str, Identity]]] = {
    Add: ("add", negative_zero_of),
    Mul: ("multiply", one_of),
    Max: ("maximum", lowest),
    Min: ("minimum", highest),
    And: ("and", all_bits_of),
    Or: ("or", zero_of),
}


def _operation(jaxpr: Jaxpr) -> Elementwise | None:
    """The operation that a program of two scalars is, if XLA's devices can tell each other what each has of it."""
    if len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2:
        return None
    (eqn,) = jaxpr.eqns
    if jaxpr.outvars != eqn.outvars or {*eqn.invars} != {*jaxpr.invars}:
        return None
    found = eqn.primitive
    if not isinstance(found, Elementwise) or type(found) not in _OPERATIONS:
        return None
    return found if is_sent(_OPERATIONS[type(found)][0], jaxpr.in_avals[0].dtype) else None


@RULES.register(Reduce)
def _reduce(
    primitive: Reduce, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    n = len(args) // 2
    operation = _operation(primitive.jaxpr) if n == 1 else None
    if ctx.is_divided and operation is not None:
        x, initial = args
        name, identity = _OPERATIONS[type(operation)]
        found = reduce(ctx, x, primitive.dimensions, name, operation, identity)
        first = SSA(ctx.filled(initial, found.aval.shape), found.aval)
        return (convert(ctx, ctx.bind(operation, first, found)[0], types[0]),)
    # Each device would begin with the initial value.
    args = [*[whole_along(ctx, arg, primitive.dimensions) for arg in args[:n]], *args[n:]]
    scalars = _scalars(args[:n])
    region = ctx.region((*scalars, *scalars), _program(primitive.jaxpr))
    names = ", ".join(arg.name for arg in args)
    signature = f"{types_text([arg.aval for arg in args])} -> {results_text(types)}"
    attributes = f"<{{dimensions = {array_text(primitive.dimensions)}}}>"
    return ctx.emit_many(f'"stablehlo.reduce"({names}) {attributes} {region} : {signature}', types)


@RULES.register(ReduceWindow)
def _reduce_window(
    primitive: ReduceWindow, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    n = len(args) // 2
    if 0 in (args[0].aval.size, types[0].size):
        return list(map(convert, [ctx] * n, primitive.expand(ctx, args), types))
    return reduce_windows(primitive, ctx, args[:n], args[n:], _program(primitive.jaxpr), types)


@RULES.register(SelectAndScatter)
def _select_and_scatter(
    primitive: SelectAndScatter, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x, source, initial), (out,) = args, types
    if source.aval.size == 0:
        return (SSA(ctx.filled(initial, out.shape), out),)
    attributes = _attributes(primitive.window_dimensions, primitive.window_strides, primitive.padding)
    choose, combine = _program(primitive.select_jaxpr), _program(primitive.scatter_jaxpr)
    return (_scattered(ctx, x, source, initial, attributes, choose, combine, out),)


def _scattered(
    ctx: LoweringContext,
    x: SSA,
    source: SSA,
    initial: SSA,
    attributes: str,
    choose: Body,
    combine: Body,
    out: ShapedArray,
) -> SSA:
    scalars = _scalars([x, x])
    regions = regions_text(ctx.region(scalars, choose), ctx.region(scalars, combine))
    signature = f"{types_text([x.aval, source.aval, initial.aval])} -> {type_text(out)}"
    names = f"{x.name}, {source.name}, {initial.name}"
    return ctx.emit(f'"stablehlo.select_and_scatter"({names}) <{{{attributes}}}> {regions} : {signature}', out)


@RULES.register(SelectAndScatterAdd)
def _select_and_scatter_add(
    primitive: SelectAndScatterAdd, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """XLA doesn't get along with padding here, so the operand is padded, and the result cut."""
    (source, x), (out,) = args, types
    if source.aval.size == 0:
        return (ctx.full(0, out),)
    config = tuple((max(low, 0), max(high, 0), 0) for low, high in primitive.padding)
    removed = tuple((min(low, 0), min(high, 0), 0) for low, high in primitive.padding)
    smaller = pad(ctx, x, removed)
    padded = pad(ctx, smaller, config, worst(primitive.select_prim, x.aval.dtype))

    def choose(inner: LoweringContext, pair: Sequence[SSA]) -> Sequence[SSA]:
        return (prefers(inner, primitive.select_prim, *pair),)

    nothing = [(0, 0)] * out.ndim
    attributes = _attributes(primitive.window_dimensions, primitive.window_strides, nothing)
    initial, together = ctx.scalar(0, x.aval.dtype), logical_or if x.aval.dtype == BOOL else add
    whole = array_type(padded.aval.shape, x.aval.dtype)
    found = _scattered(ctx, padded, source, initial, attributes, choose, combining(together), whole)
    starts = tuple(low for low, _, _ in config)
    ends = tuple(low + size for (low, _, _), size in zip(config, smaller.aval.shape, strict=True))
    found = slice_(ctx, found, starts, ends)
    found = pad(ctx, found, tuple((-low, -high, 0) for low, high, _ in removed))
    return (SSA(found.name, out),)


@RULES.register(SelectAndGatherAdd)
def _select_and_gather_add(
    primitive: SelectAndGatherAdd, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (t, x), (out,) = args, types
    if 0 in (x.aval.size, out.size):
        return (ctx.full(0, out),)

    def body(inner: LoweringContext, pairs: Sequence[SSA]) -> Sequence[SSA]:
        a, s, b, r = pairs
        taken = prefers(inner, primitive.select_prim, a, b)
        return select(inner, taken, a, b), select(inner, taken, s, r)

    dtype = x.aval.dtype
    initial = [ctx.scalar(worst(primitive.select_prim, dtype), dtype), ctx.scalar(0, dtype)]
    strong = array_type(out.shape, dtype)
    found = reduce_windows(primitive, ctx, [x, t], initial, body, [strong, strong])
    return (SSA(found[1].name, out),)


def _by_pairs(
    primitive: SelectAndGatherAdd, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """Where XLA reduces no windows of several arrays."""
    (found,) = primitive.by_pairs(ctx, *args)
    return (SSA(found.name, types[0]),)


GPU_RULES[SelectAndGatherAdd] = _by_pairs
