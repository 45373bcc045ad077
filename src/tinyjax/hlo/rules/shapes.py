"""Lowering rules of the primitives that move elements without computing: shapes, slices, constants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinyjax.hlo.context import SSA, LoweringContext, Rule
from tinyjax.hlo.rules.keys import by_words
from tinyjax.hlo.rules.narrow import of_wider
from tinyjax.hlo.tables import CPU_RULES, RULES
from tinyjax.hlo.text import type_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives import constant, shaping, slicing, stacking, structure


def numbers(values: Iterable[int]) -> str:
    """Integers in brackets."""
    return f"[{', '.join(map(str, values))}]"


def rearranged(ctx: LoweringContext, operation: str, x: SSA, out: ShapedArray) -> SSA:
    """An operation on one array that changes its shape."""
    return ctx.emit(f"{operation} : ({type_text(x.aval)}) -> {type_text(out)}", out)


def _reshaping() -> Rule:
    def rule(_: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
        (x,), (out,) = args, types
        return (rearranged(ctx, f"stablehlo.reshape {x.name}", x, out),)

    return rule


RULES[shaping.Reshape] = by_words(_reshaping())
RULES[shaping.Squeeze] = by_words(_reshaping())


@RULES.register(structure.BroadcastInDim)
@by_words
def _broadcast_in_dim(
    primitive: structure.BroadcastInDim, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x,), (out,) = args, types
    dims = numbers(primitive.broadcast_dimensions)
    n, new = len(out.shape), len(out.shape) - len(x.aval.shape)
    if x.aval.shape and new and primitive.broadcast_dimensions == tuple(range(new, n)):
        # As NumPy broadcasts: leading axes first, and then widened. XLA finds more of what is equal so, as in divisors.
        added = (1,) * new + x.aval.shape
        if added != out.shape:
            x = rearranged(ctx, f"stablehlo.broadcast_in_dim {x.name}, dims = {dims}", x, out.of_shape(added))
            dims = numbers(range(n))
    found = rearranged(ctx, f"stablehlo.broadcast_in_dim {x.name}, dims = {dims}", x, out)
    ctx.made[found.name] = primitive, args
    return (found,)


@RULES.register(structure.Transpose)
@by_words
def _transpose(
    primitive: structure.Transpose, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x,), (out,) = args, types
    return (rearranged(ctx, f"stablehlo.transpose {x.name}, dims = {numbers(primitive.permutation)}", x, out),)


@RULES.register(shaping.Rev)
@by_words
def _rev(
    primitive: shaping.Rev, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x,), (out,) = args, types
    return (ctx.emit(f"stablehlo.reverse {x.name}, dims = {numbers(primitive.dimensions)} : {type_text(out)}", out),)


@RULES.register(shaping.Iota)
def _iota(
    primitive: shaping.Iota, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (out,) = types
    found = ctx.emit(f"stablehlo.iota dim = {primitive.dimension} : {type_text(out)}", out)
    ctx.made[found.name] = primitive, args
    return (found,)


@RULES.register(slicing.Slice)
@by_words
def _slice(
    primitive: slicing.Slice, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    strides = primitive.strides or (1,) * len(primitive.start_indices)
    return (_sliced(ctx, args[0], primitive.start_indices, primitive.limit_indices, strides, types[0]),)


def _sliced(
    ctx: LoweringContext,
    x: SSA,
    starts: Sequence[int],
    limits: Sequence[int],
    strides: Sequence[int],
    out: ShapedArray,
) -> SSA:
    ranges = ", ".join([f"{a}:{b}:{s}" for a, b, s in zip(starts, limits, strides, strict=True)])
    found = rearranged(ctx, f"stablehlo.slice {x.name} [{ranges}]", x, out)
    ctx.made[found.name] = slicing.Slice(tuple(starts), tuple(limits), tuple(strides)), [x]
    return found


@RULES.register(slicing.Split)
@by_words
def _split(
    primitive: slicing.Split, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x,), axis = args, primitive.axis
    starts, limits, strides = [0] * x.aval.ndim, list(x.aval.shape), [1] * x.aval.ndim
    limits[axis] = 0
    parts: list[SSA] = []
    for size, out in zip(primitive.sizes, types, strict=True):
        starts[axis] = limits[axis]
        limits[axis] += size
        parts.append(_sliced(ctx, x, starts, limits, strides, out))
    return parts


@RULES.register(slicing.Concatenate)
@by_words
def _concatenate(
    primitive: slicing.Concatenate, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (out,) = types
    names = ", ".join([arg.name for arg in args])
    signature = f"{types_text([arg.aval for arg in args])} -> {type_text(out)}"
    return (ctx.emit(f"stablehlo.concatenate {names}, dim = {primitive.dimension} : {signature}", out),)


def _inward(n: int, total: int, low: int, high: int, interior: int) -> tuple[int, int, tuple[int, int, int]]:
    """Which of n elements are left by padding that makes `total` of them, and what is then put around and between."""
    step = interior + 1
    start, end = (-(side // step) if side < 0 else 0 for side in (low, high))
    if start + end >= n:
        return 0, 0, (total, 0, 0)
    return start, n - end, (low + start * step, high + end * step, interior)


@RULES.register(slicing.Pad)
def _pad(
    primitive: slicing.Pad, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """Among devices, what is taken away is sliced off: XLA's partitioner ends the process for negative padding."""
    (x, value), (out,) = args, types
    if ctx.is_divided and any(low < 0 or high < 0 for low, high, _ in primitive.padding_config):
        cuts = [
            _inward(n, total, *entry)
            for n, total, entry in zip(x.aval.shape, out.shape, primitive.padding_config, strict=True)
        ]
        kept = slicing.Slice(tuple([start for start, _, _ in cuts]), tuple([limit for _, limit, _ in cuts]))
        return ctx.bind(slicing.Pad(tuple([entry for _, _, entry in cuts])), *ctx.bind(kept, x), value)
    low, high, interior = ([entry[i] for entry in primitive.padding_config] for i in range(3))
    config = f"low = {numbers(low)}, high = {numbers(high)}, interior = {numbers(interior)}"
    signature = f"({type_text(x.aval)}, {type_text(value.aval)}) -> {type_text(out)}"
    return (ctx.emit(f"stablehlo.pad {x.name}, {value.name}, {config} : {signature}", out),)


@RULES.register(stacking.Stack)
def _stack(
    primitive: stacking.Stack, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    rows = [shaping.expand_dims(ctx, arg, (primitive.axis,)) for arg in args]
    return (slicing.concatenate(ctx, rows, primitive.axis),)


@RULES.register(stacking.Unstack)
def _unstack(
    primitive: stacking.Unstack, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x,), axis = args, primitive.axis
    rows = [slicing.slice_in_dim(ctx, x, i, i + 1, 1, axis) for i in range(len(types))]
    return [shaping.squeeze(ctx, row, (axis,)) for row in rows]


@RULES.register(constant.Constant)
def _constant(
    primitive: constant.Constant, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    return (ctx.constant(primitive.value),)


for _cls in (slicing.Concatenate, slicing.Split, slicing.Pad):
    CPU_RULES[_cls] = of_wider(RULES[_cls], 7)
