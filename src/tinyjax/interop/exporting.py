"""`export` and `export_stablehlo`: programs for other processes, machines and tools."""

from __future__ import annotations

import jax
import jax.export

from tinyjax.backend import jax_programs
from tinyjax.backend.export import exported, portable_artifact
from tinyjax.errors import X64DisabledError
from tinyjax.interop.jax_context import struct, wide_place
from tinyjax.interop.to_jax import to_jax
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.traverse import nested_programs


def export_stablehlo(program: Jaxpr | ClosedJaxpr, *, platform: str = "cpu", name: str = "main") -> bytes:
    """The program as a portable artifact: StableHLO bytecode of a version that other tools read, old ones too.

    Its function `@main` takes the inputs that no constant feeds; constants are part of it.

    Raises:
      LoweringError: the program calls Python functions, or can't be expressed in StableHLO.
      MissingRuleError: a primitive has no lowering rule.

    >>> import tinyjax as tj
    >>> artifact = export_stablehlo(tj.make_jaxpr(tj.numpy.sin)(tj.ShapedArray((3,), "float32")))
    >>> artifact[:4], b"StableHLO" in artifact
    (b'ML\\xefR', True)
    """
    return portable_artifact(program, platform, name)


def export(program: Jaxpr | ClosedJaxpr, *, platform: str = "cpu", name: str = "tinyjax", vjp_order: int = 0) -> bytes:
    """The program as bytes that `jax.export.deserialize` makes a function of JAX of: `deserialize(...).call(*args)`.

    It takes and returns what `to_jax`'s function does. The module is the one that tinyjax compiles. With a
    `vjp_order`, the function can be differentiated so many times by `jax.grad` and `jax.vjp`; then JAX lowers it.

    Args:
      platform: what it is for, in JAX's words: "cpu", "cuda", …

    Raises: as `export_stablehlo` and `to_jax`.

    >>> import jax, jax.export
    >>> import tinyjax as tj
    >>> data = export(tj.make_jaxpr(lambda x: x * x + 1.0)(tj.ShapedArray((), "float32")))
    >>> float(jax.export.deserialize(data).call(jax.numpy.float32(3.0)))
    10.0
    """
    jaxpr, consts = (program.jaxpr, program.consts) if isinstance(program, ClosedJaxpr) else (program, ())
    avals = jaxpr.in_avals[len(consts) :]
    if not vjp_order:
        wide = wide_place(nested_programs(jaxpr), consts)
        if wide is not None and not jax_programs.x64_enabled():
            raise X64DisabledError(
                f"the program computes with 64-bit numbers ({wide}), which JAX has switched off, so it couldn't call "
                'it. Switch them on with `jax.config.update("jax_enable_x64", True)`.'
            )
        artifact = portable_artifact(program, platform, name)
        return bytes(exported(artifact, avals, jaxpr.out_avals, platform, name))
    function = jax.export.export(jax.jit(to_jax(program)), platforms=[platform])
    return bytes(function(*map(struct, avals)).serialize(vjp_order=vjp_order))
