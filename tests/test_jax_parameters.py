"""The parameters of JAX's functions: names, order and what they are by default, or why they aren't here."""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import jax
import jax.experimental.random
import jax.export
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.setting_blocks import SettingBlock

MODULES: Final = (
    "", ".lax", ".lax.linalg", ".numpy", ".numpy.linalg", ".numpy.fft", ".nn", ".nn.initializers", ".random", ".tree",
    ".tree_util", ".image", ".ops", ".debug", ".custom_derivatives", ".custom_batching", ".flatten_util",
    ".scipy.special", ".scipy.linalg", ".scipy.signal", ".scipy.ndimage", ".scipy.fft", ".scipy.integrate",
    ".scipy.interpolate", ".scipy.cluster.vq", ".scipy.optimize", ".scipy.sparse.linalg", ".scipy.stats",
    ".scipy.stats.norm", ".scipy.stats.beta", ".scipy.stats.multivariate_normal", ".test_util", ".experimental.jet",
    ".experimental.ode", ".experimental.multihost_utils", ".experimental.mesh_utils", ".experimental.checkify",
    ".experimental.pjit", ".experimental.sparse", ".extend.core", ".dlpack", ".dtypes", ".example_libraries.stax",
    ".example_libraries.optimizers",
)  # fmt: skip
#: Of these, parameters that aren't here, or are by keyword only, and why.
REASONS: Final = {
    **dict.fromkeys(("grad.reduce_axes", "value_and_grad.reduce_axes"), "by keyword; JAX takes the empty tuple only"),
    **dict.fromkeys(("checkpoint.concrete", "remat.concrete"), "JAX refuses it"),
    **dict.fromkeys(("make_jaxpr.axis_env", "make_jaxpr.return_shape"), "by keyword"),
    "local_devices.host_id": "an older name of process_index",
    "vmap.sum_match": "private to JAX's own code",
    "make_mesh.axis_shapes": "axis_sizes here, as in a mesh; by keyword it is taken",
    "jet.factorial_scaled": "by keyword",
}


def functions() -> Iterator[tuple[str, Callable[..., Any], Callable[..., Any]]]:
    for name in MODULES:
        theirs, ours = (importlib.import_module(root + name) for root in ("jax", "tinyjax"))
        names: Sequence[str] = getattr(theirs, "__all__", None) or dir(theirs)
        for attribute in names:
            one, other = getattr(theirs, attribute, None), getattr(ours, attribute, None)
            if attribute[0] == "_" or isinstance(one, type) or isinstance(other, type):
                continue
            if isinstance(other, SettingBlock | tnp.ufunc):  # which take what holds; and two arguments
                continue
            if callable(one) and callable(other):
                yield attribute, one, other


