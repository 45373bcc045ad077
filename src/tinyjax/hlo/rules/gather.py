"""Lowering rules of taking and writing windows at computed positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tinyjax.hlo.context import SSA, Body, LoweringContext
from tinyjax.hlo.keys import PAIRS
from tinyjax.hlo.rules.elementwise import convert, join_parts, part
from tinyjax.hlo.rules.reducing import array_text, combining
from tinyjax.hlo.rules.shapes import numbers
from tinyjax.hlo.tables import GPU_RULES, RULES
from tinyjax.hlo.text import type_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    COMPLEX128,
    INT32,
    INT64,
    UINT32,
    UINT64,
    integer_limits,
)
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.arithmetic import Max, Min, min_
from tinyjax.primitives.bitwise import logical_and
from tinyjax.primitives.comparison import ge, le
from tinyjax.primitives.dynamic import DynamicSlice, DynamicUpdateSlice
from tinyjax.primitives.elementwise import add, mul
from tinyjax.primitives.gather import Gather, ScatterAdd, Scattering
from tinyjax.primitives.reductions import ReduceAnd
from tinyjax.primitives.scatter import Scatter, ScatterMax, ScatterMin, ScatterMul
from tinyjax.primitives.selection import clamp, select
from tinyjax.primitives.structure import broadcast_in_dim, constant_like
from tinyjax.primitives.windows import GatherDimensionNumbers, GatherScatterMode


def _signed(ctx: LoweringContext, indices: SSA) -> SSA:
    """Indices as int32 or int64: XLA compares them with sizes in their own dtype, which these must fit."""
    dtype, shape = indices.aval.dtype, indices.aval.shape
    if dtype in (INT32, INT64):
        return indices
    if dtype == UINT64:
        indices = min_(ctx, indices, constant_like(ctx, indices, int(np.iinfo(np.int64).max)))
    return convert(ctx, indices, array_type(shape, INT64 if dtype in (UINT32, UINT64) else INT32))


def _flag(value: bool) -> str:
    return "true" if value else "false"


# Dynamic slices.


@RULES.register(DynamicSlice)
def _dynamic_slice(
    primitive: DynamicSlice, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x, *starts), (out,) = args, types
    if out.ndim == 0:
        return (SSA(x.name, out),)
    if x.aval.dtype in PAIRS:
        along = ctx.scalar(0, starts[0].aval.dtype)
        words = ctx.bind(DynamicSlice((*out.shape, 2)), ctx.words_of(x), *starts, along)
        return ctx.together(words, types)
    operands = [x, *(_signed(ctx, start) for start in starts)]
    names = ", ".join([operand.name for operand in operands])
    signature = f"{types_text([operand.aval for operand in operands])} -> {type_text(out)}"
    return (ctx.emit(f"stablehlo.dynamic_slice {names}, sizes = {numbers(out.shape)} : {signature}", out),)


@RULES.register(DynamicUpdateSlice)
def _dynamic_update_slice(
    primitive: DynamicUpdateSlice, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x, update, *starts), (out,) = args, types
    if out.ndim == 0:
        return (SSA(update.name, out),)
    if x.aval.dtype in PAIRS:
        along = ctx.scalar(0, starts[0].aval.dtype)
        words = ctx.bind(primitive, *ctx.apart([x, update]), *starts, along)
        return ctx.together(words, types)
    operands = [x, update, *(_signed(ctx, start) for start in starts)]
    names = ", ".join([operand.name for operand in operands])
    signature = f"{types_text([operand.aval for operand in operands])} -> {type_text(out)}"
    return (ctx.emit(f"stablehlo.dynamic_update_slice {names} : {signature}", out),)


# Gather.


def _highest(ctx: LoweringContext, indices: SSA, dims: GatherDimensionNumbers, operand: Shape, sizes: Shape) -> SSA:
    """The last position at which a window is within the operand, for each index: an array like the indices."""
    ends = [operand[axis] - sizes[axis] for axis in dims.start_index_map]
    limit = integer_limits(indices.aval.dtype)[1]
    known = ConcreteValue.of(np.asarray([min(end, limit) for end in ends], indices.aval.dtype))
    return broadcast_in_dim(ctx, ctx.constant(known), indices.aval.shape, (indices.aval.ndim - 1,))


@RULES.register(Gather)
def _gather(
    primitive: Gather, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x, indices), (out,), dims = args, types, primitive.dimension_numbers
    if out.size == 0:
        return (ctx.full(0, out),)
    indices = _signed(ctx, indices)
    config = (
        f"offset_dims = {numbers(dims.offset_dims)}, collapsed_slice_dims = {numbers(dims.collapsed_slice_dims)}, "
        f"operand_batching_dims = {numbers(dims.operand_batching_dims)}, "
        f"start_indices_batching_dims = {numbers(dims.start_indices_batching_dims)}, "
        f"start_index_map = {numbers(dims.start_index_map)}, index_vector_dim = {indices.aval.ndim - 1}"
    )
    attributes = (
        f"<{{dimension_numbers = #stablehlo.gather<{config}>, slice_sizes = {array_text(primitive.slice_sizes)}, "
        f"indices_are_sorted = {_flag(primitive.indices_are_sorted)}}}>"
    )
    signature = f"{types_text([x.aval, indices.aval])} -> {type_text(out)}"
    taken = ctx.emit(f'"stablehlo.gather"({x.name}, {indices.name}) {attributes} : {signature}', out)
    if primitive.mode is not GatherScatterMode.FILL_OR_DROP or not dims.start_index_map:
        return (taken,)
    last = indices.aval.ndim - 1
    high = _highest(ctx, indices, dims, x.aval.shape, primitive.slice_sizes)
    inside = logical_and(ctx, ge(ctx, indices, constant_like(ctx, indices, 0)), le(ctx, indices, high))
    (each,) = ctx.bind(ReduceAnd((last,)), inside)
    where = broadcast_in_dim(ctx, each, out.shape, tuple(dims.batch_axes(out.ndim)))
    return (SSA(select(ctx, where, taken, ctx.full(primitive.fill(out.dtype), out)).name, out),)


# Scatter.


def _replace(ctx: LoweringContext, args: Sequence[SSA]) -> Sequence[SSA]:
    return args[1:]


def _scattered(primitive: Scattering, ctx: LoweringContext, x: SSA, indices: SSA, updates: SSA, body: Body) -> SSA:
    dims, out = primitive.dimension_numbers, x.aval
    config = (
        f"update_window_dims = {numbers(dims.update_window_dims)}, "
        f"inserted_window_dims = {numbers(dims.inserted_window_dims)}, "
        f"input_batching_dims = {numbers(dims.operand_batching_dims)}, "
        f"scatter_indices_batching_dims = {numbers(dims.scatter_indices_batching_dims)}, "
        f"scatter_dims_to_operand_dims = {numbers(dims.scatter_dims_to_operand_dims)}, "
        f"index_vector_dim = {indices.aval.ndim - 1}"
    )
    attributes = (
        f"<{{scatter_dimension_numbers = #stablehlo.scatter<{config}>, "
        f"indices_are_sorted = {_flag(primitive.indices_are_sorted)}, "
        f"unique_indices = {_flag(primitive.unique_indices)}}}>"
    )
    scalar = array_type((), out.dtype)
    region = ctx.region((scalar, scalar), body)
    signature = f"{types_text([x.aval, indices.aval, updates.aval])} -> {type_text(out)}"
    names = f"{x.name}, {indices.name}, {updates.name}"
    return ctx.emit(f'"stablehlo.scatter"({names}) {attributes} {region} : {signature}', out)


def _positions(primitive: Scattering, ctx: LoweringContext, args: Sequence[SSA]) -> SSA:
    """The indices, moved into the operand if the mode says so."""
    x, indices, updates = args
    indices, dims = _signed(ctx, indices), primitive.dimension_numbers
    if primitive.mode is not GatherScatterMode.CLIP or not dims.scatter_dims_to_operand_dims:
        return indices
    sizes = dims.window_sizes(x.aval.shape, updates.aval.shape)
    high = _highest(ctx, indices, dims.gather, x.aval.shape, sizes)
    return clamp(ctx, constant_like(ctx, indices, 0), indices, high)


def _scattering(
    body: Body,
) -> Callable[[Scattering, LoweringContext, Sequence[SSA], Sequence[ShapedArray]], Sequence[SSA]]:
    def rule(
        primitive: Scattering, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        x, _, updates = args
        if updates.aval.size == 0 or x.aval.size == 0:
            return (x,)
        return (_scattered(primitive, ctx, x, _positions(primitive, ctx, args), updates, body),)

    return rule


_ADDING = _scattering(combining(add))
RULES[Scatter] = _scattering(_replace)
RULES[ScatterAdd] = _ADDING
RULES[ScatterMul] = _scattering(combining(mul))
RULES[ScatterMin] = _scattering(combining(Min()))
RULES[ScatterMax] = _scattering(combining(Max()))


@GPU_RULES.register(ScatterAdd)
def _scatter_add_by_parts(
    primitive: ScatterAdd, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """GPUs add 128 bits at once only under a lock, so the parts of complex numbers are added one by one."""
    x, _, updates = args
    if x.aval.dtype != COMPLEX128 or updates.aval.size == 0 or x.aval.size == 0:
        return _ADDING(primitive, ctx, args, types)
    where = _positions(primitive, ctx, args)
    parts = [
        _scattered(primitive, ctx, part(ctx, op, x), where, part(ctx, op, updates), combining(add))
        for op in ("real", "imag")
    ]
    return (join_parts(ctx, parts[0], parts[1], types[0]),)
