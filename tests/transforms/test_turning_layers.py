"""Layers that are of several kinds in nothing but what they read, as flows that treat two halves by turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.test_layered import close
from tests.transforms.test_penalties import lines, weights
from tinyjax.control.scan import Scan

HALF: Final = 2
X: Final = np.linspace(-1.0, 1.0, 4 * HALF).reshape(2, 2 * HALF)


def coupled(layers: Any, x: Any) -> Any:
    """Each layer changes one half by what it makes of the other: its backward pass is the same equations in each."""
    total: Any = 0.0
    for i in range(len(layers)):
        layer = layers[f"layer_{i}"]
        a, b = x[:, :HALF], x[:, HALF:]
        a, b = (b, a) if i % 2 else (a, b)
        inner = tnp.tanh(a @ layer["kernel"][:HALF] + layer["bias"])
        scale = tnp.tanh(inner[:, :HALF] * layer["scale"][:HALF])
        b = b * tnp.exp(scale) + inner[:, HALF:]
        total = total + tnp.sum(scale, -1)
        x = tnp.concatenate([b, a] if i % 2 else [a, b], -1)
    return tnp.mean(0.5 * tnp.sum(x * x, -1) - total)


def in_threes(layers: Any, x: Any) -> Any:
    """What one of three layers reads is what was there two layers before."""
    a, b, c = x, x * 0.5, x * 0.25
    for i in range(len(layers)):
        layer = layers[f"layer_{i}"]
        new = tnp.tanh(a @ layer["kernel"] + layer["bias"]) * b + c * layer["scale"]
        a, b, c = (new, a, b) if i % 3 == 0 else ((b, new, c) if i % 3 == 1 else (c, b, new))
    return tnp.mean(a * b + c)


MODELS: Final = [coupled, in_threes]


def step(model: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda layers, x: tj.tree.map(lambda w, g: w - 0.1 * g, layers, tj.grad(model)(layers, x))


@pytest.mark.sweep
@pytest.mark.parametrize("model", MODELS)
def test_what_is_compiled_has_one_size(model: Callable[[Any, Any], Any]) -> None:
    assert lines(step(model), 36) == lines(step(model), 48)
    assert lines(step(model), 144) == lines(step(model), 192) <= lines(step(model), 48)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("depth", [12, 13])
def test_results_are_the_same(model: Callable[[Any, Any], Any], depth: int) -> None:
    layers, f = weights(depth), step(model)
    close(tj.jit(f, reroll=True)(layers, X), f(layers, X))


def test_updates_begin_where_their_rows_do() -> None:
    """Weights of the layers that the loop leaves out come before the others: nothing is joined for them."""

    def loss(layers: Any, x: Any) -> Any:
        total: Any = tnp.zeros(len(x))
        for i, layer in enumerate(layers):
            a, b = (x[:, HALF:], x[:, :HALF]) if i % 2 else (x[:, :HALF], x[:, HALF:])
            scale = tnp.tanh(a @ layer["s"] + layer["b"])
            b = b * tnp.exp(scale) + a @ layer["t"]
            total = total + tnp.sum(scale, -1)
            x = tnp.concatenate([b, a] if i % 2 else [a, b], -1)
        return tnp.mean(tnp.sum(x * x, -1) - total)

    rng = np.random.default_rng(0)
    shapes = {"s": (HALF, HALF), "t": (HALF, HALF), "b": (HALF,)}
    layers = [{key: 0.2 * rng.normal(size=shape) for key, shape in shapes.items()} for _ in range(192)]
    program = tj.jit(step(loss), reroll=True).trace(layers, X)
    loops = [eqn.primitive for eqn in program.eqns if isinstance(eqn.primitive, Scan)]
    assert [(loop.length, loop.reverse) for loop in loops] == [(95, False), (95, True)]
    assert all(eqn.primitive.name != "unstack" or eqn.invars[0].aval.shape[0] == 95 for eqn in program.eqns)
