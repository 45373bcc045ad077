"""Portable artifacts: StableHLO bytecode that other versions read. Imports jax: to be imported at first need."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
from jax._src import lib
from jax._src.interpreters import mlir
from jaxlib import _jax
from jaxlib._jax.mlir import mlir_module_to_xla_computation, serialize_portable_artifact
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from tinyjax.backend.devices import default_device
from tinyjax.errors import LoweringError
from tinyjax.hlo.lowering import lower_module
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import ClosedJaxpr, Jaxpr


def portable_artifact(program: Jaxpr | ClosedJaxpr, platform: str, name: str = "main") -> bytes:
    """The program as StableHLO bytecode of a version that consumers at most a month old read.

    A LoweringError if the program calls Python functions, which no other process has.
    """
    module = lower_module(program, platform=platform, name=name)
    if module.host_calls:
        called = ", ".join(sorted({call.primitive.name for call in module.host_calls}))
        raise LoweringError(
            f"a program that calls Python functions ({called}) can't be exported: another process doesn't have them"
        )
    return serialized(module.text)


def serialized(text: str) -> bytes:
    """The text of a StableHLO module as such an artifact."""
    version = stablehlo.get_version_from_compatibility_requirement(stablehlo.StablehloCompatibilityRequirement.WEEK_4)
    context = mlir.make_ir_context()
    with context, ir.Location.unknown(context):
        parsed = ir.Module.parse(text)
        found: bytes = serialize_portable_artifact(parsed, version, True)
    return found


def artifact_text(artifact: bytes) -> str:
    """The StableHLO text of a portable artifact."""
    context = mlir.make_ir_context()
    with context, ir.Location.unknown(context):
        return str(stablehlo.deserialize_portable_artifact(context, artifact))


def in_hlo(text: str, debug_info: bool) -> str:
    """The text of the HLO module that XLA makes of the text of a StableHLO module, with its locations if asked for."""
    computation: Any = mlir_module_to_xla_computation(text)
    if not debug_info:
        return str(computation.as_hlo_text())
    library: Any = lib  # Any: each jaxlib has these options in another module
    options = library.hlo.HloPrintOptions.short_parsable()
    options.print_metadata = True
    return str(computation.as_hlo_module().to_string(options))


def mlir_module(text: str) -> object:
    """The text of a StableHLO module as a module of MLIR: that of jaxlib, in a context that knows JAX's dialects."""
    context = mlir.make_ir_context()
    with context, ir.Location.unknown(context):
        return ir.Module.parse(text)


def xla_computation(text: str) -> object:
    """What XLA makes of the text of a StableHLO module, before it optimises it."""
    return mlir_module_to_xla_computation(text)


def estimated_costs(text: str) -> dict[str, float]:
    """What XLA estimates that a run of a StableHLO module costs, before it optimises it."""
    module: Any = mlir_module_to_xla_computation(text)  # Any: jaxlib's stubs don't say what these have
    jaxlib: Any = _jax
    found = jaxlib.hlo_module_cost_analysis(default_device().client, module.as_hlo_module())
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def in_generic_form(text: str, debug_info: bool) -> str:
    """The text of a StableHLO module in MLIR's generic form, with its locations if asked for."""
    context = mlir.make_ir_context()
    with context, ir.Location.unknown(context):
        operation = ir.Module.parse(text).operation
        return str(operation.get_asm(print_generic_op_form=True, enable_debug_info=debug_info))


def exported(
    artifact: bytes, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray], platform: str, name: str
) -> bytearray:
    """An artifact as `jax.export.deserialize` reads it: with the types and trees of its arguments and results."""
    outs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in out_avals]

    # JAX makes the record around the module, for a function of the same type.
    def same_type(*args: jax.Array) -> jax.Array | tuple[jax.Array, ...]:
        zeros = tuple(jax.numpy.zeros(out.shape, out.dtype) for out in outs)
        return zeros[0] if len(zeros) == 1 else zeros

    same_type.__name__ = same_type.__qualname__ = name
    structs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in in_avals]
    record = jax.export.export(jax.jit(same_type), platforms=[platform])(*structs)
    made = dataclasses.replace(
        record, mlir_module_serialized=artifact, module_kept_var_idx=tuple(range(len(structs))), _get_vjp=None
    )
    return made.serialize()
