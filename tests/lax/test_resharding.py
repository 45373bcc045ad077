"""How arrays lie on a mesh, said within functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import ir, lax
from tinyjax.errors import ShardingError
from tinyjax.sharding import AbstractMesh, NamedSharding, SingleDeviceSharding
from tinyjax.sharding import PartitionSpec as P

X = np.arange(32.0).reshape(8, 4)
MESH = tj.make_mesh((4, 2), ("x", "y"))
LIES = NamedSharding(MESH, P("x", "y"))


def test_results_lie_as_is_said() -> None:
    f = tj.jit(lambda x: lax.with_sharding_constraint(tj.numpy.sin(x), LIES))
    found = f(X)
    assert found.sharding.is_equivalent_to(LIES, 2)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(tj.jit(tj.numpy.sin)(X)))
    assert lax.with_sharding_constraint(X, LIES).sharding.is_equivalent_to(LIES, 2)


def test_derivatives_and_batches() -> None:
    def f(x: Any) -> Any:
        return (tj.reshard(x * x, LIES) * 2.0).sum()

    for grad in (tj.grad(f), tj.jit(tj.grad(f))):
        np.testing.assert_array_equal(np.asarray(grad(X)), 4 * X)
    np.testing.assert_array_equal(np.asarray(tj.vmap(tj.jit(f))(np.stack([X, X]))), [float(f(X))] * 2)
    (eqn,) = [e for e in tj.make_jaxpr(tj.vmap(f))(np.stack([X, X])).eqns if e.primitive.name == "sharding_constraint"]
    assert "P(P.UNCONSTRAINED, 'x', 'y')" in str(eqn)


def test_programs_hold_no_devices() -> None:
    program = tj.make_jaxpr(lambda x: lax.with_sharding_constraint({"a": x}, {"a": LIES})["a"])(X)
    assert ir.parse(str(program.jaxpr)) == program.jaxpr
    other = NamedSharding(AbstractMesh((4, 2), ("x", "y")), P("x", "y"))
    assert program == tj.make_jaxpr(lambda x: lax.with_sharding_constraint(x, other))(X)


def test_errors() -> None:
    with pytest.raises(ShardingError, match=r"x\['a'\]"):
        lax.with_sharding_constraint({"a": np.ones((6, 4))}, LIES)
    with pytest.raises(ShardingError, match="2 parts"):
        lax.with_sharding_constraint(np.ones(8), LIES)
    with pytest.raises(ShardingError, match="of which mesh"):
        lax.with_sharding_constraint(X, P("x"))


def test_none_is_replicated_where_a_mesh_is_in_force() -> None:
    x = tj.device_put(X, LIES)
    with tj.set_mesh(MESH):
        for f in (lax.with_sharding_constraint, tj.jit(lax.with_sharding_constraint, static_argnums=1)):
            assert f(x, None).sharding.is_fully_replicated
        found = tj.jit(lambda x: lax.with_sharding_constraint((x, x), (P("x"), None)))(x)
        assert [y.sharding.is_fully_replicated for y in found] == [False, True]
        assert not tj.jit(lambda x: x * 2.0, out_shardings=None)(x).sharding.is_fully_replicated  # as XLA likes
    with pytest.raises(ShardingError, match="on the mesh in force, and there is none"):
        lax.with_sharding_constraint(x, None)


def test_one_device() -> None:
    single = SingleDeviceSharding(tj.devices("cpu")[1])
    assert lax.with_sharding_constraint(X, single).sharding == single
    with pytest.raises(ShardingError, match=r"programs know of no devices.*in_shardings"):
        tj.jit(lambda x: lax.with_sharding_constraint(x, single))(X)
    for ins, outs in ((None, single), (single, None), (single, single)):
        for _ in range(2):
            assert tj.jit(lambda x: x * 2.0, in_shardings=ins, out_shardings=outs)(X).sharding == single
    one = NamedSharding(tj.make_mesh((1,), "x", devices=[single.device]), P())
    assert tj.jit(lambda x: x * 2.0, in_shardings=one)(X).sharding == one.padded(X.ndim)
    found = tj.jit(lambda x: (x, x * 2.0), out_shardings=(one, single))(X)
    assert [y.sharding for y in found] == [one, single]


def test_device_put_within_a_function() -> None:
    f = tj.jit(lambda x: tj.device_put(tj.numpy.sin(x), LIES))
    assert f(X).sharding.is_equivalent_to(LIES, 2)
    with tj.set_mesh(MESH):
        assert tj.jit(lambda x: tj.device_put(x, P("x")))(X).sharding == NamedSharding(MESH, P("x", None))
    np.testing.assert_array_equal(np.asarray(tj.grad(lambda x: (tj.device_put(x, LIES) ** 2).sum())(X)), 2 * X)
    np.testing.assert_array_equal(np.asarray(tj.jit(lambda x: tj.device_put(x, tj.devices("cpu")[0]))(X)), X)
