"""Within `jit(reroll=True)`, layers become a loop before they are differentiated."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.test_kinds_of_layers import adam
from tests.transforms.test_layered import close
from tests.transforms.test_penalties import X, lines, weights
from tests.transforms.test_stages import clipped, descent, layer
from tinyjax.control.fused_loops import computes_of_rows
from tinyjax.control.scan import Scan
from tinyjax.ir.program import Jaxpr

#: So many layers save enough equations.
DEEP = 130


def plain(layers: Any, x: Any) -> Any:
    for i in range(len(layers)):
        x = layer(layers[f"layer_{i}"], x)
    return tnp.mean(x**2)


def with_penalty(layers: Any, x: Any) -> Any:
    return plain(layers, x) + 0.01 * sum(tnp.sum(w * w) for w in tj.tree.leaves(layers))


def step(model: Callable[[Any, Any], Any], update: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda layers, x: update(tj.grad(model)(layers, x), layers)


def searched(monkeypatch: pytest.MonkeyPatch, f: Callable[..., Any], *args: Any) -> list[int]:
    """How many equations the programs have that are searched for loops, the whole function's last."""
    from tinyjax.api import jit_reroll

    found: list[Jaxpr] = []
    with_loops = jit_reroll.Rerolling._with_loops

    def noting(self: jit_reroll.Rerolling, traced: Any, least: int) -> Any:
        found.append(traced.jaxpr)
        return with_loops(self, traced, least)

    monkeypatch.setattr(jit_reroll.Rerolling, "_with_loops", noting)
    tj.jit(f, reroll=True).lower(*args)
    return [len(jaxpr.eqns) for jaxpr in found]


def test_a_gradient_is_staged_with_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    # As they are, each layer has some thirty equations, forwards and backwards.
    assert searched(monkeypatch, tj.grad(plain), weights(DEEP), X)[-1] < 12 * DEEP


@pytest.mark.parametrize(("count", "times"), [(10, 3), (120, 2)])
def test_smaller_loops_are_looked_for_in_short_programs(
    monkeypatch: pytest.MonkeyPatch, count: int, times: int
) -> None:
    """Of the others each is searched once before derivatives, and once with them."""

    def unlike(x: Any) -> Any:
        for i in range(count):
            x = tnp.concatenate([tnp.sin(x), x[: i % 7 + 1] * i])[: 30 + i]
        return tnp.sum(x)

    assert len(searched(monkeypatch, tj.grad(unlike), np.linspace(0.0, 1.0, 30))) == times


@pytest.mark.parametrize("update", [None, descent])
def test_few_layers_are_a_loop_first_too(update: Callable[[Any, Any], Any] | None) -> None:
    """All of them are in the stacks, and none is written out by itself: so the program has its size from a few layers
    on."""
    f = tj.grad(plain) if update is None else step(plain, update)
    assert lines(f, 8) == lines(f, 30)
    text = tj.jit(f, reroll=True).lower(weights(8), X).as_text()
    assert text.count("stablehlo.while") == 2
    assert re.search(r"tensor<[67]x", text) is None  # of neighbours alone
    close(tj.jit(f, reroll=True)(weights(8), X), f(weights(8), X))


def test_updates_count_for_a_loop_before_derivatives() -> None:
    """Which saves too little for a gradient alone."""

    def light(layers: Any, x: Any) -> Any:
        for i in range(len(layers)):
            x = tnp.tanh(x @ layers[f"layer_{i}"]["kernel"])
        return tnp.mean(x**2)

    layers = {name: {"kernel": own["kernel"]} for name, own in weights(20).items()}
    assert "stablehlo.while" not in tj.jit(tj.grad(light), reroll=True).lower(layers, X).as_text()
    f = step(light, adam)
    text = tj.jit(f, reroll=True).lower(layers, X).as_text()
    assert text.count("stablehlo.while") == 2
    assert re.search(r"tensor<1\dx", text) is None  # of some of the layers alone
    close(tj.jit(f, reroll=True)(layers, X), f(layers, X))


@pytest.mark.sweep
@pytest.mark.parametrize(("model", "update"), [(plain, clipped), (with_penalty, adam)])
def test_steps_have_one_size_and_compute_the_same(
    model: Callable[[Any, Any], Any], update: Callable[[Any, Any], Any]
) -> None:
    f = step(model, update)
    assert lines(f, DEEP) == lines(f, DEEP + 30) <= lines(f, 48)
    layers = weights(DEEP)
    close(tj.jit(f, reroll=True)(layers, X), f(layers, X))


def test_updates_are_computed_beside_gradients() -> None:
    def f(layers: Any, x: Any) -> Any:
        return tj.tree.map(lambda w, g: w - 0.1 * g, layers, tj.grad(plain)(layers, x))

    text = tj.jit(f, reroll=True).lower(weights(DEEP), X).as_text()
    assert text.count("stablehlo.while") == 2


