"""Calls of the host within a `shard_map` over some axes of a mesh: one for all devices along the others, as in JAX."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax.errors import UnsupportedError
from tinyjax.sharding import AbstractMesh

X = np.arange(8.0).reshape(4, 2)


def mesh_of(lib: ModuleType) -> Any:
    return lib.make_mesh((2, 2), ("x", "y"), (lib.sharding.AxisType.Auto,) * 2, devices=lib.devices("cpu")[:4])


def seen(lib: ModuleType, manual: str, spec: Any, lies: Any, *, loop: bool = False) -> list[Any]:
    """What the host is called with, sorted."""
    mesh, found = mesh_of(lib), list[Any]()
    x = lib.device_put(X, lib.sharding.NamedSharding(mesh, lies))

    def look(x: Any) -> Any:
        lib.debug.callback(lambda x: found.append(np.asarray(x).tolist()), x)
        return x

    def f(x: Any) -> Any:
        return lib.lax.scan(lambda c, _: (look(c) + 1.0, None), x, None, length=3)[0] if loop else look(x)

    mapped = lib.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, axis_names={manual})
    np.testing.assert_array_equal(lib.jit(mapped)(x), X + 3.0 * loop)
    lib.effects_barrier()
    return sorted(found)


@pytest.mark.parametrize("lies", [(), ("x",), ("x", "y"), (None, "x")])
@pytest.mark.parametrize(("manual", "names"), [("x", ("x",)), ("y", ("y",)), ("x", ())])
def test_one_call_for_the_others(manual: str, names: tuple[str, ...], lies: tuple[str | None, ...]) -> None:
    ours = seen(tj, manual, tj.P(*names), tj.P(*lies))
    assert ours == seen(jax, manual, jax.P(*names), jax.P(*lies))
    assert len(ours) == 2


def test_in_a_loop() -> None:
    assert seen(tj, "x", tj.P("x"), tj.P("x"), loop=True) == seen(jax, "x", jax.P("x"), jax.P("x"), loop=True)


def test_print(capfd: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        tj.debug.print("the sum is {}", x.sum())
        return x

    mapped = tj.shard_map(f, mesh=mesh_of(tj), in_specs=tj.P("x"), out_specs=tj.P("x"), axis_names={"x"})
    tj.jit(mapped)(X)
    tj.effects_barrier()
    assert sorted(capfd.readouterr().out.splitlines()) == ["the sum is 22.0", "the sum is 6.0"]


def test_on_the_host() -> None:
    found: list[Any] = []

    def f(x: Any) -> Any:
        tj.debug.callback(lambda x: found.append(np.asarray(x).tolist()), x)
        return x

    mesh = AbstractMesh((2, 2), ("x", "y"))
    tj.shard_map(f, mesh=mesh, in_specs=tj.P("x"), out_specs=tj.P("x"), axis_names={"x"})(X)
    assert found == [X[:2].tolist(), X[2:].tolist()]


def test_what_gives_something_back_is_refused() -> None:
    def f(x: Any) -> Any:
        tj.experimental.io_callback(lambda x: None, None, x)
        return x

    mapped = tj.shard_map(f, mesh=mesh_of(tj), in_specs=tj.P("x"), out_specs=tj.P("x"), axis_names={"x"})
    with pytest.raises(UnsupportedError, match="Name all axes in axis_names"):
        tj.jit(mapped)(X)
