"""`name` and `optimization_barrier`: identities in every transformation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.matching import assert_matches
from tinyjax import Array, ir
from tinyjax.primitives.annotations import Name

IDENTITIES: dict[str, Callable[[Any], Any]] = {
    "name": lambda tree: tj.checkpoint_name(tree, "label"),
    "optimization_barrier": tj.lax.optimization_barrier,
}


@pytest.mark.parametrize("identity", IDENTITIES.values(), ids=IDENTITIES)
def test_identity(identity: Callable[[Any], Any]) -> None:
    def f(tree: Any) -> Any:
        out = identity(tree)
        return {"x": tnp.sin(out["x"]), "n": out["n"]}

    def g(tree: Any) -> Any:
        return {"x": jax.numpy.sin(tree["x"]), "n": tree["n"]}

    point: dict[str, Any] = {"x": np.arange(3.0, dtype=np.float32), "n": np.arange(3)}
    tangent: dict[str, Any] = {"x": np.ones(3, np.float32), "n": np.zeros(3, jax.dtypes.float0)}

    def only(ours: Callable[..., Any], x: Array) -> Array:
        result: Array = ours({"x": x, "n": point["n"]})["x"]
        return result

    for ours in (f, tj.jit(f), tj.vmap(f)):
        assert_matches(ours(point), g(point))
        assert_matches(tj.jvp(ours, (point,), (tangent,)), jax.jvp(g, (point,), (tangent,)))
        (ct,) = tj.vjp(partial(only, ours), point["x"])[1](np.ones(3, np.float32))
        np.testing.assert_allclose(ct, np.cos(point["x"]), rtol=1e-6)
        ir.typecheck(tj.make_jaxpr(ours)(point))


def test_barrier_of_unmapped_and_constant_operands() -> None:
    def f(x: Any, y: Any) -> Any:
        return tj.lax.optimization_barrier((x, y, 1.0))

    x, y, one = tj.vmap(f, (0, None))(np.arange(3.0), 2.0)
    np.testing.assert_allclose(x, np.arange(3.0))
    np.testing.assert_allclose(y, np.full(3, 2.0))
    np.testing.assert_allclose(one, np.ones(3))
    np.testing.assert_allclose(tj.grad(lambda x: f(x, 2.0)[0] * f(3.0, x)[1])(5.0), 10.0)
    assert tj.lax.optimization_barrier(()) == ()


def test_lowering() -> None:
    text = tj.jit(lambda x, y: tj.lax.optimization_barrier((x, y))).lower(1.0, 2).as_text()
    assert "%0:2 = stablehlo.optimization_barrier %arg0, %arg1 : tensor<f64>, tensor<i64>" in text
    assert "name" not in tj.jit(lambda x: tj.checkpoint_name(x, "label")).lower(1.0).as_text()


def test_the_name_stays_with_the_value() -> None:
    closed = tj.make_jaxpr(lambda x: tj.jvp(IDENTITIES["name"], (x,), (x,)))(1.0)
    assert [eqn.primitive for eqn in closed.eqns] == [Name("label")]
