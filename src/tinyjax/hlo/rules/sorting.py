"""The lowering rules of sorting and choosing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinyjax.hlo.context import SSA, Body, LoweringContext
from tinyjax.hlo.rules.elementwise import choose, compare, comparison_kind, part, same_type
from tinyjax.hlo.rules.narrow import of_wider
from tinyjax.hlo.tables import CPU_RULES, RULES
from tinyjax.hlo.text import results_text, type_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL, COMPLEXES, FLOATS
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.sorting import Sort, TopK
from tinyjax.primitives.structure import Transpose


@RULES.register(Sort)
def _sort(primitive: Sort, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    scalars = [array_type((), aval.dtype) for aval in types for _ in range(2)]
    region = ctx.region(scalars, _comparator(primitive.num_keys))
    stable = "true" if primitive.is_stable else "false"
    attributes = f"<{{dimension = {primitive.dimension} : i64, is_stable = {stable}}}>"
    names = ", ".join([arg.name for arg in args])
    signature = f"{types_text(types)} -> {results_text(types)}"
    return ctx.emit_many(f'"stablehlo.sort"({names}) {attributes} {region} : {signature}', types)


def _comparator(num_keys: int) -> Body:
    """Whether one row comes before the other: decided by the first key in which they differ."""

    def body(ctx: LoweringContext, args: Sequence[SSA]) -> Sequence[SSA]:
        pairs: list[tuple[SSA, SSA]] = []
        for x, y in zip(args[: 2 * num_keys : 2], args[1 : 2 * num_keys : 2], strict=True):
            if x.aval.dtype in COMPLEXES:
                pairs += [(part(ctx, op, x), part(ctx, op, y)) for op in ("real", "imag")]
            else:
                pairs.append((x, y))
        keys = [(_key(ctx, x), _key(ctx, y)) for x, y in pairs]
        before: SSA | None = None
        for x, y in reversed(keys):
            less = _ordered(ctx, "LT", x, y)
            if before is not None:
                rest = same_type(ctx, "stablehlo.and", (_ordered(ctx, "EQ", x, y), before), less.aval)
                less = same_type(ctx, "stablehlo.or", (less, rest), less.aval)
            before = less
        return () if before is None else (before,)

    return body


def _key(ctx: LoweringContext, x: SSA) -> SSA:
    """x with one zero and one nan, so that the total order of floats puts equal elements together, and nan last."""
    if x.aval.dtype not in FLOATS:
        return x
    zero, nan = (ctx.scalar(value, x.aval.dtype) for value in (0.0, math.nan))
    number = choose(ctx, compare(ctx, "EQ", x, zero), zero, x, x.aval)
    return choose(ctx, compare(ctx, "NE", x, x), nan, number, x.aval)


def _ordered(ctx: LoweringContext, direction: str, x: SSA, y: SSA) -> SSA:
    kind = "TOTALORDER" if x.aval.dtype in FLOATS else comparison_kind(x.aval.dtype)
    types = f"{types_text((x.aval, y.aval))} -> tensor<i1>"
    return ctx.emit(f"stablehlo.compare {direction}, {x.name}, {y.name}, {kind} : {types}", array_type((), BOOL))


@RULES.register(TopK)
def _top_k(primitive: TopK, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    """Along the last axis, which is where CHLO's goes."""
    (x,), axis = args, primitive.axis
    last = x.aval.ndim - 1
    there = (*[i for i in range(last + 1) if i != axis], axis)
    back = (*range(axis), last, *range(axis, last))
    if axis != last:
        (x,) = RULES[Transpose](Transpose(there), ctx, (x,), [_transposed(x.aval, there)])
    outs = [aval if axis == last else _transposed(aval, there) for aval in types]
    signature = f"{type_text(x.aval)} -> {results_text(outs)}"
    found = ctx.emit_many(f"chlo.top_k({x.name}, k = {primitive.k}) : {signature}", outs)
    if axis == last:
        return found
    return [RULES[Transpose](Transpose(back), ctx, (out,), (aval,))[0] for out, aval in zip(found, types, strict=True)]


def _transposed(aval: ShapedArray, permutation: Sequence[int]) -> ShapedArray:
    return array_type(tuple([aval.shape[i] for i in permutation]), aval.dtype)


CPU_RULES[TopK] = of_wider(RULES[TopK], 7)
