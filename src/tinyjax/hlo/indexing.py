"""Lowering rules of taking and adding elements at computed positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyjax.hlo.arrays import numbers
from tinyjax.hlo.context import SSA, LoweringContext, types_text
from tinyjax.hlo.elementwise import convert, same_type
from tinyjax.hlo.reductions import array_text, combining, widened
from tinyjax.hlo.tables import RULES
from tinyjax.hlo.text import type_text
from tinyjax.ir.aval import ShapedArray, array_type
from tinyjax.ir.dtypes import INT32, INT64
from tinyjax.primitives.elementwise import ADD
from tinyjax.primitives.indexing import ScatterAddAlongAxis, TakeAlongAxis


def _clamped(ctx: LoweringContext, positions: SSA, size: int) -> SSA:
    """Positions as signed integers, those out of range moved to the nearest one in range."""
    shape, dtype = positions.aval.shape, positions.aval.dtype
    # Before the conversion, in which large positions would wrap around.
    first, last = ctx.scalar(0, dtype), ctx.scalar(min(size - 1, int(np.iinfo(dtype.name).max)), dtype)
    inside = same_type(ctx, "stablehlo.clamp", (first, positions, last), positions.aval)
    return convert(ctx, inside, array_type(shape, INT32 if size <= 2**31 else INT64))


@RULES.register(TakeAlongAxis)
def _take_along_axis(
    primitive: TakeAlongAxis, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x, positions), (out,), axis = args, types, primitive.axis
    if out.size == 0:
        return (ctx.full(0, out),)
    positions = _clamped(ctx, positions, x.aval.shape[axis])
    others = numbers(i for i in range(out.ndim) if i != axis)
    config = (
        f"collapsed_slice_dims = [{axis}], operand_batching_dims = {others}, start_indices_batching_dims = {others}, "
        f"start_index_map = [{axis}], index_vector_dim = {out.ndim}"
    )
    sizes = array_text([1] * out.ndim)
    attributes = f"<{{dimension_numbers = #stablehlo.gather<{config}>, slice_sizes = {sizes}}}>"
    signature = f"{types_text([x.aval, positions.aval])} -> {type_text(out)}"
    return (ctx.emit(f'"stablehlo.gather"({x.name}, {positions.name}) {attributes} : {signature}', out),)


@RULES.register(ScatterAddAlongAxis)
def _scatter_add_along_axis(
    primitive: ScatterAddAlongAxis, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x, positions), (out,), axis = args, types, primitive.axis
    if x.aval.size == 0:
        return (ctx.full(0, out),)
    positions = _clamped(ctx, positions, primitive.size)
    x = widened(ctx, x)
    scalar = array_type((), x.aval.dtype)
    total = array_type(out.shape, scalar.dtype)
    others = numbers(i for i in range(out.ndim) if i != axis)
    config = (
        f"inserted_window_dims = [{axis}], input_batching_dims = {others}, scatter_indices_batching_dims = {others}, "
        f"scatter_dims_to_operand_dims = [{axis}], index_vector_dim = {out.ndim}"
    )
    attributes = f"<{{scatter_dimension_numbers = #stablehlo.scatter<{config}>}}>"
    names = f"{ctx.full(0, total).name}, {positions.name}, {x.name}"
    region = ctx.region((scalar, scalar), combining(ADD))
    signature = f"{types_text([total, positions.aval, x.aval])} -> {type_text(total)}"
    summed = ctx.emit(f'"stablehlo.scatter"({names}) {attributes} {region} : {signature}', total)
    return (convert(ctx, summed, out),)
