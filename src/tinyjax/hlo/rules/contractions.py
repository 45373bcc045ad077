"""The lowering rule of the general product."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.hlo.context import SSA, LoweringContext, types_text
from tinyjax.hlo.rules.elementwise import convert
from tinyjax.hlo.rules.shapes import numbers
from tinyjax.hlo.tables import RULES
from tinyjax.hlo.text import type_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES, FLOATS, INTEGERS, DType
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.contractions import DotGeneral


@RULES.register(DotGeneral)
def _dot_general(
    primitive: DotGeneral, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (out,) = types
    x, y = (convert(ctx, arg, array_type(arg.aval.shape, _operand_dtype(primitive, args, out))) for arg in args)
    (x_sum, y_sum), (x_batch, y_batch) = primitive.dimension_numbers
    clauses = [f"stablehlo.dot_general {x.name}, {y.name}"]
    if x_batch:
        clauses.append(f"batching_dims = {numbers(x_batch)} x {numbers(y_batch)}")
    clauses.append(f"contracting_dims = {numbers(x_sum)} x {numbers(y_sum)}")
    if primitive.precision is not None:
        given = primitive.precision
        left, right = given if isinstance(given, tuple) else (given, given)
        clauses.append(f"precision = [{left.name}, {right.name}]")
    return (ctx.emit(f"{', '.join(clauses)} : {types_text([x.aval, y.aval])} -> {type_text(out)}", out),)


def _operand_dtype(primitive: DotGeneral, args: Sequence[SSA], out: ShapedArray) -> DType:
    """The dtype that both operands get: their common one, if the result is of the same kind, else the result's."""
    (product,) = DotGeneral(primitive.dimension_numbers).type_of(*[arg.aval for arg in args])
    common = product.dtype
    same_kind = any(common in kind and out.dtype in kind for kind in (INTEGERS, FLOATS, COMPLEXES))
    return common if same_kind else out.dtype
