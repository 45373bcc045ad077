"""What a function closes over doesn't decide where it runs, if something has put its arguments somewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.test_mesh_of_one import spelled
from tinyjax.backend import execute
from tinyjax.errors import ShardingError
from tinyjax.tracing.concrete import ConcreteArray, as_array

X = np.arange(8.0, dtype="float32")
PLACES = ["first", "third", "mesh", "two"]


def sharding(m: Any, place: str) -> Any:  # Any: modules and values of two libraries
    devices = m.devices("cpu")
    if place in ("first", "third"):
        return m.sharding.SingleDeviceSharding(devices[0 if place == "first" else 2])
    count = 8 if place == "mesh" else 2
    mesh = m.make_mesh((count,), ("x",), (m.sharding.AxisType.Auto,), devices=devices[:count])
    return m.sharding.NamedSharding(mesh, m.P("x"))


def put(m: Any, place: str) -> Any:
    return X if place == "host" else m.device_put(X, sharding(m, place))


#: From the function of the argument that closes over something.
TRANSFORMED: dict[str, Callable[[Any, Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "jit": lambda m, f: m.jit(f),
    "jit within jit": lambda m, f: m.jit(lambda x: m.jit(f)(x) * 2.0),
    "jvp of jit": lambda m, f: lambda x: m.jvp(m.jit(f), (x,), (x,))[1],
}


@pytest.mark.parametrize("transformed", TRANSFORMED)
@pytest.mark.parametrize("closed_over", PLACES)
def test_it_runs_where_its_arguments_are(closed_over: str, transformed: str) -> None:
    def results(m: Any) -> list[Any]:
        held = put(m, closed_over)
        run = TRANSFORMED[transformed](m, lambda x: m.numpy.sin(x) * held)
        return [run(put(m, place)) for place in (*PLACES, *reversed(PLACES))]  # prepared calls, too

    for ours, theirs in zip(results(tj), results(jax), strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6)
        assert spelled(ours.sharding) == spelled(theirs.sharding)


@pytest.mark.parametrize("said", ["in", "out", "both"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("closed_over", ["third", "two"])
def test_it_runs_where_shardings_say(closed_over: str, place: str, said: str) -> None:
    def found(m: Any, argument: str) -> Any:
        held, where = put(m, closed_over), sharding(m, place)
        ins, outs = {"in_shardings": where}, {"out_shardings": where}
        how: dict[str, Any] = {"in": ins, "out": outs, "both": ins | outs}[said]
        run = m.jit(lambda x: m.numpy.sin(x) * held, **how)
        try:
            results = [run(put(m, argument)) for _ in range(2)]  # the second call is prepared
        except ValueError:
            return "refused"
        assert said == "in" or all(spelled(result.sharding) == spelled(where) for result in results)
        on = [sorted(device.id for device in result.sharding.device_set) for result in results]
        return on, [np.asarray(result).round(5).tolist() for result in results]

    for argument in ("host", "third", place):
        assert found(tj, argument) == found(jax, argument), argument


def test_without_a_place_it_runs_where_that_is() -> None:
    """In JAX on the default device."""
    third = tj.devices("cpu")[2]
    held = tj.device_put(X, third)
    run = tj.jit(lambda x: x * held)
    assert run(X).device == third
    assert run(put(tj, "first")).device == tj.devices("cpu")[0]
    assert run(X).device == third


@pytest.mark.parametrize("closed_over", PLACES)
def test_derivatives_do_so_too(closed_over: str) -> None:
    """In JAX these are a ValueError where the array that is closed over is elsewhere."""
    held = put(tj, closed_over)
    run = tj.jit(lambda x: tnp.sin(x) * held)
    for place in (*PLACES, *reversed(PLACES)):
        x = put(tj, place)
        for found in (tj.grad(lambda x: run(x).sum())(x), tj.vjp(run, x)[1](tnp.ones_like(x))[0]):
            np.testing.assert_allclose(np.asarray(found), np.cos(X) * X, rtol=1e-6)
            assert found.sharding.device_set == x.sharding.device_set
        mapped = tj.vmap(run, in_axes=None, axis_size=2)(x)
        np.testing.assert_allclose(np.asarray(mapped), np.stack([np.sin(X) * X] * 2), rtol=1e-6)


def test_shardings_of_results_move_no_arguments() -> None:
    for m, kind in ((jax, ValueError), (tj, ShardingError)):
        run = m.jit(lambda x: x * 2.0, in_shardings=(None,), out_shardings=sharding(m, "third"))
        with pytest.raises(kind):
            run(put(m, "first"))


def _along(m: Any) -> Any:
    return m.make_mesh((4, 2), ("x", "y"), (m.sharding.AxisType.Auto,) * 2, devices=m.devices("cpu"))


#: Functions of an array that close over another one, and hold a mesh.
ON_A_MESH: dict[str, Callable[[Any, Any], Any]] = {
    "constraint": lambda m, held: m.jit(
        lambda x: m.lax.with_sharding_constraint(x + held, m.NamedSharding(_along(m), m.P("x")))
    ),
    "without arguments": lambda m, held: m.jit(
        lambda x=1.0: m.lax.with_sharding_constraint(x * held, m.NamedSharding(_along(m), m.P("x")))
    ),
    "shard_map": lambda m, held: m.jit(
        m.shard_map(lambda x: x + held[:2], mesh=_along(m), in_specs=m.P("x"), out_specs=m.P("x"))
    ),
    "gradient": lambda m, held: m.jit(
        m.grad(lambda x: m.lax.with_sharding_constraint(x * held, m.NamedSharding(_along(m), m.P("x"))).sum())
    ),
}


@pytest.mark.parametrize("name", ON_A_MESH)
@pytest.mark.parametrize("closed_over", ["first", "third"])
def test_it_runs_on_the_mesh_of_its_program(closed_over: str, name: str) -> None:
    def results(m: Any) -> list[Any]:
        f = ON_A_MESH[name](m, put(m, closed_over))
        args = () if name == "without arguments" else (X,)
        return [f(*args), f(*args), f.lower(*args).compile()(*args)]

    for ours, theirs in zip(results(tj), results(jax), strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6)
        assert spelled(ours.sharding) == spelled(theirs.sharding)


@pytest.mark.parametrize("closed_over", ["first", "third"])
def test_it_runs_on_the_mesh_in_force(closed_over: str) -> None:
    def results(m: Any) -> list[Any]:
        held = put(m, closed_over)
        with m.set_mesh(_along(m)):
            f = m.jit(lambda x: x * held)
            return [f(X), f(X)]

    for ours, theirs in zip(results(tj), results(jax), strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6)
        assert spelled(ours.sharding) == spelled(theirs.sharding)


def test_shard_map_that_is_not_compiled_takes_it_along() -> None:
    """In JAX a ValueError, though arguments that are elsewhere are moved."""
    held = put(tj, "third")
    f = tj.shard_map(lambda x: x + held[:2], mesh=_along(tj), in_specs=tj.P("x"), out_specs=tj.P("x"))
    np.testing.assert_allclose(np.asarray(f(X)), X + np.tile(X[:2], 4))


def test_messages_say_that_it_is_closed_over() -> None:
    held = put(tj, "third")
    jaxpr = tj.make_jaxpr(lambda x: tj.lax.with_sharding_constraint(x + held, tj.NamedSharding(_along(tj), tj.P("x"))))
    program = jaxpr(X).jaxpr
    with pytest.raises(ShardingError, match="an array that 'f' closes over is on cpu:2"):
        execute(program, [x.value for x in (held, as_array(X)) if isinstance(x, ConcreteArray)], "f")
