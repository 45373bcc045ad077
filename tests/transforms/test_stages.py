"""Nets in a few stages of many equal layers, with something else between them: a loop for each stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.test_kinds_of_layers import adam
from tests.transforms.test_layered import close
from tests.transforms.test_penalties import WIDTH, X, lines, weights
from tinyjax import transforms
from tinyjax.transforms.inline import inline, once_or_small

IMAGES: Final = np.linspace(-1.0, 1.0, 2 * 8 * WIDTH).reshape(2, 8, WIDTH)
STAGES: Final = 3


def layer(p: Any, x: Any) -> Any:
    y = (x - tnp.mean(x, -1, keepdims=True)) * p["scale"]
    y = tnp.sin(y @ p["kernel"] + p["bias"])
    return x + tnp.tanh(y @ p["kernel"].T)


def stages(layers: Any, x: Any, between: Callable[[Any, Any], Any]) -> Any:
    """The last layer of each stage is another one."""
    n = len(layers) // STAGES
    for i in range(len(layers)):
        p = layers[f"layer_{i}"]
        x = layer(p, x) if (i + 1) % n else between(p, x)
    return tnp.mean(x**2)


def level(layers: Any, x: Any) -> Any:
    """Values of all stages have one shape."""
    return stages(layers, x, lambda p, x: tnp.cos(x @ p["kernel"]) * p["bias"])


def pooled(layers: Any, x: Any) -> Any:
    """Values become shorter, and weights don't: their gradients have one shape."""
    return stages(layers, IMAGES + x[:, None], lambda p, x: (x[:, ::2] + x[:, 1::2]) @ p["kernel"])


def descent(gradient: Any, layers: Any) -> Any:
    return tj.tree.map(lambda w, g: w - 0.1 * g, layers, gradient)


def clipped(gradient: Any, layers: Any) -> Any:
    norm = tnp.sqrt(sum(tnp.sum(g * g) for g in tj.tree.leaves(gradient)))
    return adam(tj.tree.map(lambda g: g / tnp.maximum(1.0, norm), gradient), layers)


def step(model: Callable[[Any, Any], Any], update: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda layers, x: update(tj.grad(model)(layers, x), layers)


UPDATES: Final = [descent, adam, clipped]


@pytest.mark.sweep
@pytest.mark.parametrize("model", [level, pooled])
@pytest.mark.parametrize("update", UPDATES)
def test_what_is_compiled_has_one_size(model: Callable[[Any, Any], Any], update: Callable[[Any, Any], Any]) -> None:
    assert lines(step(model, update), 48) == lines(step(model, update), 96)


@pytest.mark.sweep
@pytest.mark.parametrize("model", [level, pooled])
@pytest.mark.parametrize("update", UPDATES)
def test_results_are_the_same(model: Callable[[Any, Any], Any], update: Callable[[Any, Any], Any]) -> None:
    layers, f = weights(39), step(model, update)
    close(tj.jit(f, reroll=True)(layers, X), f(layers, X))


def counts(f: Callable[[Any, Any], Any], depth: int) -> list[int]:
    """Of how many blocks the loops are that are found in the whole program and within loops."""
    program = tj.make_jaxpr(f)(weights(depth), X).jaxpr
    found = transforms.repeats(inline(program, once_or_small(program, 8)), at_least=40, bordered=True)
    return [each.count for each in found.found]


def test_each_of_a_few_stages_has_a_loop() -> None:
    assert counts(level, 60) == [19, 19, 19]


def test_many_stages_of_a_few_layers_are_one_loop() -> None:
    """In which there may be others."""

    def f(layers: Any, x: Any) -> Any:
        for i in range(len(layers)):
            p = layers[f"layer_{i}"]
            for _ in range(5):
                x = layer(p, x)
            x = tnp.cos(x)
        return x

    assert max(counts(f, 16)) == 16
