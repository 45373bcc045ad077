"""Where it is said more than once, or not quite, how arrays lie: as in JAX."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax.errors import ChoiceError, ShardingError

X = np.arange(16.0).reshape(8, 2)


def mesh_of(lib: ModuleType, kind: str = "Auto") -> Any:
    kinds = (getattr(lib.sharding.AxisType, kind),) * 2
    return lib.make_mesh((4, 2), ("x", "y"), kinds, devices=lib.devices("cpu")[:8])


def named(lib: ModuleType, *parts: Any, **more: Any) -> Any:
    return lib.sharding.NamedSharding(mesh_of(lib), lib.P(*parts), **more)


def one(lib: ModuleType, **more: Any) -> Any:
    return lib.sharding.SingleDeviceSharding(lib.devices("cpu")[1], **more)


def on(lib: ModuleType, f: Callable[[Any], Any]) -> Any:
    return lib.jit(f, device=lib.devices("cpu")[1])(X)


def in_force(lib: ModuleType, f: Callable[[Any], Any]) -> Any:
    with lib.set_mesh(mesh_of(lib)):
        return f(X)


OPEN: Any = tj.P.UNCONSTRAINED

REFUSED: dict[str, Callable[[ModuleType], Any]] = {
    "out_shardings": lambda lib: lib.jit(lambda x: x, out_shardings=named(lib, lib.P.UNCONSTRAINED, "y")),
    "in_shardings": lambda lib: lib.jit(lambda x: x, in_shardings=named(lib, lib.P.UNCONSTRAINED, "y")),
    "in_specs": lambda lib: lib.shard_map(
        lambda x: x, mesh=mesh_of(lib), in_specs=lib.P(lib.P.UNCONSTRAINED), out_specs=lib.P("x")
    )(X),
    "device, constraint": lambda lib: on(lib, lambda x: lib.lax.with_sharding_constraint(x, named(lib, "x"))),
    "device, device_put": lambda lib: on(lib, lambda x: lib.device_put(x, named(lib, "x"))),
    "device, jit": lambda lib: on(lib, lib.jit(lambda x: x, out_shardings=named(lib, "x"))),
    "device, shard_map": lambda lib: on(
        lib, lib.shard_map(lambda x: x, mesh=mesh_of(lib), in_specs=lib.P("x"), out_specs=lib.P("x"))
    ),
    "device, mesh in force": lambda lib: in_force(lib, lib.jit(lambda x: x, device=lib.devices("cpu")[1])),
    "backend, mesh in force": lambda lib: in_force(lib, lib.jit(lambda x: x, backend="cpu")),
    "constraint of fewer axes": lambda lib: lib.lax.with_sharding_constraint(X[0, 0], named(lib, None)),
    "place of fewer axes": lambda lib: lib.device_put(X[0, 0], named(lib, None)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with pytest.raises(ValueError):  # noqa: PT011 (JAX has several)
            REFUSED[name](jax)
    with pytest.raises((ShardingError, ChoiceError)):
        REFUSED[name](tj)


def test_a_place_is_whole() -> None:
    with pytest.raises(ShardingError, match=r"None in the place of P\.UNCONSTRAINED"):
        tj.device_put(X, named(tj, OPEN))


@pytest.mark.parametrize("kind", ["pinned_host", "unpinned_host"])
def test_kinds_of_memory(kind: str) -> None:
    def found(lib: ModuleType) -> list[str | None]:
        spread, alone = named(lib, "x", memory_kind=kind), one(lib, memory_kind=kind)
        put = [lib.device_put(X, place) for place in (spread, alone)]
        made = [lib.jit(lambda x: 2 * x, out_shardings=place)(X) for place in (spread, alone)]
        return [x.sharding.memory_kind for x in (*put, *made)]

    assert found(tj) == found(jax) == [kind] * 4
    usual: Any = tj.device_put(X, named(tj, "x", memory_kind="device"))
    assert usual.sharding.memory_kind == "device"


@pytest.mark.parametrize("name", ["Device", "Host"])
def test_spaces_are_memories_where_arrays_lie(name: str) -> None:
    """For arrays on the host, on one device and on a mesh; under transformations, and within compiled functions."""

    def found(lib: ModuleType) -> list[object]:
        spaces = lib.memory.Space
        space = getattr(spaces, name)

        def there_and_back(x: Any) -> Any:
            return lib.device_put(lib.device_put(x, space), spaces.Device) ** 2

        x = lib.numpy.asarray(X)
        put = [lib.device_put(each, space) for each in (x, X, 1.0, lib.device_put(X, named(lib, "x")))]
        tree = lib.device_put({"a": x, "b": x}, {"a": space, "b": spaces.Device})
        mapped = [
            lib.vmap(there_and_back)(x),
            lib.grad(lambda x: there_and_back(x).sum())(x),
            lib.jit(there_and_back)(x),
        ]
        lying = [(y.sharding.memory_kind, len(y.sharding.device_set)) for y in (*put, *tree.values())]
        return [lying, [np.asarray(y).tolist() for y in (*put, *mapped)]]

    assert found(tj) == found(jax)


def test_a_space_that_is_left_open_is_no_place() -> None:
    with pytest.raises(ChoiceError, match=r"use Space\.Device or Space\.Host"):
        tj.device_put(X, tj.memory.Space.Any)


LYING: dict[str, Callable[[ModuleType, Any, Any], Any]] = {
    "element": lambda lib, x, s: x.at[0].get(out_sharding=s),
    "scalar": lambda lib, x, s: x.sum().at[()].get(out_sharding=s),
    "zeros": lambda lib, x, s: lib.numpy.zeros((), out_sharding=s),
    "dot": lambda lib, x, s: lib.numpy.dot(x, x, out_sharding=s),
    "einsum": lambda lib, x, s: lib.numpy.einsum("i,i->", x, x, out_sharding=s),
    "reshard": lambda lib, x, s: lib.sharding.reshard(x.sum(), s),
    "trees": lambda lib, x, s: lib.sharding.reshard({"a": x.sum()}, s)["a"],
}


@pytest.mark.parametrize("name", LYING)
@pytest.mark.parametrize("jit", [False, True])
def test_nothing_is_said_of_axes_that_are_not_there(name: str, jit: bool) -> None:
    """As in JAX before 0.11, which refuses parts for axes that aren't there."""
    values: list[Any] = []
    for lib in (tj, jax):
        spec = lib.P() if lib is jax and jax.__version_info__ >= (0, 11) else lib.P(None)
        with lib.set_mesh(mesh_of(lib, "Explicit")):
            x = lib.device_put(np.arange(8.0), lib.P())

            def f(x: Any, lib: ModuleType = lib, spec: Any = spec) -> Any:
                return LYING[name](lib, x, spec)

            y = (lib.jit(f) if jit else f)(x)
            assert y.sharding.spec == lib.P()
            values.append(np.asarray(y))
    np.testing.assert_allclose(values[0], values[1])
    with tj.set_mesh(mesh_of(tj, "Explicit")), pytest.raises(ShardingError, match="1 parts"):
        LYING[name](tj, tj.numpy.arange(8.0), tj.P("x"))