def differences(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Iterator[str]:
    try:
        wanted, found = (inspect.signature(f).parameters for f in (theirs, ours))
    except (ValueError, TypeError):
        return
    kinds = [p.kind for p in found.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return
    positional = [name for name, p in found.items() if p.kind != p.KEYWORD_ONLY]
    for i, (name, p) in enumerate(wanted.items()):
        if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL, p.POSITIONAL_ONLY):
            continue
        if name not in found:
            if inspect.Parameter.VAR_KEYWORD not in kinds:
                yield name
        elif p.kind == p.POSITIONAL_OR_KEYWORD and (name not in positional or positional.index(name) != i):
            yield name


@pytest.mark.skipif(jax.__version_info__[:2] != (0, 10), reason="the table is of JAX 0.10")
def test_parameters_are_those_of_jax() -> None:
    found = {f"{name}.{parameter}" for name, one, other in functions() for parameter in differences(one, other)}
    assert found == set(REASONS)


#: What isn't the same by default, and why. What stands for "nothing was given" may be another object.
DEFAULTS: Final = {
    **dict.fromkeys(("checkpoint.fun", "remat.fun"), "may be left out, for a decorator with arguments"),
    **dict.fromkeys(("debug_infs.new_val", "debug_nans.new_val", "check_tracer_leaks.new_val"), "may be left out"),
    **dict.fromkeys(("make_mesh.axis_names", "make_mesh.axis_shapes"), "the sizes have another name, too"),
    "clip.arr": "None is refused there, too",
    "checkify.errors": "the same set, of classes of ours",
    **dict.fromkeys(("check_jvp.eps", "check_vjp.eps"), "follows from the dtype"),
}


def _default(value: Any) -> object:
    """A default as it is compared: objects that have no meaning but that nothing was given are alike."""
    if value is inspect.Parameter.empty:
        return "required"
    if isinstance(value, enum.Enum):
        return "unspecified" if value.name in ("MISSING", "INFER") else value.name
    if isinstance(value, bool | str | None.__class__):
        return value
    if isinstance(value, int | float | np.generic) and not hasattr(value, "name"):
        return float(np.asarray(value)[()]) if np.ndim(value) == 0 and not np.iscomplexobj(value) else str(value)
    if isinstance(value, tuple | list | frozenset):
        return tuple(map(str, value))
    return "callable" if inspect.isfunction(value) or hasattr(value, "__name__") else "unspecified"


def other_defaults(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Iterator[str]:
    try:
        wanted, found = (inspect.signature(f).parameters for f in (theirs, ours))
    except (ValueError, TypeError):
        return
    for name in wanted.keys() & found.keys():
        if wanted[name].kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            one, other = _default(wanted[name].default), _default(found[name].default)
            if one != other and not (one == "unspecified" and other in (None, "required")):
                yield name


@pytest.mark.skipif(jax.__version_info__[:2] != (0, 10), reason="the table is of JAX 0.10")
def test_defaults_are_those_of_jax() -> None:
    found = {f"{name}.{parameter}" for name, one, other in functions() for parameter in other_defaults(one, other)}
    assert found == set(DEFAULTS)


#: Methods and properties of JAX's objects that aren't here, or whose parameters are others, and why.
_LAYOUTS: Final = "layouts of arrays in memory aren't chosen here"
_OWN: Final = "what JAX's objects keep for themselves"
_MODULE: Final = (
    "an artifact is a program, which says itself how its arguments lie; it has no checks that could be disabled"
)
METHODS: Final = {
    "Array.clone": "a copy with the same memory, for JAX's own use",
    "Array.flat": "it raises an error there",
    "Array.traceback": "where JAX made an array, if it was told to remember",
    **dict.fromkeys(("Array.format", "Ref.format", "ShapeDtypeStruct.format"), _LAYOUTS),
    **dict.fromkeys(("Compiled.input_formats", "Compiled.output_formats"), _LAYOUTS),
    **dict.fromkeys(("Array.device_buffer", "Array.device_buffers"), "they raise an error there"),
    "Ref.committed": "arrays are where they are",
    "Ref.addupdate.idx": "an ellipsis, which is the same as the empty tuple",
    "Traced.lojax": "for hijax",
    "Traced.lower._private_parameters": "private to JAX's own code",
    "Compiled.call": "a static method that JAX's calls go through",
    **{f"custom_jvp.{name}": _OWN for name in ("fun", "jvp", "nondiff_argnums", "symbolic_zeros")},
    **{
        f"custom_vjp.{name}": _OWN
        for name in ("fun", "fwd", "bwd", "nondiff_argnums", "optimize_remat", "symbolic_zeros")
    },
    **{f"custom_vmap.{name}": _OWN for name in ("fun", "vmap_rule")},
    **{
        f"Exported.{name}": _MODULE
        for name in (
            "calling_convention_version", "disabled_safety_checks", "in_shardings_hlo", "module_kept_var_idx",
            "ordered_effects", "out_shardings_hlo", "unordered_effects", "uses_global_constants",
        )
    },
    **{f"Exported.{name}_shardings_jax.mesh": "may be left out, as in JAX 0.11" for name in ("in", "out")},
    "Exported.mlir_module.serialized": "a text, of the platform that is given",
}  # fmt: skip
#: And those of JAX 0.11.
NEWER_METHODS: Final = {
    "Array.unsafe_raw_buffer": "a pointer to a device's memory",
    **dict.fromkeys(("Traced.closure_convert", "Traced.with_consts_as_arg"), "`closed_jaxpr` has the constants"),
    "Traced.physicalize": "for hijax",
    "custom_vjp.with_logs": _OWN,
    "custom_vjp.defvjp_with_logs": "cotangents of an argument more say the same",
}


def objects() -> Iterator[tuple[str, Any, Any]]:
    """Objects of JAX's and ours that are made in the same way."""
    makers: dict[str, Callable[[Any], Any]] = {
        "Array": lambda j: j.jit(lambda x: x + 1.0)(np.ones((2, 2))),
        "at": lambda j: j.numpy.ones((2, 2)).at,
        "at[]": lambda j: j.numpy.ones((2, 2)).at[0],
        "Ref": lambda j: j.new_ref(np.ones(2)),
        "jit": lambda j: j.jit(lambda x: x),
        "Traced": lambda j: j.jit(lambda x: x).trace(1.0),
        "Lowered": lambda j: j.jit(lambda x: x).lower(1.0),
        "Compiled": lambda j: j.jit(lambda x: x).lower(1.0).compile(),
        "custom_jvp": lambda j: j.custom_jvp(lambda x: x),
        "custom_vjp": lambda j: j.custom_vjp(lambda x: x),
        "custom_vmap": lambda j: j.custom_batching.custom_vmap(lambda x: x),
        "ShapeDtypeStruct": lambda j: j.ShapeDtypeStruct((2,), "float32"),
        "Mesh": lambda j: j.make_mesh((1,), ("x",)),
        "NamedSharding": lambda j: j.NamedSharding(j.make_mesh((1,), ("x",)), j.P("x")),
        "PyTreeDef": lambda j: j.tree.structure({"a": 1}),
        "Exported": lambda j: j.export.export(j.jit(lambda x: x))(1.0),
        "finfo": lambda j: j.numpy.finfo("float32"),
        "iinfo": lambda j: j.numpy.iinfo("int8"),
        "ufunc": lambda j: j.numpy.add,
        "generator": lambda j: j.experimental.random.stateful_rng(0),
    }
    for name, make in makers.items():
        yield name, make(jax), make(tj)


def _value(x: object, name: str) -> object:
    """An attribute; None if there is none, an error if it raises one."""
    try:
        return getattr(x, name, None)
    except Exception as error:  # noqa: BLE001 (whatever a property raises)
        return error


def test_methods_are_those_of_jax() -> None:
    """They are there, and take what JAX's take, with the same defaults."""
    found = set()
    for kind, theirs, ours in objects():
        for name in dir(theirs):
            if name.startswith("_"):
                continue
            if name not in dir(ours) and _value(ours, name) is None:
                found.add(f"{kind}.{name}")
            elif inspect.isroutine(method := _value(theirs, name)) and callable(other := _value(ours, name)):
                given = [*differences(method, other), *other_defaults(method, other)]
                found |= {f"{kind}.{name}.{parameter}" for parameter in given}
    if jax.__version_info__[:2] == (0, 10):
        assert found == set(METHODS)
    else:
        assert found <= set(METHODS) | set(NEWER_METHODS)


X = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda j, np_: j.lax.full_like(X, 2.0, None, None, None),
        lambda j, np_: j.lax.empty((2,), "float64", out_sharding=None).shape,
        lambda j, np_: j.lax.reduce(X, 0.0, lambda x, y: x + y, (1,), None),
        lambda j, np_: j.lax.reduce(X, 1.0, lambda x, y: x * y, (1,), out_sharding=None),
        lambda j, np_: j.lax.scan(lambda c, x: (c + x, c), np.zeros(3), X, _split_transpose=True),
        lambda j, np_: j.lax.broadcast_in_dim(X, (3, 4, 2), (2, 0)),
        lambda j, np_: (np_.array(range(5)), np_.asarray(range(0)).shape, np_.array(range(3), "float32")),
        lambda j, np_: (
            np_.polyadd(X, X[:1]),
            np_.polysub(X[1:], X),
            np_.polyadd(X, X[0, :1]),
        ),  # several polynomials, which NumPy doesn't align
        lambda j, np_: np_.cov(X, None, True, False, None, None, None, "float32"),
        lambda j, np_: np_.corrcoef(X, None, True, "float32"),
        lambda j, np_: np_.nanmean(X, 0, None, None, False, X > 1),
        lambda j, np_: np_.nanvar(X, 0, None, None, 0, False, X > 1, None),
        lambda j, np_: np_.nanstd(X, 0, None, None, 0, False, X > 1, None),
        lambda j, np_: j.flatten_util.ravel_pytree(pytree={"x": X, "y": 1.0})[0],
    ],
)
def test_they_are_taken_as_jax_takes_them(call: Callable[[Any, Any], Any]) -> None:
    with jax.enable_x64(True):
        wanted = jax.tree.leaves(call(jax, jnp))
    for one, other in zip(tj.tree.leaves(call(tj, tnp)), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=2.0**-20)


def test_what_is_made_lies_on_a_mesh() -> None:
    """Also what `reduce` and `empty` make."""
    mesh = tj.make_mesh((1,), ("x",))
    place = tj.NamedSharding(mesh, tj.P("x"))

    def f(x: Any) -> Any:
        total = lax.reduce(x, 0.0, lambda a, b: a + b, (1,), out_sharding=place)
        product = lax.reduce(x, 1.0, lambda a, b: a * b, (1,), out_sharding=place)
        return total, product, lax.empty((2,), "float64", out_sharding=place)

    assert str(tj.make_jaxpr(f)(X)).count("sharding_constraint") == 3
    for one, other in zip(f(X), (X.sum(1), X.prod(1), np.zeros(2)), strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)


def test_precision_by_name() -> None:
    with tj.default_matmul_precision(new_val="float32"):
        program = tj.make_jaxpr(lambda x: x @ x.T)(X)
    assert "HIGHEST" in str(program)
