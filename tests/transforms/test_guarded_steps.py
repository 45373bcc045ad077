"""Steps that are taken only if all gradients are finite: with loops, what is compiled has one size at any depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.test_layered import close
from tests.transforms.test_penalties import X, lines, model, weights
from tinyjax import lax


def gradient_of(layers: Any, x: Any, scale: Any = 1.0) -> Any:
    return tj.grad(lambda layers: tnp.mean(model(layers, x) ** 2) * scale)(layers)


def descent(layers: Any, gradient: Any) -> Any:
    return tj.tree.map(lambda w, g: w - 0.1 * g, layers, gradient)


def chosen(layers: Any, x: Any) -> Any:
    """Of old and new weights, tensor by tensor."""
    gradient = gradient_of(layers, x)
    good = tnp.all(tnp.stack([tnp.all(tnp.isfinite(g)) for g in tj.tree.leaves(gradient)]))
    return tj.tree.map(lambda w, new: tnp.where(good, new, w), layers, descent(layers, gradient)), good


def conditional(layers: Any, x: Any) -> Any:
    """On whether all are finite, as one array of booleans says."""
    gradient = gradient_of(layers, x)
    good = tnp.all(tnp.array([tnp.all(tnp.isfinite(g)) for g in tj.tree.leaves(gradient)]))
    return lax.cond(good, descent, lambda layers, gradient: layers, layers, gradient), good


def in_pieces(layers: Any, x: Any) -> Any:
    """As JAX's `array` puts many scalars together: 16 by 16."""
    gradient = gradient_of(layers, x)
    each = [tnp.all(tnp.isfinite(g)).reshape(1) for g in tj.tree.leaves(gradient)]
    good = tnp.all(tnp.concatenate([tnp.concatenate(each[i : i + 16]) for i in range(0, len(each), 16)]))
    return lax.cond(good, descent, lambda layers, gradient: layers, layers, gradient), good


def scaled(layers: Any, x: Any) -> Any:
    """With a loss that is scaled, and what the next scale is."""
    scale = tnp.exp(x[0, 0])
    gradient = tj.tree.map(lambda g: g / scale, gradient_of(layers, x, scale))
    good: Any = True
    for g in tj.tree.leaves(gradient):
        good = tnp.logical_and(good, tnp.all(tnp.isfinite(g)))
    layers = tj.tree.map(lambda w, new: tnp.where(good, new, w), layers, descent(layers, gradient))
    return layers, tnp.where(good, scale * 2.0, scale / 2.0)


def largest(layers: Any, x: Any) -> Any:
    """Clipped by the largest element of all."""
    gradient = gradient_of(layers, x)
    bound: Any = 0.0
    for g in tj.tree.leaves(gradient):
        bound = tnp.maximum(bound, tnp.max(tnp.abs(g)))
    return descent(layers, tj.tree.map(lambda g: g / tnp.maximum(bound, 1.0), gradient)), bound


STEPS: Final = [chosen, conditional, in_pieces, scaled, largest]


@pytest.mark.parametrize("step", STEPS)
def test_what_is_compiled_has_one_size(step: Callable[[Any, Any], Any]) -> None:
    assert lines(step, 40) == lines(step, 48)


@pytest.mark.sweep
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("x", [X, np.where(X > 0.9, np.inf, X)])
def test_steps_compute_the_same(step: Callable[[Any, Any], Any], x: Any) -> None:
    layers = weights(40)
    close(tj.jit(step, reroll=True)(layers, x), tj.jit(step)(layers, x))
