"""Layers that convert their weights, that are skipped by a condition: with loops, what is compiled has one size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.test_layered import close
from tests.transforms.test_penalties import X, lines, weights
from tinyjax import lax


def adam(gradient: Any, layers: Any) -> Any:
    """The first step, with a decay of weights."""
    moments = tj.tree.map(lambda g: (0.1 * g, 0.001 * g * g), gradient)
    return tj.tree.map(lambda w, m: w - 1e-3 * (m[0] / (tnp.sqrt(m[1]) + 1e-8) + 0.01 * w), layers, moments), moments


def converted(layers: Any, x: Any) -> Any:
    """All weights at once, before the model, whose names are in another order."""
    layers = tj.tree.map(lambda w: tnp.astype(tnp.asarray(w), tnp.float32), layers)
    x = tnp.astype(tnp.asarray(x), tnp.float32)
    for i in range(len(layers)):
        layer = layers[f"layer_{i}"]
        x = x + tnp.tanh((x * layer["scale"]) @ layer["kernel"] + layer["bias"])
    return tnp.astype(tnp.mean(x**2), tnp.float64)


def skipped(layers: Any, x: Any) -> Any:
    def apply(x: Any, layer: Any) -> Any:
        return x + tnp.tanh((x * layer["scale"]) @ layer["kernel"] + layer["bias"])

    for i in range(len(layers)):
        x = lax.cond(x[0, 0] > 0.1 * (i % 3), apply, lambda x, layer: x, x, layers[f"layer_{i}"])
    return tnp.mean(x**2)


MODELS: Final = [converted, skipped]


def step(model: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def f(layers: Any, x: Any) -> Any:
        value, gradient = tj.value_and_grad(model)(layers, x)
        return adam(gradient, layers), value

    return f


@pytest.mark.parametrize("model", MODELS)
def test_what_is_compiled_has_one_size(model: Callable[[Any, Any], Any]) -> None:
    f = step(model)
    assert lines(f, 24) == lines(f, 48)


@pytest.mark.sweep
@pytest.mark.parametrize("model", MODELS)
def test_gradients_are_the_same(model: Callable[[Any, Any], Any]) -> None:
    layers, f = weights(12), tj.value_and_grad(model)
    tolerance = 1e-5 if model is converted else 1e-12
    for a, b in zip(tj.tree.leaves(tj.jit(f, reroll=True)(layers, X)), tj.tree.leaves(f(layers, X)), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    close(tj.jit(step(skipped), reroll=True)(layers, X)[1], step(skipped)(layers, X)[1])


def in_turn(layers: Any, x: Any) -> Any:
    """Two kinds of layers, whose weights have the same types."""
    for i in range(len(layers)):
        layer = layers[f"layer_{i}"]
        inner = (x * layer["scale"]) @ layer["kernel"] + layer["bias"]
        x = x + (tnp.tanh(inner) if i % 2 else tnp.sin(inner) * 0.5)
    return tnp.mean(x**2)


def clipped_each(layers: Any, x: Any) -> Any:
    """The mean of the gradients of examples, each no longer than one."""

    def one(x: Any) -> Any:
        gradient = tj.grad(in_turn)(layers, x[None])
        norm = tnp.sqrt(sum(tnp.sum(g * g) for g in tj.tree.leaves(gradient)))
        return tj.tree.map(lambda g: g / tnp.maximum(1.0, norm), gradient)

    return tj.tree.map(lambda g: tnp.mean(g, 0), tj.vmap(one)(x))


@pytest.mark.sweep
def test_gradients_of_examples_with_kinds_in_turn() -> None:
    """What loops over kinds stack is taken in turn, and norms of a batch are added at once."""
    assert lines(clipped_each, 96) < 1.2 * lines(
        clipped_each, 48
    )  # layers are in the order of their names: 1, 10, 11 ...
    layers = weights(12)
    close(tj.jit(clipped_each, reroll=True)(layers, X), clipped_each(layers, X))
