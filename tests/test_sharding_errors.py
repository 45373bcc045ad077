"""Errors about meshes and shardings are what JAX's are, too: what programs written for it catch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax.errors import NoMeshError, ShardingError, TinyjaxError, UnreducedError, VaryingAxisError

X = np.arange(16.0).reshape(8, 2)


def rows(lib: ModuleType) -> Any:
    return lib.sharding.NamedSharding(mesh_of(lib), lib.P("x"))


def mesh_of(lib: ModuleType) -> Any:
    explicit = lib.sharding.AxisType.Explicit
    return lib.make_mesh((4, 2), ("x", "y"), (explicit,) * 2, devices=lib.devices("cpu")[:8])


def device(lib: ModuleType) -> Any:
    return lib.devices("cpu")[0]


def alone(lib: ModuleType) -> Any:
    return lib.sharding.SingleDeviceSharding(device(lib))


def same(x: Any) -> Any:
    return x


def inside(lib: ModuleType, f: Callable[[Any], Any], spec: Any, **options: Any) -> Any:
    """Traces what a device does with its part of an array that lies so."""
    mesh = mesh_of(lib)
    with lib.set_mesh(mesh):
        x = lib.ShapeDtypeStruct(X.shape, X.dtype, sharding=lib.sharding.NamedSharding(mesh, spec))

        def g(x: Any) -> Any:
            f(x)
            return lib.lax.psum(1.0, ("x", "y"))

        return lib.jit(lib.shard_map(g, in_specs=spec, out_specs=lib.P(), **options)).trace(x)


def outside(lib: ModuleType, f: Callable[[Any], Any]) -> Any:
    """Traces what is done with a sum that is yet to be made."""
    mesh = mesh_of(lib)
    spec = lib.P(unreduced={"x"})
    with lib.set_mesh(mesh):
        x = lib.ShapeDtypeStruct(X.shape, X.dtype, sharding=lib.sharding.NamedSharding(mesh, spec))
        return lib.jit(f).trace(x)


def nested_options(lib: ModuleType) -> Any:
    options = {"xla_embed_ir_in_executable": True}
    return lib.jit(lib.jit(same, compiler_options=options))(X)


CASES: dict[str, Callable[[ModuleType], Any]] = {
    "in_shardings": lambda lib: lib.jit(same, in_shardings=lib.P("x"))(X),
    "out_shardings": lambda lib: lib.jit(same, out_shardings=lib.P("x"))(X),
    "constraint": lambda lib: lib.lax.with_sharding_constraint(X, lib.P("x")),
    "constraint in jit": lambda lib: lib.jit(lambda x: lib.lax.with_sharding_constraint(x, lib.P("x")))(X),
    "device_put": lambda lib: lib.device_put(X, lib.P("x")),
    "reshard": lambda lib: lib.sharding.reshard(X, lib.P("x")),
    "out_sharding": lambda lib: lib.numpy.zeros((8, 2), out_sharding=lib.P("x")),
    "device, in_shardings": lambda lib: lib.jit(same, in_shardings=rows(lib), device=device(lib)),
    "device, out_shardings": lambda lib: lib.jit(same, out_shardings=rows(lib), device=device(lib)),
    "backend, in_shardings": lambda lib: lib.jit(same, in_shardings=rows(lib), backend="cpu"),
    "backend, device": lambda lib: lib.jit(same, device=device(lib), backend="cpu"),
    "too few devices": lambda lib: lib.make_mesh((512, 2), ("x", "y")),
    "too few names": lambda lib: lib.make_mesh((4, 2), ("x",)),
    "too few types": lambda lib: lib.make_mesh((4, 2), ("x", "y"), (lib.sharding.AxisType.Auto,)),
    "other devices": lambda lib: lib.make_mesh((4, 2), ("x", "y"), devices=lib.devices("cpu")[:4]),
    "pcast alone": lambda lib: lib.lax.pcast(X, "x", to="varying"),
    "pcast in jit": lambda lib: lib.jit(lambda x: lib.lax.pcast(x, "x", to="varying"))(X),
    "pcast of what varies": lambda lib: inside(lib, lambda x: lib.lax.pcast(x, "x", to="varying"), lib.P("x")),
    "pcast to unreduced": lambda lib: inside(lib, lambda x: lib.lax.pcast(x, "x", to="unreduced"), lib.P()),
    "pcast to reduced": lambda lib: inside(lib, lambda x: lib.lax.pcast(x, "x", to="reduced"), lib.P("x")),
    "pcast of both": lambda lib: inside(lib, lambda x: lib.lax.pcast(x, ("x", "y"), to="varying"), lib.P("x")),
    "pcast to what": lambda lib: inside(lib, lambda x: lib.lax.pcast(x, "x", to="other"), lib.P()),
    "psum of a sum and not": lambda lib: inside(lib, lambda x: lib.lax.psum(x, ("x", "y")), lib.P(unreduced={"x"})),
    "gathered sum": lambda lib: inside(lib, lambda x: lib.lax.all_gather(x, "x"), lib.P(unreduced={"x"})),
    "partly manual sum": lambda lib: inside(lib, same, lib.P(unreduced={"x"}), axis_names={"x"}),
    "sin of a sum": lambda lib: inside(lib, lib.numpy.sin, lib.P(unreduced={"x"})),
    "comparison of a sum": lambda lib: inside(lib, lambda x: x > 1.0, lib.P(unreduced={"x"})),
    "product of sums": lambda lib: inside(lib, lambda x: x * x, lib.P(unreduced={"x"})),
    "sin of a sum outside": lambda lib: outside(lib, lib.numpy.sin),
    "power of a sum outside": lambda lib: outside(lib, lambda x: x**2),
    "sum and a number outside": lambda lib: outside(lib, lambda x: x + 1.0),
    "nested options": nested_options,
    "no sharding": lambda lib: lib.lax.with_sharding_constraint(X, None),
    "arguments by name": lambda lib: lib.jit(same, in_shardings=rows(lib))(x=X),
    "no name of an axis": lambda lib: lib.sharding.Mesh(np.array(lib.devices("cpu")[:2]).reshape(1, 2), (None, "x")),
    "names in names": lambda lib: lib.P("x", ("y", ("z",))),
    "no name of a sum": lambda lib: lib.P(unreduced={None}),
    "callback in jit": lambda lib: lib.jit(lambda x: lib.make_array_from_callback((8, 2), rows(lib), lambda i: x[i]))(
        X
    ),
    "parts in jit": lambda lib: lib.jit(lambda x: lib.make_array_from_single_device_arrays((8, 2), alone(lib), [x]))(X),
    "no parts": lambda lib: lib.make_array_from_single_device_arrays((8, 2), rows(lib), []),
    "dtype of parts": lambda lib: lib.make_array_from_single_device_arrays(
        (8, 2), alone(lib), [lib.device_put(X, alone(lib))], dtype=np.int32
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_classes_are_jaxs(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with pytest.raises(Exception) as theirs:  # noqa: PT011 (whatever jax has)
            CASES[name](jax)
    with pytest.raises(TinyjaxError) as ours:
        CASES[name](tj)
    builtin = [cls for cls in type(theirs.value).__mro__ if cls.__module__ == "builtins"]
    assert isinstance(ours.value, builtin[0]), (type(ours.value).__mro__, builtin[0])


@pytest.mark.parametrize("lib", [jax, tj], ids=lambda lib: lib.__name__)
def test_the_type_of_what_is_traced_says_how_it_lies(lib: Any) -> None:
    """So that another array can be made in the same way."""

    def f(x: Any) -> Any:
        like = lib.ShapeDtypeStruct.like(x)
        return lib.numpy.ones(like.shape, like.dtype, out_sharding=like.sharding)

    with lib.set_mesh(mesh_of(lib)):
        assert lib.jit(f)(lib.device_put(X, rows(lib))).sharding.spec == lib.P("x", None)


def test_our_own_classes() -> None:
    for name, kind in (
        ("in_shardings", NoMeshError),
        ("pcast of both", VaryingAxisError),
        ("sin of a sum", UnreducedError),
        ("sin of a sum outside", UnreducedError),
    ):
        with pytest.raises(kind):
            CASES[name](tj)


@pytest.mark.parametrize("name", ["reshard", "with_sharding_constraint"])
@pytest.mark.parametrize("within", [False, True])
def test_a_mesh_without_axes_is_none(name: str, within: bool) -> None:
    for lib, error in ((tj, NoMeshError), (jax, ValueError)):
        library: Any = lib
        empty = library.sharding.NamedSharding(library.sharding.AbstractMesh((), ()), library.P())
        change = (
            (library.sharding if lib is jax else library).reshard
            if name == "reshard"
            else library.lax.with_sharding_constraint
        )
        run = library.jit(lambda x, to=empty, change=change: change(x, to))
        with pytest.raises(error, match="mesh"):
            run(np.arange(8.0)) if within else change(np.arange(8.0), empty)
    nowhere = tj.NamedSharding(tj.sharding.AbstractMesh((), ()), tj.P())
    with pytest.raises(NoMeshError, match=r"reshard: x\['a'\]: .* has a mesh without axes"):
        tj.reshard({"a": np.arange(8.0)}, nowhere)


@pytest.mark.parametrize("sums", [{"unreduced": {"y"}}, {"reduced": {"y"}}])
def test_sums_along_auto_axes_are_refused_where_they_are_said(sums: dict[str, Any]) -> None:
    types = tj.sharding.AxisType.Explicit, tj.sharding.AxisType.Auto
    mesh = tj.make_mesh((4, 2), ("x", "y"), types)
    lies = tj.NamedSharding(mesh.abstract_mesh, tj.P(**sums))  # as a program has it
    said: list[Callable[[], object]] = [
        lambda: tj.NamedSharding(mesh, tj.P(**sums)),
        lambda: tj.jit(lambda x: x, in_shardings=lies),
        lambda: tj.jit(lambda x: x, out_shardings={"a": lies}),
        lambda: tj.ShapeDtypeStruct((8,), "float32", sharding=lies),
    ]
    for say in said:
        with pytest.raises(ShardingError, match="Explicit"):
            say()
