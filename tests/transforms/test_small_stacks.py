"""Layers that each take rows of a small array of their own: with loops, what is compiled has one size."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.test_layered import close

WIDTH: Final = 4
X: Final = np.linspace(-1.0, 1.0, 3 * WIDTH).reshape(3, WIDTH)


def weights(count: int) -> Any:
    generator = np.random.default_rng(count)
    return [
        {"taps": generator.normal(size=(3, WIDTH)), "out": generator.normal(size=(WIDTH, WIDTH)) / WIDTH}
        for _ in range(count)
    ]


def step(layers: Any, x: Any) -> Any:
    """A convolution of each channel by itself, written as a sum, as before the scan of a state-space model."""

    def loss(layers: Any) -> Any:
        y = x
        for layer in layers:
            taps = layer["taps"]
            z = sum((tnp.tanh(y + i) * taps[i] for i in range(3)), tnp.zeros_like(y))
            y = y + tnp.tanh(z * taps[1]) @ layer["out"]
        return tnp.mean(y * y)

    return tj.value_and_grad(loss)(layers)


def test_rows_of_arrays_of_each_layer() -> None:
    lines = []
    for count in (12, 24):
        compiled = tj.jit(step, reroll=True).lower(weights(count), X)
        lines.append(compiled.as_text().count("\n"))
    assert lines[0] == lines[1]
    close(tj.jit(step, reroll=True)(weights(12), X), step(weights(12), X))
