"""What of JAX's equations, and of what they write to, can only be reached through its private modules."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax._src import core
from jax._src.interpreters import ad, batching, partial_eval
from jax.extend.core import ClosedJaxpr as JaxClosedJaxpr
from jax.extend.core import Jaxpr as JaxJaxpr
from jax.extend.core import JaxprEqn

from tinyjax.errors import UnsupportedError
from tinyjax.ir.dtypes import HostArray


def printing(eqn: JaxprEqn) -> Callable[..., object]:
    """What a `debug_print` does with its operands on the host."""

    def debug_print(*args: HostArray) -> None:
        eqn.primitive.impl(*args, **eqn.params)

    return debug_print


def has_refs(jaxpr: JaxJaxpr) -> bool:
    """Whether the program makes places that are written to."""
    return any(getattr(eqn.primitive, "ref_allocating", False) for eqn in jaxpr.eqns)


def without_refs(jaxpr: JaxJaxpr) -> JaxClosedJaxpr:
    """The program with values passed on instead of places that are written to; what fed its constants are inputs."""
    discharge = importlib.import_module("jax._src.state.discharge").discharge_state
    jaxpr = partial_eval.convert_constvars_jaxpr(jaxpr)
    if "closed_jaxpr" in inspect.signature(discharge).parameters:
        found: JaxClosedJaxpr = discharge(JaxClosedJaxpr(jaxpr, ()))
        return found
    return JaxClosedJaxpr(*discharge(jaxpr, ()))


def bind_params(primitive: Any, params: Mapping[str, object]) -> dict[str, Any]:  # a primitive of JAX
    """The parameters of an equation as its primitive takes them."""
    found: dict[str, Any] = primitive.get_bind_params(dict(params))
    return found


def applies(jaxpr: JaxJaxpr, eqn: JaxprEqn) -> bool:
    """Whether the program, or one within it, has the equation again: the primitive, for operands of the same types."""

    def types(each: JaxprEqn) -> list[str]:
        return [str(atom.aval) for atom in each.invars]

    return any(each.primitive is eqn.primitive and types(each) == types(eqn) for each in jaxpr.eqns) or any(
        applies(inner, eqn) for inner in core.subjaxprs(jaxpr)
    )


def is_transposed(primitive: object) -> bool:
    """Whether there is a rule for the transpose of a primitive."""
    return primitive in ad.primitive_transposes


def is_mapped(value: object) -> bool:
    """Whether a value has elements of its own for each row, where JAX is mapping."""
    return isinstance(value, batching.BatchTracer) and value.batch_dim is not None


def axes_of_one_device(mesh: Any) -> tuple[str, ...]:  # a mesh of JAX
    """The names of the axes of a mesh that has one device."""
    if mesh.size != 1:
        raise UnsupportedError(f"over {mesh.size} devices: only over one")
    return tuple(map(str, mesh.axis_names))


def is_one_device(value: object) -> bool:
    """Whether this is a device, or says of an array that all of it is on one."""
    if isinstance(value, jax.sharding.NamedSharding):
        return value.mesh.size <= 1
    return isinstance(value, jax.Device | jax.sharding.SingleDeviceSharding)
