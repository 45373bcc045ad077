"""Lowering rules of sums, and what the rules of all reductions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tinyjax.hlo.context import SSA, Body, LoweringContext
from tinyjax.hlo.rules.elementwise import convert
from tinyjax.hlo.rules.shapes import numbers
from tinyjax.hlo.rules.undivided import whole_along
from tinyjax.hlo.tables import RULES
from tinyjax.hlo.text import type_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BOOL,
    COMPLEXES,
    FLOATS,
    SIGNED,
    DType,
    Scalar,
    integer_limits,
)
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives import structure
from tinyjax.primitives.arithmetic import Max, Min
from tinyjax.primitives.elementwise import Elementwise, add
from tinyjax.primitives.structure import Reduction

Identity: TypeAlias = Callable[[DType], Scalar]
ReductionRule: TypeAlias = Callable[
    [Reduction, LoweringContext, Sequence[SSA], Sequence[ShapedArray]], Sequence[SSA]
]  # fmt: skip


def zero_of(_: DType) -> Scalar:
    return 0


def negative_zero_of(dtype: DType) -> Scalar:
    """What can be added to every float, -0.0 included."""
    return complex(-0.0, -0.0) if dtype in COMPLEXES else -0.0 if dtype in FLOATS else 0


def one_of(_: DType) -> Scalar:
    return 1


def all_bits_of(dtype: DType) -> Scalar:
    return True if dtype == BOOL else -1 if dtype in SIGNED else integer_limits(dtype)[1]


def array_text(values: Sequence[int]) -> str:
    """Integers as an attribute of an operation in its generic form."""
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def beyond(value: Scalar, x: ShapedArray) -> Scalar:
    """What is chosen of no elements; before some a complex number that none is beyond, in any of its parts."""
    return complex(value.real, value.real) if x.dtype in COMPLEXES and x.size else value


def combining(primitive: Elementwise) -> Body:
    """The inside of a reducer that is one primitive."""

    def body(ctx: LoweringContext, args: Sequence[SSA]) -> Sequence[SSA]:
        return ctx.bind(primitive, *args)

    return body


def widened(ctx: LoweringContext, x: SSA) -> SSA:
    """x in a dtype that is exact enough to add up or multiply many numbers in."""
    return convert(ctx, x, array_type(x.aval.shape, structure.accumulator(x.aval.dtype)))


def is_sent(op: str, dtype: DType) -> bool:
    """Whether XLA's devices can tell each other what each has of a reduction: others don't compile."""
    if op in ("and", "or", "xor"):
        return dtype == BOOL and op != "xor"
    return dtype not in COMPLEXES or op == "add"


def reduce(ctx: LoweringContext, x: SSA, axes: Sequence[int], op: str, combine: Elementwise, identity: Identity) -> SSA:
    """x reduced over axes: by `op` of StableHLO where that is what the primitive `combine` means, else by a region."""
    dtype = x.aval.dtype
    scalar = array_type((), dtype)
    out = array_type(tuple(size for i, size in enumerate(x.aval.shape) if i not in axes), dtype)
    chosen = isinstance(combine, Max | Min)
    if not is_sent(op, dtype):
        x = whole_along(ctx, x, axes)
    initial = ctx.scalar(beyond(identity(dtype), x.aval) if chosen else identity(dtype), dtype).name
    signature = f"({type_text(x.aval)}, {type_text(scalar)}) -> {type_text(out)}"
    if dtype in COMPLEXES and chosen:
        region = ctx.region((scalar, scalar), combining(combine))
        attributes = f"<{{dimensions = {array_text(axes)}}}>"
        return ctx.emit(f'"stablehlo.reduce"({x.name}, {initial}) {attributes} {region} : {signature}', out)
    how = f"applies stablehlo.{op} across dimensions = {numbers(axes)}"
    return ctx.emit(f"stablehlo.reduce({x.name} init: {initial}) {how} : {signature}", out)


def reducing(op: str, combine: Elementwise, identity: Identity, wide: bool = False) -> ReductionRule:
    """The rule of a reduction by one primitive. `wide`: in the accumulator's dtype."""

    def rule(
        primitive: Reduction, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        (x,), (out,) = args, types
        return (convert(ctx, reduce(ctx, widened(ctx, x) if wide else x, primitive.axes, op, combine, identity), out),)

    return rule


RULES[structure.ReduceSum] = reducing("add", add, zero_of, wide=True)
