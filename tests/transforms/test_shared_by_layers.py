"""Layers that read one mask, or of which each has what nobody reads: all of them are one loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

import tinyjax.numpy as tnp
from tests.transforms.checks import assert_close, numbers, program, run
from tinyjax import Array, ShapedArray, lax, transforms
from tinyjax.ir import Jaxpr

X: Any = ShapedArray((4, 3), "float64")
W: Any = ShapedArray((3, 3), "float64")
DEPTH = 7


def attention(x: Array, w: Array, mask: Array) -> Array:
    scores = tnp.where(mask, (x @ w) @ x.T, -10.0)
    return x + tnp.exp(scores - tnp.sum(scores, axis=-1, keepdims=True)) @ x


def causal(ws: Mapping[str, Any], x: Array) -> Array:
    mask = tnp.tril(tnp.ones((4, 4), bool))
    for w in ws.values():
        x = attention(x / tnp.sqrt(tnp.sum(x * x)), w, mask)
    return tnp.sum(x)


def padded(ws: Mapping[str, Any], x: Array) -> Array:
    """The mask is made of the input."""
    mask = x[:, :1] > x[:, 0]
    for w in ws.values():
        x = attention(x / tnp.sqrt(tnp.sum(x * x)), w, mask)
    return tnp.sum(x)


def unread(ws: Mapping[str, Any], x: Array) -> Array:
    """As Flax makes a causal mask of an array of which it takes the shape alone."""
    for w in ws.values():
        y = tnp.tanh(x / tnp.sqrt(tnp.sum(x * x)))
        lax.slice(x, (0, 0), (4, 1)).reshape(4)
        x = x + tnp.sin(y @ w)
    return tnp.sum(x)


def lengths(j: Jaxpr) -> list[object]:
    return [eqn.params["length"] for eqn in j.eqns if eqn.primitive.name == "scan"]


@pytest.mark.parametrize("model", [causal, padded, unread])
def test_all_layers_are_one_loop(model: Callable[..., Array]) -> None:
    j = program(lambda *args: model({f"l{i}": w for i, w in enumerate(args[1:])}, args[0]), X, *[W] * DEPTH)
    rolled = transforms.reroll(j, at_least=10, bordered=True)
    assert lengths(rolled) == [DEPTH]
    args = numbers(j.in_avals)
    assert_close(run(rolled, args), run(j, args))