TYPED: dict[str, Callable[[ModuleType, Any], Any]] = {
    "twice": lambda lib, x: 2.0 * x,
    "turned": lambda lib, x: (x.T, {"sum": x.sum(1)}),
    "told": lambda lib, x: lib.sharding.reshard(x, lib.P(None, "y")),
    "left to XLA": lambda lib, x: lib.sharding.auto_axes(lambda x: x @ x.T, out_sharding=lib.P("x"))(x),
}


@pytest.mark.parametrize("name", TYPED)
def test_stages_say_how_results_lie_along_explicit_axes(name: str) -> None:
    found: list[list[Any]] = []
    for lib in (tj, jax):
        with lib.set_mesh(mesh_of(lib, "Explicit")):
            x = lib.device_put(X, lib.P("x"))

            def f(x: Any, lib: ModuleType = lib) -> Any:
                return TYPED[name](lib, x)

            stage = lib.jit(f)
            infos = [stage.eval_shape(x), stage.trace(x).out_info, stage.lower(x).out_info, lib.eval_shape(f, x)]
            each = [info for tree in infos for info in lib.tree.leaves(tree)]
            found.append([(info.shape, tuple(info.sharding.spec)) for info in each])
            asked = lib.jit(lambda x: x, out_shardings=lib.P("y")).trace(x).out_info
            found[-1].append(tuple(asked.sharding.spec)[:1])
    assert found[0] == found[1]


def test_types_within_shard_map_say_what_varies() -> None:
    seen: list[list[Any]] = []
    for lib in (tj, jax):
        own: list[Any] = []

        def f(x: Any, lib: ModuleType = lib, own: list[Any] = own) -> Any:
            for g in (lambda x: 2.0 * x, lambda x: lib.lax.psum(x, "x"), lambda x: lib.numpy.ones(3)):
                infos = lib.eval_shape(g, x), lib.jit(g).eval_shape(x)
                own.extend([sorted(lib.typeof(info).mat.varying) for info in infos])
            return x

        with lib.set_mesh(mesh_of(lib, "Explicit")):
            lib.shard_map(f, in_specs=lib.P("x"), out_specs=lib.P("x"))(lib.device_put(X, lib.P("x")))
        seen.append(own)
    assert seen[0] == seen[1]
