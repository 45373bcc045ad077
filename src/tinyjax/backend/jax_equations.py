"""What of JAX's equations, and of what they write to, can only be reached through its private modules."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
from jax._src import config, core
from jax._src.interpreters import ad, batching, mlir, partial_eval
from jax.extend.core import ClosedJaxpr as JaxClosedJaxpr
from jax.extend.core import Jaxpr as JaxJaxpr
from jax.extend.core import JaxprEqn

from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.shapes import Axes, as_axes, marked


def printing(eqn: JaxprEqn) -> Callable[..., object]:
    """What a `debug_print` does with its operands on the host."""

    def debug_print(*args: HostArray) -> None:
        eqn.primitive.impl(*args, **eqn.params)

    return debug_print


def program_of(program: Any) -> JaxJaxpr:  # a program of JAX, closed or not: one class from 0.11 on
    """A program, without the values of its constants where they stand beside it."""
    found: JaxJaxpr = getattr(program, "jaxpr", program)
    return found


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


def attributes(eqn: JaxprEqn) -> dict[object, object]:
    """The attributes of a `composite` or an `ffi_call` by name, without those that are None, which aren't written."""
    if eqn.primitive.name == "ffi_call":
        given = {key: getattr(value, "_d", getattr(value, "val", value)) for key, value in eqn.params["attributes"]}
        return {**given}
    found = {
        key: tree.unflatten([getattr(leaf, "val", leaf) for leaf in leaves])
        for key, leaves, tree in eqn.params["attributes"]
    }
    return {key: value for key, value in found.items() if value is not None}


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


def lowered_function(eqn: JaxprEqn) -> Callable[..., object] | None:
    """The function that the primitive of an equation is lowered as, where JAX would run it; None if it is lowered
    otherwise."""
    primitive: Any = eqn.primitive
    if primitive.name == "pallas_call" and eqn.params["interpret"] is True:
        return _interpreted_kernel
    for rule in _lowering_rules(primitive):
        # One that `lower_fun` has made.
        names = getattr(getattr(rule, "__code__", None), "co_freevars", ())
        if getattr(rule, "__module__", None) == mlir.lower_fun.__module__ and "fun" in names:
            found: Callable[..., object] = rule.__closure__[names.index("fun")].cell_contents
            return found
    return None


def _lowering_rules(primitive: Any) -> Iterator[Any]:
    """The rules that JAX lowers a primitive by: those for its default platform, then that for all."""
    own = mlir._platform_specific_lowerings  # noqa: SLF001 (there is no other way to ask)
    entries = []
    if any(primitive in rules for rules in own.values()):
        default = jax.default_backend()
        names = ("cuda", "rocm") if default == "gpu" else (default,)
        entries = [own[name].get(primitive) for name in names if name in own]
    for entry in (*entries, mlir._lowerings.get(primitive)):  # noqa: SLF001
        yield getattr(entry, "rule", entry)


def _interpreted_kernel(*args: Any, interpret: bool, **params: Any) -> object:
    """What a Pallas kernel computes, as programs for any platform: a loop over its grid."""
    from jax._src.pallas.hlo_interpreter import pallas_call_hlo_interpret  # loaded already, where there is such

    found: object = pallas_call_hlo_interpret(*args, **params)
    return found


def is_transposed(primitive: object) -> bool:
    """Whether there is a rule for the transpose of a primitive."""
    return primitive in ad.primitive_transposes


def is_mapped(value: object) -> bool:
    """Whether a value has elements of its own for each row, where JAX is mapping."""
    return isinstance(value, batching.BatchTracer) and value.batch_dim is not None


def axes_of(aval: Any) -> Axes:  # an aval of JAX
    """What a type says along manual axes of a mesh: along which a value varies, is unreduced or reduced."""
    found = getattr(aval, "mat", None)
    if found is None:
        return ()
    varying, unreduced, reduced = (as_axes(map(str, each)) for each in (found.varying, found.unreduced, found.reduced))
    return marked(varying, unreduced, reduced)


@contextmanager
def within_mesh(mesh: Any, names: Sequence[str], tracked: bool) -> Iterator[None]:  # a mesh of JAX
    """JAX traces as within a `shard_map` over a mesh, in which the axes of these names become manual."""
    types = dict.fromkeys(names, jax.sharding.AxisType.Manual)
    inner = mesh.abstract_mesh.update_axis_types(types)
    sizes = [(name, size) for name, size in mesh.shape.items() if name in inner.manual_axes]
    with core.extend_axis_env_nd(sizes), jax.sharding.use_abstract_mesh(inner), config._check_vma(tracked):  # noqa: SLF001
        yield


def named_axes() -> tuple[tuple[str, int, bool | None], ...]:
    """The named axes within which JAX is tracing, with their sizes. Of those of a mesh, whether types say what varies
    along them; None for those that are mapped otherwise."""
    manual = jax.sharding.get_abstract_mesh().manual_axes
    tracked = bool(config._check_vma.value)  # noqa: SLF001
    sizes = core.get_axis_env().axis_sizes
    return tuple([
        (name, size, tracked if name in manual else None) for name, size in sizes.items() if isinstance(name, str)
    ])  # fmt: skip
