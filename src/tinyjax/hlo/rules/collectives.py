"""Lowering rules of `shard_map`, of what devices of a mesh give each other within it, and of how values lie on one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tinyjax.control.shard_map import ShardMap
from tinyjax.errors import LoweringError
from tinyjax.hlo.called import ORDER
from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.manual import ManualMesh, sharding_text, spec_text
from tinyjax.hlo.rules.reducing import combining
from tinyjax.hlo.tables import RULES
from tinyjax.hlo.text import dense_text, results_text, type_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES, INT64, HostArray
from tinyjax.ir.effects import must_stay
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shared_types import array_type
from tinyjax.meshes import PartitionSpec
from tinyjax.primitives.arithmetic import max_, min_
from tinyjax.primitives.casts import Cast, PReduced, PVary, ReducedVaryCast, VaryUnreducedCast
from tinyjax.primitives.collectives import (
    AxisIndex,
    Collective,
    PMax,
    PMin,
    PSum,
    ReducingCollective,
)
from tinyjax.primitives.elementwise import Elementwise, add
from tinyjax.primitives.exchanges import AllGather, AllToAll, PPermute, ReduceScatter
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.primitives.shaping import expand_dims
from tinyjax.primitives.unreduced import AllGatherReduced, UnreducedPSum, UnreducedReduceScatter
from tinyjax.transforms.unvarying import unvarying

#: What XLA numbers itself; without it, some operations end the process.
_CHANNEL: Final = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
_UINT32: Final = "tensor<ui32>"


@RULES.register(ShardMap)
def _shard_map(
    primitive: ShardMap, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    outer, program = ctx.manual, unvarying(primitive.jaxpr)
    symbol = ctx.module.mesh(primitive.mesh)
    around = () if outer is None else outer.axes
    manual = ManualMesh(primitive.mesh, (*around, *primitive.manual_axes))
    partly = primitive.manual_axes if len(manual.axes) < primitive.mesh.ndim or around else None
    before, after = (
        ", ".join([spec_text(symbol, spec, aval.ndim, partly) for spec, aval in zip(specs, avals, strict=True)])
        for specs, avals in (
            (primitive.in_specs, [arg.aval for arg in args]),
            (primitive.out_specs, types),
        )
    )
    if primitive.mesh.size == 1:  # XLA doesn't take apart what isn't divided, and stops at calls of the host in it
        ctx.manual = manual
        try:
            return ctx.run(program, args, "shard_map")
        finally:
            ctx.manual = outer
    names = ", ".join([f'"{name}"' for name in primitive.manual_axes])
    args = [_no_terms(ctx, arg, primitive, spec) for arg, spec in zip(args, primitive.in_specs, strict=True)]
    takes, ordered = program.in_avals, must_stay(program.effects)
    if ordered:  # each device keeps its own effects in order
        args, types, takes = [ctx.order(), *args], [ORDER, *types], (ORDER, *takes)
        anywhere = spec_text(symbol, PartitionSpec(), 0, partly)
        before, after = (", ".join([anywhere, *[specs] * bool(specs)]) for specs in (before, after))

    def run(inner: LoweringContext, ins: Sequence[SSA]) -> Sequence[SSA]:
        if not ordered:
            return inner.run(program, ins, "shard_map")
        outs = inner.run(program, inner.after_effects(ins), "shard_map")
        return [inner.order(), *outs]

    ctx.manual = manual
    try:
        region = ctx.region(takes, run, "sdy.return")
    finally:
        ctx.manual = outer
    operands = ", ".join([arg.name for arg in args])
    attributes = (
        f"<{{in_shardings = #sdy.sharding_per_value<[{before}]>, manual_axes = #sdy<manual_axes{{{names}}}>, "
        f"out_shardings = #sdy.sharding_per_value<[{after}]>}}>"
    )
    signature = f"{types_text([arg.aval for arg in args])} -> {results_text(types)}"
    outs = ctx.emit_many(f'"sdy.manual_computation"({operands}) {attributes} {region} : {signature}', types)
    return ctx.after_effects(outs) if ordered else outs


def _no_terms(ctx: LoweringContext, x: SSA, primitive: ShardMap, spec: PartitionSpec) -> SSA:
    """An operand that is taken as a sum yet to be made: all of it, of which XLA then gives each device a term.

    Unless it is told so, XLA takes devices to have terms of a constant, each of which is all of it. What `propagation`
    has made says that itself, on meshes without Explicit axes.
    """
    if not spec.unreduced.intersection(primitive.mesh.explicit_axes):
        return x
    where = spec_text(ctx.module.mesh(primitive.mesh), spec.made, x.aval.ndim)
    return ctx.emit(f"sdy.sharding_constraint {x.name} {where} : {type_text(x.aval)}", x.aval)


def _manual(primitive: Collective, ctx: LoweringContext) -> ManualMesh:
    """The mesh that a collective is on."""
    manual = ctx.manual
    if manual is None or not {*primitive.names} <= {*manual.axes}:
        raise LoweringError(
            f"the program uses the named axis {', '.join(map(repr, primitive.names))}, which exists only inside "
            "`vmap(..., axis_name=...)` or `shard_map`. Apply that before compiling."
        )
    return manual


def _numbers(array: HostArray) -> str:
    """Integers as a typed attribute."""
    array = np.asarray(array, np.int64)
    return f"dense<{dense_text(array)}> : {type_text(array_type(array.shape, INT64))}"


def _alone(primitive: Collective, ctx: LoweringContext) -> bool:
    """Whether no device has another along the axes: XLA stops at such a collective where axes are left to it."""
    size: int = _partitions(primitive, ctx).shape[1]
    return size == 1


def _partitions(primitive: Collective, ctx: LoweringContext) -> HostArray:
    """The partitions that communicate with each other, a row for each group."""
    return _manual(primitive, ctx).groups(primitive.names, primitive.index_groups)


def _groups(primitive: Collective, ctx: LoweringContext) -> str:
    return f"replica_groups = {_numbers(_partitions(primitive, ctx))}"


def _gathering(primitive: ReducingCollective, ctx: LoweringContext) -> AllGather:
    groups = _partitions(primitive, ctx)
    if (groups < 0).any():
        raise LoweringError(
            f"{primitive.name} of complex numbers, which XLA can't compare between devices, needs groups of one size"
        )
    return AllGather(primitive.axis_name, groups.shape[1], 0, primitive.index_groups)


def _reduced(ctx: LoweringContext, x: SSA, out: ShapedArray, operation: str, combine: Elementwise) -> SSA:
    """An operation that combines the elements of several devices."""
    scalar = array_type((), x.aval.dtype)
    region = ctx.region((scalar, scalar), combining(combine))
    return ctx.emit(f"{operation} {region} : ({type_text(x.aval)}) -> {type_text(out)}", out)


def _all_reduce(primitive: Primitive, ctx: LoweringContext, x: SSA, out: ShapedArray, combine: Elementwise) -> SSA:
    if not isinstance(primitive, ReducingCollective):
        raise LoweringError(f"{primitive.name} reduces nothing")
    if _alone(primitive, ctx):
        return x
    if x.aval.dtype in COMPLEXES and combine is not add:  # for which XLA has no such operation between devices
        gathered = ctx.bind(_gathering(primitive, ctx), expand_dims(ctx, x, (0,)))[0]
        return primitive.reduce(ctx, gathered, 0)
    attributes = f"<{{{_CHANNEL}, {_groups(primitive, ctx)}, use_global_device_ids}}>"
    return _reduced(ctx, x, out, f'"stablehlo.all_reduce"({x.name}) {attributes}', combine)


@RULES.register(PSum)
def _psum(primitive: PSum, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    return [_all_reduce(primitive, ctx, args[0], types[0], add)]


@RULES.register(PMax)
def _pmax(primitive: PMax, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    return [_all_reduce(primitive, ctx, args[0], types[0], max_)]


@RULES.register(PMin)
def _pmin(primitive: PMin, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    return [_all_reduce(primitive, ctx, args[0], types[0], min_)]


def _cast(primitive: Cast, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    return args


for _kind in (PVary, PReduced, ReducedVaryCast, VaryUnreducedCast):
    RULES[_kind] = _cast


def _made(
    primitive: UnreducedPSum | UnreducedReduceScatter | AllGatherReduced,
    ctx: LoweringContext,
    args: Sequence[SSA],
    types: Sequence[ShapedArray],
) -> Sequence[SSA]:
    return ctx.bind(primitive.untracked(), *args)


RULES[UnreducedPSum] = RULES[UnreducedReduceScatter] = RULES[AllGatherReduced] = _made


@RULES.register(AxisIndex)
def _axis_index(
    primitive: AxisIndex, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    manual = _manual(primitive, ctx)
    others = [name for name in manual.mesh.axis_names if name not in manual.axes]
    if not others:
        return [_position(primitive, ctx, manual)]
    # Which partition this is only has a meaning where no axis is left to XLA.
    symbol, names = ctx.module.mesh(manual.mesh), ", ".join([f'"{name}"' for name in others])
    region = ctx.region((), lambda inner, _: [_position(primitive, inner, manual)], "sdy.return")
    attributes = (
        f"<{{in_shardings = #sdy.sharding_per_value<[]>, manual_axes = #sdy<manual_axes{{{names}}}>, "
        f"out_shardings = #sdy.sharding_per_value<[<@{symbol}, []>]>}}>"
    )
    return [ctx.emit(f'"sdy.manual_computation"() {attributes} {region} : () -> {type_text(types[0])}', types[0])]


def _position(primitive: AxisIndex, ctx: LoweringContext, manual: ManualMesh) -> SSA:
    """Where a partition is along the axes, of which the last counts fastest."""
    mesh, unsigned = manual.mesh, array_type((), np.dtype(np.uint32))
    number = ctx.emit(f"stablehlo.partition_id : {_UINT32}", unsigned)

    def with_number(operation: str, x: SSA, other: SSA) -> SSA:
        return ctx.emit(f"stablehlo.{operation} {x.name}, {other.name} : {_UINT32}", unsigned)

    found: SSA | None = None
    for name in primitive.names:
        at = mesh.axis_names.index(name)
        after, size = (
            int(np.prod(mesh.axis_sizes[at + 1 :], dtype=np.int64)),
            ctx.scalar(mesh.axis_sizes[at], unsigned.dtype),
        )
        own = with_number("remainder", with_number("divide", number, ctx.scalar(after, unsigned.dtype)), size)
        found = own if found is None else with_number("add", with_number("multiply", found, size), own)
    index = array_type((), np.dtype(np.int32))
    whole = number if found is None else found
    return ctx.emit(f"stablehlo.convert {whole.name} : ({_UINT32}) -> {type_text(index)}", index)


@RULES.register(AllGather)
def _all_gather(
    primitive: AllGather, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x,), (out,) = args, types
    if _alone(primitive, ctx):
        return [x]
    if 0 in out.shape:  # nothing to gather, which XLA refuses
        return [ctx.full(False, out)]
    attributes = (
        f"<{{all_gather_dim = {primitive.all_gather_dimension} : i64, {_CHANNEL}, {_groups(primitive, ctx)}, "
        "use_global_device_ids}>"
    )
    signature = f"({type_text(x.aval)}) -> {type_text(out)}"
    return [ctx.emit(f'"stablehlo.all_gather"({x.name}) {attributes} : {signature}', out)]


@RULES.register(ReduceScatter)
def _reduce_scatter(
    primitive: ReduceScatter, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x,), (out,) = args, types
    if _alone(primitive, ctx):
        return [x]
    if 0 in out.shape:
        return [ctx.full(False, out)]
    attributes = (
        f"<{{{_CHANNEL}, {_groups(primitive, ctx)}, scatter_dimension = {primitive.scatter_dimension} : i64, "
        "use_global_device_ids}>"
    )
    return [_reduced(ctx, x, out, f'"stablehlo.reduce_scatter"({x.name}) {attributes}', add)]


@RULES.register(AllToAll)
def _all_to_all(
    primitive: AllToAll, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x,), (out,) = args, types
    if _alone(primitive, ctx):
        return [x]
    count = _partitions(primitive, ctx).shape[1]
    attributes = (
        f"<{{{_CHANNEL}, concat_dimension = {primitive.concat_axis} : i64, {_groups(primitive, ctx)}, "
        f"split_count = {count} : i64, split_dimension = {primitive.split_axis} : i64}}>"
    )
    signature = f"({type_text(x.aval)}) -> {type_text(out)}"
    return [ctx.emit(f'"stablehlo.all_to_all"({x.name}) {attributes} : {signature}', out)]


@RULES.register(PPermute)
def _ppermute(
    primitive: PPermute, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x,), (out,) = args, types
    groups = _manual(primitive, ctx).groups(primitive.names)
    if groups.shape[1] == 1 and primitive.perm:
        return [x]
    pairs = groups[:, np.array(primitive.perm, np.int64).reshape(-1, 2)].reshape(-1, 2)
    attributes = f"<{{{_CHANNEL}, source_target_pairs = {_numbers(pairs)}}}>"
    signature = f"({type_text(x.aval)}) -> {type_text(out)}"
    return [ctx.emit(f'"stablehlo.collective_permute"({x.name}) {attributes} : {signature}', out)]


@RULES.register(ShardingConstraint)
def _sharding_constraint(
    primitive: ShardingConstraint, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x,), sharding = args, primitive.sharding
    manual = () if ctx.manual is None else ctx.manual.axes
    if taken := [name for name in sharding.spec.names if name in manual]:
        raise LoweringError(
            f"sharding_constraint: {sharding.spec} names the axis {taken[0]!r}, along which each device of the "
            "enclosing shard_map has its own part already"
        )
    where = sharding_text(ctx.module.mesh(sharding.mesh), sharding, x.aval.ndim)
    return [ctx.emit(f"sdy.sharding_constraint {x.name} {where} : {type_text(x.aval)}", types[0])]
