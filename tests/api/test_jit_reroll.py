"""`jit(reroll=True)` and `"auto"`: loops in the place of layers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array
from tinyjax.errors import InputError


def model(weights: Sequence[Any], x: Any) -> Array:
    for w in weights:
        x = tnp.tanh(x @ w) * 2.0 + tnp.sin(x)
    return tnp.sum(x * x)


def weights(n: int) -> list[Any]:
    generator = np.random.default_rng(n)
    return [generator.normal(size=(3, 3)) / 3.0 for _ in range(n)]


X = np.linspace(-1.0, 1.0, 3)


def scans(traced: Any) -> int:
    return sum(eqn.primitive.name == "scan" for eqn in traced.eqns)


@pytest.mark.sweep
def test_values_and_gradients() -> None:
    plain, rolled = tj.jit(tj.grad(model)), tj.jit(tj.grad(model), reroll=True)
    args = weights(40), X
    assert scans(rolled.trace(*args)) == 2
    assert scans(plain.trace(*args)) == 0  # the same function, and another program
    gradient = tj.grad(model)(*args)
    for found in (rolled(*args), tj.grad(tj.jit(model, reroll=True))(*args)):
        for one, other in zip(found, gradient, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_auto_waits_until_it_pays() -> None:
    f = tj.jit(tj.grad(model), reroll="auto")
    assert scans(f.trace(weights(40), X)) == 0
    assert scans(f.trace(weights(400), X)) == 2


def test_short_chains_stay_as_they_are() -> None:
    f = tj.jit(lambda x: x * x * x * x * x * x * x, reroll=True)
    assert scans(f.trace(2.0)) == 0


def test_calls_are_found_again() -> None:
    traces = 0

    @tj.jit(reroll=True)
    def f(x: Any) -> Any:
        nonlocal traces
        traces += 1
        for _ in range(200):
            x = tnp.sin(x)
        return x

    assert f(1.0) == f(1.0)
    assert traces == 1
    assert f.explain(1.0).differences == ()
    assert f.lower(1.0).as_text().count("stablehlo.sine") == 1


def test_what_is_no_choice() -> None:
    for wrong in ("always", 1, None):
        with pytest.raises(InputError, match=re.escape(f"jit: reroll is True, False or 'auto', got {wrong!r}")):
            tj.jit(model, reroll=wrong)  # type: ignore[call-overload]
