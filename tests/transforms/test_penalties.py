"""Sums over all weights in a loss: with loops, what is compiled has one size, whatever the depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.test_layered import close

WIDTH: Final = 4
X: Final = np.linspace(-1.0, 1.0, 2 * WIDTH).reshape(2, WIDTH)


def weights(depth: int) -> Any:
    """Of so many layers by name, so that the tenth comes before the second."""
    generator = np.random.default_rng(depth)
    return {
        f"layer_{i}": {
            "kernel": generator.normal(size=(WIDTH, WIDTH)) / WIDTH,
            "bias": generator.normal(size=WIDTH),
            "scale": np.ones(WIDTH),
        }
        for i in range(depth)
    }


def model(layers: Any, x: Any) -> Any:
    for i in range(len(layers)):
        layer = layers[f"layer_{i}"]
        y = (x - tnp.mean(x, -1, keepdims=True)) * layer["scale"]
        x = x + tnp.tanh(y @ layer["kernel"] + layer["bias"])
    return x


def squares(layers: Any) -> Any:
    return sum(tnp.sum(w**2) for w in tj.tree.leaves(layers))


def halves(layers: Any) -> Any:
    return 0.5 * sum(tnp.sum(tnp.square(w)) for w in tj.tree.leaves(layers))


def kernels(layers: Any) -> Any:
    return sum(tnp.sum(layer["kernel"] ** 2) for layer in layers.values())


def means(layers: Any) -> Any:
    return sum((w**2).mean() for w in tj.tree.leaves(layers) if w.ndim > 1)


def products(layers: Any) -> Any:
    return sum(tnp.vdot(w, w) for w in tj.tree.leaves(layers))


def magnitudes(layers: Any) -> Any:
    return sum(tnp.sum(tnp.abs(w)) for w in tj.tree.leaves(layers))


def norm(layers: Any) -> Any:
    return tnp.sqrt(squares(layers))


def norms(layers: Any) -> Any:
    return sum(tnp.sqrt(tnp.sum(w**2)) for w in tj.tree.leaves(layers))


def complex_norm(layers: Any) -> Any:
    """As Optax writes it: with imaginary parts, which are zeros."""
    return tnp.sqrt(sum(tnp.sum(w**2 + tnp.zeros_like(w) ** 2) for w in tj.tree.leaves(layers)))


def in_pieces(layers: Any) -> Any:
    """As JAX's stack joins many arrays: 16 by 16."""
    terms = [tnp.sum(w**2).reshape(1) for w in tj.tree.leaves(layers)]
    return tnp.sum(tnp.concatenate([tnp.concatenate(terms[i : i + 16]) for i in range(0, len(terms), 16)]))


PENALTIES: Final = [squares, halves, kernels, means, products, magnitudes, norm, norms, complex_norm, in_pieces]


def step(penalty: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Of gradient descent, with the loss."""

    def loss(layers: Any, x: Any) -> Any:
        return tnp.mean(model(layers, x) ** 2) + 1e-3 * penalty(layers)

    def f(layers: Any, x: Any) -> Any:
        value, gradient = tj.value_and_grad(loss)(layers, x)
        return tj.tree.map(lambda w, g: w - 0.1 * g, layers, gradient), value

    return f


def lines(f: Callable[[Any, Any], Any], depth: int) -> int:
    """How many StableHLO has for the program with loops."""
    return tj.jit(f, reroll=True).lower(weights(depth), X).as_text().count("\n")


@pytest.mark.parametrize("penalty", PENALTIES)
def test_what_is_compiled_has_one_size(penalty: Callable[[Any], Any]) -> None:
    f = step(penalty)
    assert lines(f, 12) == lines(f, 24)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_steps_compute_the_same(penalty: Callable[[Any], Any]) -> None:
    f, layers = step(penalty), weights(12)
    close(tj.jit(f, reroll=True)(layers, X), f(layers, X))


@pytest.mark.parametrize("penalty", [squares, norm])
def test_a_loss_by_itself(penalty: Callable[[Any], Any]) -> None:
    """Without a gradient, squares are computed in the layers too."""

    def loss(layers: Any, x: Any) -> Any:
        return tnp.mean(model(layers, x) ** 2) + penalty(layers)

    layers = weights(24)
    assert lines(loss, 24) == lines(loss, 12)
    close(tj.jit(loss, reroll=True)(layers, X), loss(layers, X))
