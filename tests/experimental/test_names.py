"""Names of `jax.experimental` and `jax.errors` that other modules define: programs that import them there run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import errors
from tinyjax.experimental.jet import jet
from tinyjax.experimental.shard_map import shard_map


def test_shard_map_with_arguments_by_position() -> None:
    mesh = tj.sharding.AbstractMesh((2, 2), ("x", "y"))
    x = np.arange(8.0).reshape(4, 2)

    def f(x: Any) -> Any:
        return tj.lax.psum(x, "y")

    new = tj.shard_map(f, mesh=mesh, in_specs=tj.P("x", "y"), out_specs=tj.P("x"))
    np.testing.assert_array_equal(shard_map(f, mesh, tj.P("x", "y"), tj.P("x"))(x), new(x))
    np.testing.assert_array_equal(shard_map(f, mesh=mesh, in_specs=(tj.P("x", "y"),), out_specs=tj.P("x"))(x), new(x))
    same = shard_map(lambda x: x, mesh, tj.P("x"), tj.P(), check_rep=False)
    np.testing.assert_array_equal(same(x), x[:2])
    with pytest.raises(errors.ShardingError, match="shard_map"):
        shard_map(lambda x: x, mesh, tj.P("x"), tj.P())(x)


def test_jet() -> None:
    assert jet is tj.interpreters.jet


def test_errors_by_the_names_of_jax() -> None:
    with pytest.raises(errors.ConcretizationTypeError, match="decide a branch"):
        tj.jit(lambda x: 1 if x > 0 else 2)(1.0)
    kept: list[Any] = []
    tj.jit(kept.append)(1.0)
    with pytest.raises(errors.UnexpectedTracerError, match="Return it from"):
        tnp.sin(kept[0])
    assert issubclass(errors.JaxRuntimeError, RuntimeError)
