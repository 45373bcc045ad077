"""Weights that layers in a row share: with loops, what is compiled has one size, whatever the depth."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.test_layered import close

WIDTH: Final = 4
X: Final = np.linspace(-1.0, 1.0, 2 * WIDTH).reshape(2, WIDTH)


def weights(count: int) -> Any:
    generator = np.random.default_rng(count)
    return {
        f"layer_{i}": (generator.normal(size=(WIDTH, WIDTH)) / WIDTH, generator.normal(size=WIDTH))
        for i in range(count)
    }


def step(each: int, before: bool, layers: Any, x: Any) -> Any:
    """Of gradient descent. The model has weights for so many layers each, after a layer of its own perhaps, so that
    what shares weights begins at the second one."""

    def loss(layers: Any) -> Any:
        y = x
        if before:
            w, b = layers["layer_0"]
            y = y + tnp.tanh(y @ w + b)
        for i in range(int(before), len(layers)):
            w, b = layers[f"layer_{i}"]
            for _ in range(each):
                y = y + tnp.tanh(y @ w + b)
        return tnp.mean(y * y)

    value, gradient = tj.value_and_grad(loss)(layers)
    return tj.tree.map(lambda w, g: w - 0.1 * g, layers, gradient), value


@pytest.mark.parametrize("each", [2, 3])
@pytest.mark.parametrize("before", [False, True])
def test_what_is_compiled_has_one_size(each: int, before: bool) -> None:
    def lines(count: int) -> int:
        jitted = tj.jit(step, static_argnums=(0, 1), reroll=True)
        return jitted.lower(each, before, weights(count), X).as_text().count("\n")

    assert lines(12) == lines(18)


@pytest.mark.parametrize("each", [2, 3])
@pytest.mark.parametrize("before", [False, True])
def test_steps_compute_the_same(each: int, before: bool) -> None:
    layers = weights(12)
    found = tj.jit(step, static_argnums=(0, 1), reroll=True)(each, before, layers, X)
    close(found, step(each, before, layers, X))
