"""The lowering rule of the general product."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.hlo.context import SSA, LoweringContext, types_text
from tinyjax.hlo.rules.elementwise import convert
from tinyjax.hlo.rules.shapes import numbers
from tinyjax.hlo.tables import RULES
from tinyjax.hlo.text import type_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES, FLOATS, INTEGERS
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.contractions import Bilinear, DotGeneral, Precision


@RULES.register(DotGeneral)
def _dot_general(
    primitive: DotGeneral, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (out,) = types
    x, y = common_operands(primitive, ctx, args, out)
    (x_sum, y_sum), (x_batch, y_batch) = primitive.dimension_numbers
    clauses = [f"stablehlo.dot_general {x.name}, {y.name}"]
    if x_batch:
        clauses.append(f"batching_dims = {numbers(x_batch)} x {numbers(y_batch)}")
    clauses.append(f"contracting_dims = {numbers(x_sum)} x {numbers(y_sum)}")
    if primitive.precision is not None:
        clauses.append(f"precision = [{', '.join(precision_names(primitive.precision))}]")
    return (ctx.emit(f"{', '.join(clauses)} : {types_text([x.aval, y.aval])} -> {type_text(out)}", out),)


def common_operands(
    primitive: Bilinear, ctx: LoweringContext, args: Sequence[SSA], out: ShapedArray
) -> tuple[SSA, SSA]:
    """The operands in one dtype: their common one, if the result is of the same kind, else the result's."""
    (product,) = primitive.unconverted().type_of(*[arg.aval for arg in args])
    common = product.dtype
    same_kind = any(common in kind and out.dtype in kind for kind in (INTEGERS, FLOATS, COMPLEXES))
    dtype = common if same_kind else out.dtype
    x, y = (convert(ctx, arg, array_type(arg.aval.shape, dtype)) for arg in args)
    return x, y


def precision_names(precision: Precision | tuple[Precision, Precision] | None) -> tuple[str, str]:
    """What StableHLO calls the precisions of both operands."""
    left, right = precision if isinstance(precision, tuple) else (precision, precision)
    return (left or Precision.DEFAULT).name, (right or Precision.DEFAULT).name
