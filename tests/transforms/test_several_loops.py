"""Models that are several loops, or one over time: what is compiled has one size, whatever the depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.checks import assert_close, numbers, program, run
from tests.transforms.test_kinds_of_layers import adam
from tests.transforms.test_layered import close
from tests.transforms.test_penalties import WIDTH, X, lines, weights
from tinyjax import Array, ShapedArray, lax, nn, transforms
from tinyjax.control.scan import Scan


def halves(layers: Any) -> tuple[list[Any], list[Any]]:
    n = len(layers) // 2
    ordered = [layers[f"layer_{i}"] for i in range(2 * n)]
    return ordered[:n], ordered[n:]


def layer(p: Any, x: Any) -> Any:
    y = (x - tnp.mean(x, -1, keepdims=True)) * p["scale"]
    return x + tnp.tanh(tnp.sin(y @ p["kernel"] + p["bias"]) @ p["kernel"].T)


def ladder(layers: Any, x: Any) -> Any:
    """The decoder's layers read what the encoder's give, the last one first."""
    first, second = halves(layers)
    given = []
    for p in first:
        x = layer(p, x)
        given.append(x)
    y = tnp.zeros_like(x)
    for p, z in zip(second, reversed(given), strict=True):
        y = y + tnp.tanh((y + z) @ p["kernel"] * p["scale"]) * tnp.cos(y + p["bias"])
    return tnp.mean((x - y) ** 2)


def translator(layers: Any, x: Any) -> Any:
    """The decoder's layers all read what the encoder's last one gives."""
    first, second = halves(layers)
    y = tnp.cos(x)
    for p in first:
        x = layer(p, x)
    for p in second:
        y = layer(p, y) + tnp.tanh(x @ p["kernel"].T) * tnp.cos(y)
    return tnp.mean(y**2)


def descent(gradient: Any, layers: Any) -> Any:
    return tj.tree.map(lambda w, g: w - 0.1 * g, layers, gradient)


def step(model: Callable[[Any, Any], Any], update: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda layers, x: update(tj.grad(model)(layers, x), layers)


UPDATES: Final = [descent, adam]


@pytest.mark.parametrize("model", [ladder, translator])
@pytest.mark.parametrize("update", UPDATES)
def test_two_loops_are_there_before_derivatives(
    model: Callable[[Any, Any], Any], update: Callable[[Any, Any], Any]
) -> None:
    f = step(model, update)
    program = tj.jit(f, reroll=True).trace(weights(48), X).jaxpr.jaxpr
    # Two there and two back, with the updates in them.
    found = [eqn.primitive.length for eqn in program.eqns if isinstance(eqn.primitive, Scan)]
    assert len(found) == 4
    assert found == found[::-1]
    assert lines(f, 48) == lines(f, 72)


@pytest.mark.parametrize("model", [ladder, translator])
@pytest.mark.parametrize("update", UPDATES)
def test_results_are_the_same(model: Callable[[Any, Any], Any], update: Callable[[Any, Any], Any]) -> None:
    layers, f = weights(40), step(model, update)
    close(tj.jit(f, reroll=True)(layers, X), f(layers, X))


# Weights that all steps of time share: their gradients are sums of many terms.


def cells(p: Any, x: Any) -> Any:
    """Gated recurrent units, one step of time after the other."""

    def dense(name: str, y: Any) -> Any:
        return y @ p[name]["kernel"] + p[name]["bias"]

    state = tnp.zeros((2, WIDTH))
    for i in range(x.shape[1]):
        y = x[:, i]
        reset = nn.sigmoid(dense("ir", y) + state @ p["hr"]["kernel"])
        gate = nn.sigmoid(dense("iz", y) + state @ p["hz"]["kernel"])
        state = (1.0 - gate) * tnp.tanh(dense("in", y) + reset * dense("hn", state)) + gate * state
    return tnp.mean(state**2)


def whole(p: Any, x: Any) -> Any:
    """As a step that is imported whole: the gradient is staged as it is."""
    return adam(tj.jit(tj.grad(cells))(p, x), p)


def over_time(count: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(count)
    names = ("hn", "hr", "hz", "in", "ir", "iz")
    p = {name: {"bias": rng.normal(size=WIDTH), "kernel": rng.normal(size=(WIDTH, WIDTH))} for name in names}
    return p, rng.normal(size=(2, count, WIDTH))


def test_sums_of_many_terms_are_made_alike() -> None:
    """Also those terms that come less than some thirty equations before the update."""
    few, many, more = (tj.jit(whole, reroll=True).lower(*over_time(n)).as_text().count("\n") for n in (12, 48, 80))
    assert max(many, more) < 1.1 * few
    close(tj.jit(whole, reroll=True)(*over_time(48)), whole(*over_time(48)))


# Updates of several tensors of one type in each row.

COUNT: Final = 12
V: Final = ShapedArray((4,), "float64")


def test_rows_of_each_stack_are_read_together_whatever_their_names() -> None:
    """The third layer's are called `norm_9`, `norm_10` and `norm_11`, of which the first comes last."""

    def whole(x: Array, *ws: Array) -> list[Array]:
        stacks = lax.scan(lambda c, _: (c * 0.9, (tnp.sin(c), tnp.cos(c), tnp.tanh(c))), x, None, length=COUNT)[1]
        gradients = [g for row in zip(*map(tnp.unstack, stacks), strict=True) for g in row]
        new: dict[int, Array] = {}
        for i in sorted(range(3 * COUNT), key=str):
            decayed = 0.9 * ws[i]
            new[i] = decayed - 0.1 * gradients[i]
        return [new[i] for i in range(3 * COUNT)]

    jaxpr = program(whole, V, *[V] * (3 * COUNT))
    found = transforms.repeats(jaxpr, bordered=True).program.jaxpr
    taken = [eqn.primitive.name for eqn in found.eqns]
    assert "concatenate" not in taken
    assert taken.count("scan") == 2
    args = numbers(jaxpr.in_avals)
    assert_close(run(found, args), run(jaxpr, args))
