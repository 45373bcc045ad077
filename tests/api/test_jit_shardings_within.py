"""Functions of `jit` with shardings, within other transformations: the same values as without, lying as it was said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import NamedSharding, P
from tinyjax.errors import LoweringError
from tinyjax.meshes import Mesh

MESH = Mesh(np.array(tj.devices("cpu"), object).reshape(4, 2), ("x", "y"))
W = np.linspace(-1.0, 1.0, 12).reshape(6, 2)
X = np.arange(48.0).reshape(8, 6) / 10


def on(*parts: str | tuple[str, ...] | None) -> NamedSharding:
    return NamedSharding(MESH, P(*parts))


def layer(w: Any, x: Any) -> Any:
    return tnp.tanh(x @ w)


LAID_OUT = tj.jit(layer, in_shardings=(on(None, "y"), on("x")), out_shardings=on("x", "y"))
SPELLED_OUT = tj.jit(layer, in_shardings=(on(None, "y"), on("x")), out_shardings=on("x", "y"), inline=True)
XS = np.stack([X, X + 1.0])

TRANSFORMED: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "grad": lambda f: lambda: tj.grad(lambda w, x: f(w, x).sum(), (0, 1))(W, X),
    "jvp": lambda f: lambda: tj.jvp(f, (W, X), (W + 1.0, X)),
    "vjp": lambda f: lambda: tj.vjp(f, W, X)[1](tnp.ones((8, 2))),
    "vmap": lambda f: lambda: tj.vmap(f, (None, 0), 1)(W, XS),
    "hessian": lambda f: lambda: tj.hessian(lambda w: f(w, X).sum())(W),
    "linearize": lambda f: lambda: tj.linearize(f, W, X)[1](W, X),
    "jit": lambda f: lambda: tj.jit(lambda w, x: 2.0 * f(w, x))(W, X),
    "jit of grad": lambda f: lambda: tj.jit(tj.grad(lambda w, x: f(w, x).sum()))(W, X),
    "checkpoint": lambda f: lambda: tj.grad(lambda w: tj.checkpoint(f)(w, X).sum())(W),
    "scan": lambda f: lambda: tj.lax.scan(lambda c, x: (c + f(W, x).sum(), f(W, x)), 0.0, XS),
    "cond": lambda f: lambda: tj.jit(lambda b: tj.lax.cond(b, lambda: f(W, X), lambda: f(W, X + 1.0)))(False),
    "traced": lambda f: lambda: tj.jit(f).trace(W, X)(W, X),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("f", [LAID_OUT, SPELLED_OUT], ids=["call", "inline"])
def test_values_are_those_of_the_function(name: str, f: Any) -> None:
    found, expected = (tj.tree.leaves(TRANSFORMED[name](g)()) for g in (f, layer))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-11, atol=1e-11)


def test_the_program_says_how_its_values_lie() -> None:
    text = str(tj.make_jaxpr(LAID_OUT)(W, X))
    assert text.count("sharding_constraint") == 3
    assert "spec=P(None, 'y')" in text
    assert "call[" in text
    assert "call[" not in str(tj.make_jaxpr(SPELLED_OUT)(W, X))
    assert tj.eval_shape(LAID_OUT, W, X) == tj.ShapedArray((8, 2), "f64")
    compiled = tj.jit(lambda w, x: LAID_OUT(w, x) * 2.0).lower(W, X).compile()
    assert compiled.output_shardings.is_equivalent_to(on("x", "y"), 2)
    assert tj.grad(lambda w: LAID_OUT(w, X).sum())(W).sharding.is_equivalent_to(on(None, "y"), 2)


def test_a_record_knows_how_its_arguments_lie() -> None:
    traced = LAID_OUT.trace(W, X)
    assert "sharding" not in str(traced)
    assert traced(W, X).sharding.is_equivalent_to(on("x", "y"), 2)
    compiled = traced.lower().compile()
    assert compiled.input_shardings[0] == (on(None, "y"), on("x"))
    assert compiled.output_shardings == on("x", "y")
    divided = tj.jit(layer).trace(W, tj.device_put(X, on("x"))).lower().compile()
    assert divided.input_shardings[0][1] == on("x")


def test_within_shard_map() -> None:
    whole = tj.jit(lambda x: x * 2.0, in_shardings=on(), out_shardings=on())
    along_y = tj.jit(lambda x: x * 2.0, in_shardings=on("y"), out_shardings=on("y"))
    along_x = tj.jit(lambda x: x * 2.0, in_shardings=on("x"))
    every = tj.shard_map(whole, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    partly = tj.shard_map(along_y, mesh=MESH, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    for f in (every, tj.jit(every), partly, tj.jit(partly)):
        np.testing.assert_array_equal(np.asarray(f(X)), X * 2.0)
    assert tj.jit(partly)(X).sharding.is_equivalent_to(on(("x", "y")), 2)
    with pytest.raises(LoweringError, match="of the enclosing shard_map has its own part already"):
        tj.jit(tj.shard_map(along_x, mesh=MESH, in_specs=P("x"), out_specs=P("x")))(np.ones((16, 2)))