@pytest.mark.sweep
@pytest.mark.parametrize("corrected", [False, True])
def test_moments_are_updated_beside_gradients(corrected: bool) -> None:
    """As Adam does it: of all tensors the first moments, then the second ones, what corrects them, and the weights."""

    def f(state: Any, x: Any) -> Any:
        layers, first, second, count = state
        gradient = tj.grad(with_penalty)(layers, x)
        first = tj.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
        second = tj.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, gradient)
        count = count + 1
        a, b = (1.0 - 0.9**count, 1.0 - 0.99**count) if corrected else (1.0, 1.0)
        up = tj.tree.map(lambda m, v: (m / a) / (tnp.sqrt(v / b) + 1e-8), first, second)
        return tj.tree.map(lambda w, u: w - 0.01 * u, layers, up), first, second, count

    layers = weights(DEEP)
    state = layers, tj.tree.map(lambda w: 0.1 * w, layers), tj.tree.map(lambda w: w * w, layers), np.int32(3)
    program = tj.jit(f, reroll=True).trace(state, X).jaxpr.jaxpr
    loops = [eqn.primitive for eqn in program.eqns if isinstance(eqn.primitive, Scan)]
    assert [loop.length for loop in loops] == [DEEP, DEEP]
    assert not computes_of_rows(program)
    close(tj.jit(f, reroll=True)(state, X), f(state, X))


@pytest.mark.sweep
def test_updates_that_wait_for_a_norm_are_one_loop() -> None:
    """All gradients are there together then in any case, so that loops before derivatives stay."""

    def f(layers: Any, x: Any) -> Any:
        gradient = tj.grad(plain)(layers, x)
        scale = tnp.minimum(1.0, 1.0 / tnp.sqrt(sum(tnp.sum(g * g) for g in tj.tree.leaves(gradient))))
        return adam(tj.tree.map(lambda g: scale * g, gradient), layers)

    layers = weights(DEEP)
    program = tj.jit(f, reroll=True).trace(layers, X).jaxpr.jaxpr
    assert [eqn.primitive.length for eqn in program.eqns if isinstance(eqn.primitive, Scan)] == [DEEP] * 3
    close(tj.jit(f, reroll=True)(layers, X), f(layers, X))


def test_gradients_are_not_stacked_for_an_update_that_needs_them_later() -> None:
    """Where the loop of the update isn't one with the loop back, loops are looked for in all of it instead."""
    for model in plain, with_penalty:
        program = tj.jit(step(model, adam), reroll=True).trace(weights(DEEP), X).jaxpr.jaxpr
        assert any(isinstance(eqn.primitive, Scan) for eqn in program.eqns)
        assert not computes_of_rows(program)


@pytest.mark.sweep
def test_values_auxiliary_data_and_other_transformations() -> None:
    def model(layers: Any, x: Any) -> Any:
        loss = plain(layers, x)
        return loss, {"double": 2 * loss, "name": None, "shape": x.shape}

    def f(layers: Any, x: Any) -> Any:
        (loss, aux), gradient = tj.value_and_grad(model, has_aux=True)(layers, x)
        assert aux["shape"] == x.shape
        return loss, aux["double"], gradient

    def g(layers: Any, x: Any) -> Any:
        value, pull_back = tj.vjp(plain, layers, x)
        return value, pull_back(2.0 * value)

    def h(layers: Any, x: Any) -> Any:
        return tj.vmap(lambda y: tj.grad(plain)(layers, y))(tnp.stack([x, 2.0 * x]))

    def twice(layers: Any, x: Any) -> Any:
        return tj.grad(lambda w: sum(tnp.sum(g * g) for g in tj.tree.leaves(tj.grad(plain)(w, x))))(layers)

    layers = weights(DEEP)
    for each in (f, g, h, twice):
        close(tj.jit(each, reroll=True)(layers, X), each(layers, X))


def test_other_jitted_functions_are_traced_as_they_are() -> None:
    inner = tj.jit(tj.grad(plain))
    layers = weights(DEEP)
    tj.jit(inner, reroll=True)(layers, X)
    assert not any(isinstance(eqn.primitive, Scan) for eqn in inner.trace(layers, X).jaxpr.jaxpr.eqns)


def test_refs_are_written() -> None:
    def f(layers: Any, x: Any) -> Any:
        ref = tj.new_ref(tnp.zeros(()))

        def model(w: Any) -> Any:
            y = plain(w, x)
            ref[...] = tj.lax.stop_gradient(y)
            return y

        gradient = tj.grad(model)(layers)
        return gradient, ref[...]

    layers = weights(DEEP)
    close(tj.jit(f, reroll=True)(layers, X), f(layers, X))


def test_on_auto() -> None:
    layers = weights(DEEP)
    f = step(plain, descent)
    close(tj.jit(f, reroll="auto")(layers, X), f(layers, X))
    assert "stablehlo.while" in tj.jit(f, reroll="auto").lower(layers, X).as_text()


def test_an_error_names_the_line() -> None:
    def model(w: Any) -> Any:
        return tnp.sum(w @ np.ones((4, 4)))

    with pytest.raises(tj.errors.TinyjaxError, match=r"matmul|dot"):
        tj.jit(tj.grad(model), reroll=True)(np.ones((3, 3)))
