"""Calls of the host from compiled programs.

Effects keep their order, because each takes what the one before it returned: a scalar that holds nothing else. It runs
through calls like any other value.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.callbacks import Callback, DebugCallback
from tinyjax.control.cond import Cond
from tinyjax.control.shard_map import ShardMap
from tinyjax.errors import LoweringError, UnsupportedError
from tinyjax.hlo.called import ORDER, HostCall
from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.manual import FIRST, ManualMesh
from tinyjax.hlo.rules.library_calls import layouts_text
from tinyjax.hlo.tables import CPU_RULES, GPU_RULES, RULES
from tinyjax.hlo.text import results_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import must_stay
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom
from tinyjax.meshes import PartitionSpec
from tinyjax.primitives.collectives import AxisIndex


def on_host(
    primitive: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """A lowering rule for any primitive that can be evaluated: the compiled program calls its `evaluate`, with NumPy.

    For `CPU_RULES`; `on_host_of_gpu` is for `GPU_RULES`.
    """
    return _host_call("xla_ffi_python_cpu_callback", primitive, ctx, args, types)


def on_host_of_gpu(
    primitive: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """The same rule for programs that run on a GPU."""
    return _host_call("xla_ffi_python_gpu_callback", primitive, ctx, args, types)


def _host_call(
    target: str, primitive: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    ordered = must_stay(primitive.effects)
    index = ctx.module.host_call(HostCall(primitive, tuple([arg.aval for arg in args]), tuple(types), ordered))
    if ordered:
        if ctx.is_divided and ctx.manual is not None:
            if isinstance(primitive, DebugCallback):
                return _by_the_first_of_the_rest(primitive, ctx, ctx.manual, args)
            raise UnsupportedError(
                f"{primitive.name} calls the host within a shard_map over some axes of {ctx.manual.mesh} only: it "
                "isn't said which of the devices along the others would call. Name all axes in axis_names."
            )
        args, types = [ctx.order(), *args], [ORDER, *types]
    operands, avals = ", ".join([arg.name for arg in args]), [arg.aval for arg in args]
    attributes = [
        "api_version = 4 : i32",
        f"backend_config = {{index = {index} : ui64}}",
        *(["has_side_effect = true"] if ordered else []),
        *(_by_the_first(ctx, len(types)) if ordered and ctx.is_divided else []),
        f"operand_layouts = {_layouts(avals)}",
        f"result_layouts = {_layouts(types)}",
    ]
    signature = f"{types_text(avals)} -> {results_text(types)}"
    text = f"stablehlo.custom_call @{target}({operands}) {{{', '.join(attributes)}}} : {signature}"
    outs = ctx.emit_many(text, types)
    return ctx.after_effects(outs) if ordered else outs


def _by_the_first(ctx: LoweringContext, count: int) -> Sequence[str]:
    """Of devices among which XLA divides a program, the first one calls, with all elements."""
    each = ", ".join([f"<@{ctx.module.mesh(FIRST)}, []>"] * count)
    return [f"sdy.sharding = #sdy.sharding_per_value<[{each}]>"]


def _by_the_first_of_the_rest(
    primitive: DebugCallback, ctx: LoweringContext, manual: ManualMesh, args: Sequence[SSA]
) -> Sequence[SSA]:
    """Within a `shard_map` over some axes of a mesh: of the devices along the others the first one calls, with all
    elements. It is as if a `shard_map` over these were around it."""
    mesh, avals = manual.mesh, [arg.aval for arg in args]
    rest = tuple([name for name in mesh.axis_names if name not in manual.axes])

    def call(inner: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        return inner.bind(primitive, *ins)

    def each(inner: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        branches = stage(avals, call), stage(avals, lambda *_: ())  # the last one for all numbers but 0
        return inner.bind(Cond(branches), *inner.bind(AxisIndex(rest)), *ins)

    ctx.bind(ShardMap(stage(avals, each), mesh, (PartitionSpec(),) * len(args), (), rest, False), *args)
    return ()


def _layouts(avals: Sequence[ShapedArray]) -> str:
    """Row by row, as NumPy has it."""
    return layouts_text(range(aval.ndim)[::-1] for aval in avals)


CPU_RULES[Callback] = on_host
GPU_RULES[Callback] = on_host_of_gpu


@RULES.register(Callback)
def _elsewhere(
    primitive: Callback, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    raise LoweringError(f"compiled programs can call the host on CPUs and GPUs only; this one has a {primitive.name}")
