"""How the partitioner divides values that nobody said it of, asked without compiling. Imports jax: to be imported at
first need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jax._src.interpreters import mlir
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import sdy

from tinyjax.backend.layouts import Division, Layout
from tinyjax.hlo.lowering import lower_module
from tinyjax.ir.program import Jaxpr

#: The passes by which Shardy decides how values lie.
_PASSES: Final = "builtin.module(sdy-propagation-pipeline)"


def propagated(program: Jaxpr, layout: Layout) -> tuple[Division, ...] | None:
    """How the results of a program would lie if nothing was said of them; None if the passes can't be run."""
    module = lower_module(program, platform=layout.platform, in_shardings=layout.ins)
    context = mlir.make_ir_context()
    with context, ir.Location.unknown(context):
        parsed = ir.Module.parse(module.text)
        try:
            passmanager.PassManager.parse(_PASSES).run(parsed.operation)
        except (ValueError, ir.MLIRError):
            return None
        main = next(op for op in parsed.body.operations if "main" in str(op.attributes.get("sym_name", "")))
        sizes = layout.mesh.shape
        results: Any = main.attributes.get("res_attrs", ())  # Any: an array of them, or none
        found = [_division(attributes, sizes) for attributes in results]
    none = Division((), ())
    return tuple(found) or (none,) * len(program.outvars)


def _division(attributes: ir.DictAttr, sizes: Mapping[str, int]) -> Division:
    if "sdy.sharding" not in attributes:
        return Division((), ())
    axes: list[tuple[str, ...]] = []
    named: set[str] = set()
    blocks: list[int] = []
    for dimension in sdy.TensorShardingAttr(attributes["sdy.sharding"]).dimension_shardings:
        names, count = [], 1
        for axis in map(sdy.AxisRefAttr, sdy.DimensionShardingAttr(dimension).axes):
            part = axis.sub_axis_info
            size = sizes[axis.name] if part is None else sdy.SubAxisInfoAttr(part).size
            names.append(axis.name if size == sizes[axis.name] else f"{size} of {axis.name}")
            named.add(axis.name)
            count *= size
        axes.append(tuple(names))
        blocks.append(count)
    return Division(tuple(axes), tuple(blocks), frozenset(named))
