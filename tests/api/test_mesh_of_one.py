"""Arrays on a mesh of one device lie on it, and so does what is computed of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import NamedSharding, P
from tinyjax.sharding import AxisType, SingleDeviceSharding

#: What both libraries do to an array `x` of the library `m`.
CASES: dict[str, Callable[[Any, Any], Any]] = {  # Any: modules and arrays of two libraries
    "as it is": lambda m, x: x,
    "sin": lambda m, x: m.numpy.sin(x),
    "twice": lambda m, x: m.numpy.cos(m.numpy.sin(x)),
    "with a number": lambda m, x: x * 2.0 + 1,
    "with an array of the host": lambda m, x: x + np.arange(8.0),
    "with an array that nothing has put": lambda m, x: x + m.numpy.ones(8),
    "with an array of the device": lambda m, x: x + m.device_put(np.arange(8.0), m.devices("cpu")[0]),
    "sum": lambda m, x: x.sum(),
    "rows": lambda m, x: x[2:6],
    "an element": lambda m, x: x[3],
    "joined": lambda m, x: m.numpy.concatenate([x, x]),
    "jit": lambda m, x: m.jit(lambda x: m.numpy.sin(x) * 2)(x),
    "jit of what is returned": lambda m, x: m.jit(lambda x: x)(x),
    "grad": lambda m, x: m.grad(lambda x: m.numpy.sin(x).sum())(x),
    "vmap": lambda m, x: m.vmap(m.numpy.sin)(x),
    "zeros_like": lambda m, x: m.numpy.zeros_like(x),
    "astype": lambda m, x: x.astype("float32"),
    "copy": lambda m, x: x.copy(),
    "device_put": lambda m, x: m.device_put(x),
    "device_put to the device": lambda m, x: m.device_put(x, m.devices("cpu")[0]),
    "its part": lambda m, x: x.addressable_shards[0].data,
}


def both(axis_type: str) -> tuple[Any, Any, Any, Any]:
    """An array of jax's and one of ours on a mesh of one device, and how they lie."""
    mesh = tj.make_mesh((1,), ("x",), (AxisType[axis_type],), devices=tj.devices("cpu")[:1])
    theirs = jax.make_mesh((1,), ("x",), (jax.sharding.AxisType[axis_type],), devices=jax.devices("cpu")[:1])
    ours, its = NamedSharding(mesh, P("x")), jax.sharding.NamedSharding(theirs, jax.P("x"))
    return tj.device_put(np.arange(8.0), ours), jax.device_put(np.arange(8.0), its), ours, its


def spelled(sharding: object) -> object:
    """A specification without parts that say nothing; None for a single device."""
    spec = getattr(sharding, "spec", None)
    if spec is None:
        return None
    parts = list(spec)
    while parts and parts[-1] is None:
        parts.pop()
    return parts


@pytest.mark.parametrize("axis_type", ["Auto", "Explicit"])
@pytest.mark.parametrize("case", CASES)
def test_results_lie_as_in_jax(case: str, axis_type: str) -> None:
    x, y, _, _ = both(axis_type)
    with jax.enable_x64(True):
        expected = CASES[case](jax, y)
    for _ in range(3):  # the long way, then what it has prepared
        found = CASES[case](tj, x)
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-6)
        assert spelled(found.sharding) == spelled(expected.sharding)
        assert found.committed == expected.committed
        assert found.device == (found.sharding if spelled(found.sharding) is not None else tj.devices("cpu")[0])


@pytest.mark.parametrize("axis_type", ["Auto", "Explicit"])
def test_what_out_shardings_say_is_kept(axis_type: str) -> None:
    _, _, ours, _ = both(axis_type)
    double = tj.jit(lambda x: x * 2, out_shardings=ours)
    for x in (np.arange(8.0), tj.device_put(np.arange(8.0)), tj.device_put(np.arange(8.0), ours)):
        for _ in range(3):
            assert double(x).sharding == ours
            assert tj.numpy.sin(double(x)).sharding == ours
    plain = SingleDeviceSharding(tj.devices("cpu")[0])
    assert tj.jit(lambda x: x * 2, out_shardings=plain)(double(np.arange(8.0))).sharding == plain


def test_functions_are_compiled_for_the_device_and_for_the_mesh() -> None:
    x, _, ours, _ = both("Auto")
    y = tj.device_put(np.arange(8.0))
    f = tj.jit(lambda x: x * 2 + 1)
    for _ in range(3):
        assert f(x).sharding == ours
        assert isinstance(f(y).sharding, SingleDeviceSharding)
        assert f(f(x)).sharding == ours
        assert (x + 1).sharding == ours
        assert isinstance((y + 1).sharding, SingleDeviceSharding)
        assert (x + y).sharding == ours


def test_they_can_be_given_up() -> None:
    x, _, ours, _ = both("Auto")
    step = tj.jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(4):
        y = step(x)
        assert x.is_deleted()
        assert y.sharding == ours
        x = y
    tj.block_until_ready([x])
    np.testing.assert_array_equal(np.asarray(x), np.arange(8.0) + 4)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        x + 1


def _doubled(x: Any) -> Any:
    return 2.0 * np.asarray(x)


#: Calls of the host, with the module, an array, and where what was seen is kept.
CALLS: dict[str, Callable[[Any, Any, list[Any]], Any]] = {
    "pure": lambda m, x, seen: m.pure_callback(_doubled, x, x),
    "pure within": lambda m, x, seen: m.jit(lambda y: m.pure_callback(_doubled, y, y) + 1.0)(x),
    "mapped": lambda m, x, seen: m.vmap(lambda y: m.pure_callback(_doubled, y, y, vmap_method="sequential"))(x),
    "in order": lambda m, x, seen: (_io(m)(seen.append, None, x, ordered=True), x)[1],
    "in any order": lambda m, x, seen: (_io(m)(seen.append, None, x), x)[1],
    "debug": lambda m, x, seen: (m.debug.callback(seen.append, x), m.lax.psum(x, "x"))[1],
    "where": lambda m, x, seen: (m.debug.callback(seen.append, m.lax.axis_index("x")), x)[1],
}


def _io(m: Any) -> Any:
    return jax.experimental.io_callback if m is jax else tj.experimental.io_callback


@pytest.mark.parametrize("axis_type", ["Auto", "Explicit"])
@pytest.mark.parametrize("name", CALLS)
def test_calls_of_the_host(name: str, axis_type: str) -> None:
    """Nothing is divided, so XLA has nothing to take apart around them."""
    ours, theirs, sharding, its = both(axis_type)
    found = []
    for m, x, lies in ((jax, theirs, its), (tj, ours, sharding)):
        seen: list[Any] = []
        spec = (jax if m is jax else tj).P("x")
        f = m.jit(
            m.shard_map(
                lambda x, m=m, seen=seen: CALLS[name](m, x, seen), mesh=lies.mesh, in_specs=spec, out_specs=spec
            )
        )
        result = np.asarray(f(x))
        m.effects_barrier()
        found.append((result.tolist(), [np.asarray(value).tolist() for value in seen]))
    assert found[0] == found[1]
