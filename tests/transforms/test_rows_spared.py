"""Loops of few equations over rows of stacks that are there, and scalars that go through all layers: what is compiled
has one size, whatever the depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.test_layered import close
from tests.transforms.test_penalties import WIDTH, X, lines, model, weights
from tinyjax import Array, lax, nn, transforms


def accumulated(layers: Any, x: Any) -> Any:
    """Gradients of two batches, added up, and clipped by their norm: two sums for each layer."""
    total = tj.tree.map(tnp.zeros_like, layers)
    for batch in (x, 2.0 * x):
        gradient = tj.grad(lambda layers, batch=batch: tnp.mean(model(layers, batch) ** 2))(layers)
        total = tj.tree.map(lambda a, g: a + g, total, gradient)
    rate = 0.1 / (1.0 + tnp.sqrt(sum(tnp.sum(a**2) for a in tj.tree.leaves(total))))
    return tj.tree.map(lambda w, a: w - rate * a, layers, total)


def taken_if_finite(layers: Any, x: Any) -> Any:
    """The choice for each tensor waits for all gradients, and is one equation."""
    gradient = tj.grad(lambda layers: tnp.mean(model(layers, x) ** 2))(layers)
    good = tnp.all(tnp.array([tnp.all(tnp.isfinite(g)) for g in tj.tree.leaves(gradient)]))
    return tj.tree.map(lambda w, g: tnp.where(good, w - g, w), layers, gradient)


def half_is_kept(layers: Any, x: Any) -> Any:
    """Nothing is added to the weights of the first half, as where an optimiser is told not to train them: the weights
    that this reads are a stack already."""
    gradient = tj.grad(lambda layers: tnp.mean(model(layers, x) ** 2))(layers)
    n = len(layers) // 2
    return {
        name: tj.tree.map(lambda w, g: w + 0.0 if int(name[6:]) < n else w - 0.1 * g, layer, gradient[name])  # noqa: B023
        for name, layer in layers.items()
    }


@pytest.mark.parametrize("step", [accumulated, taken_if_finite, half_is_kept])
def test_one_or_two_equations_for_each_row_are_a_loop(step: Callable[[Any, Any], Any]) -> None:
    sizes = [lines(step, n) for n in (32, 44)]
    assert max(sizes) < 1.05 * min(sizes)  # the layers come in the order of their names
    close(tj.jit(step, reroll=True)(weights(10), X), step(weights(10), X))


STEPS: Final = 12


def cells(p: Any, xs: Any) -> Any:
    """Steps of time, each of which gives a term that is taken off what there was before."""
    h = tnp.zeros(WIDTH)
    total: Any = 0.0
    for t in range(xs.shape[0]):
        h = tnp.tanh(h @ p["hidden"] + xs[t] @ p["input"] + p["bias"])
        total = total - tnp.mean(nn.log_softmax(h))
    return total


def decayed(p: Any, xs: Any) -> Any:
    """What there was before is multiplied as well, and compared."""
    h = tnp.zeros(WIDTH)
    total = tnp.sum(p["bias"])
    for t in range(xs.shape[0]):
        h = tnp.tanh(h @ p["hidden"] + xs[t] @ p["input"] + p["bias"])
        total = tnp.maximum(0.9 * total + tnp.sum(h), -5.0)
    return total


def over_time(steps: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(steps)
    square = (WIDTH, WIDTH)
    p = {"hidden": rng.normal(size=square) / WIDTH, "input": rng.normal(size=square), "bias": rng.normal(size=WIDTH)}
    return p, rng.normal(size=(steps, WIDTH))


@pytest.mark.parametrize("loss", [cells, decayed])
def test_a_scalar_that_goes_through_all_steps_stays_in_the_loop(loss: Callable[[Any, Any], Any]) -> None:
    """It was computed after all of them, of a stack of what each had given."""
    gradient = tj.value_and_grad(loss)
    few, more = (tj.jit(gradient, reroll=True).lower(*over_time(n)).as_text().count("\n") for n in (STEPS, 4 * STEPS))
    assert more == few
    close(tj.jit(gradient, reroll=True)(*over_time(STEPS)), gradient(*over_time(STEPS)))


def timed(w: Any, x: Any, steps: int) -> Array:
    """Steps of time, whose times are numbers that are written in the program."""
    for t in range(steps):
        column = lax.broadcast_in_dim(0.1 * (t + 1), (2, 1), ())
        x = x + 0.1 * tnp.tanh(tnp.concatenate([x, column], -1) @ w)
    return tnp.mean(x**2)


def test_a_number_of_each_step_is_arranged_within_it() -> None:
    """And not before all of them, where each takes equations of its own."""
    w = np.random.default_rng(0).normal(size=(WIDTH + 1, WIDTH))

    def size(steps: int) -> int:
        gradient = tj.make_jaxpr(tj.grad(lambda w, x: timed(w, x, steps)))(w, X)
        found = transforms.reroll(gradient, at_least=100, bordered=True)
        close(tj.eval_jaxpr(found.jaxpr, found.consts, w, X), tj.eval_jaxpr(gradient.jaxpr, gradient.consts, w, X))
        return len(found.jaxpr.eqns)

    assert size(24) == size(48)
