"""Refs as arguments of `shard_map`: each device has its part of what they hold, before and after."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import P, lax
from tinyjax.errors import RefError, VaryingError
from tinyjax.sharding import AbstractMesh

X = np.arange(8.0, dtype="float32")
MESH = AbstractMesh((4,), ("x",))


def added(m: Any, inferred: bool, jitted: bool) -> tuple[Any, Any, str]:  # Any: modules and arrays of two libraries
    """What the function gives, what the Ref holds then, and how that lies."""
    mesh = m.make_mesh((4, 2), ("x", "y"), (m.sharding.AxisType.Explicit,) * 2, devices=m.devices("cpu")[:8])

    def f(held: Any, x: Any) -> Any:
        held[...] = held[...] * x + m.lax.axis_index("x").astype("float32")
        return m.lax.psum(held[...].sum(), "x")

    with m.set_mesh(mesh):
        held, x = m.new_ref(m.device_put(X, m.P("x"))), m.device_put(X, m.P("x"))
        specs = {} if inferred else {"in_specs": (m.P("x"), m.P("x"))}
        mapped = m.shard_map(f, out_specs=m.P(), **specs)
        value = (m.jit(mapped) if jitted else mapped)(held, x)
        return np.asarray(value), np.asarray(held[...]), str(held[...].sharding.spec.partitions)


@pytest.mark.parametrize("inferred", [False, True])
def test_each_device_has_its_part(inferred: bool) -> None:
    expected = added(jax, inferred, True)  # what isn't jitted is an AssertionError there
    for jitted in (True, False):
        for own, other in zip(added(tj, inferred, jitted), expected, strict=True):
            np.testing.assert_array_equal(own, other)


def test_on_the_host_without_devices() -> None:
    held = tj.new_ref(X)

    def f(held: tj.Ref, x: tj.Array) -> tj.Array:
        held[...] = lax.ppermute(held[...], "x", [(i, (i + 1) % 4) for i in range(4)])
        return held[...] * x

    found = tj.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(held, tnp.asarray(X))
    np.testing.assert_array_equal(held[...], np.roll(X, 2))
    np.testing.assert_array_equal(found, np.roll(X, 2) * X)


def test_derivatives_go_through_them() -> None:
    def loss(x: tj.Array) -> tj.Array:
        held = tj.new_ref(x * 1.0)
        write = tj.shard_map(
            lambda held, x: held.store(held[...] * tnp.sin(x)), mesh=MESH, in_specs=P("x"), out_specs=None
        )
        write(held, x)
        return held[...].sum()

    x = tnp.asarray(X.astype("float64"))
    expected = np.sin(x) + x * np.cos(x)
    np.testing.assert_allclose(tj.grad(loss)(x), expected)
    np.testing.assert_allclose(tj.jit(tj.grad(loss))(x), expected)
    np.testing.assert_allclose(tj.vmap(tj.grad(loss))(tnp.stack([x, x])), np.stack([expected, expected]))


def test_one_that_is_not_divided_holds_what_all_devices_have() -> None:
    held = tj.new_ref(X)
    mapped = tj.shard_map(
        lambda held, x: held.store(held[...] + lax.psum(x.sum(), "x")),
        mesh=MESH,
        in_specs=(P(), P("x")),
        out_specs=None,
    )
    mapped(held, X)
    np.testing.assert_array_equal(held[...], X + X.sum())
    with pytest.raises(VaryingError, match="varies along axis 'x'"):
        tj.shard_map(
            lambda held, x: held.store(held[...] + x.sum()), mesh=MESH, in_specs=(P(), P("x")), out_specs=None
        )(held, X)
    with pytest.raises(RefError, match="one Ref"):
        tj.shard_map(lambda a, b: None, mesh=MESH, in_specs=P("x"), out_specs=None)(held, held)


def test_as_it_is() -> None:
    """With None in the place of a specification the function gets the Ref, as if it closed over it: to be read."""
    held = tj.new_ref(np.full((), 2.0, "float32"))
    mapped = tj.shard_map(
        lambda held, x: held[...] * lax.psum(x.sum(), "x"), mesh=MESH, in_specs=(None, P("x")), out_specs=P()
    )
    assert float(mapped(held, X)) == 2.0 * X.sum()
    with pytest.raises(RefError, match="made outside"):
        tj.shard_map(lambda held, x: held.store(x.sum()), mesh=MESH, in_specs=(None, P("x")), out_specs=None)(held, X)
