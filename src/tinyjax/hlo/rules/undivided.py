"""What XLA mustn't divide among devices, because its partitioner fails there."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.manual import spec_text
from tinyjax.hlo.text import type_text
from tinyjax.meshes.spec import UNCONSTRAINED, PartitionSpec


def whole_along(ctx: LoweringContext, x: SSA, axes: Sequence[int]) -> SSA:
    """The value, of which each device has all along these axes. Itself where XLA divides nothing: in a program for one
    device, and within a `shard_map` over all axes of its mesh."""
    if not axes or not ctx.is_divided:
        return x
    symbol = next(iter(ctx.module.meshes.values())) if ctx.manual is None else ctx.module.mesh(ctx.manual.mesh)
    spec = PartitionSpec(*[None if axis in axes else UNCONSTRAINED for axis in range(x.aval.ndim)])
    text = f"sdy.sharding_constraint {x.name} {spec_text(symbol, spec, x.aval.ndim)} : {type_text(x.aval)}"
    return ctx.emit(text, x.aval)
