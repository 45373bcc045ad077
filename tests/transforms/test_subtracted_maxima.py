"""Maxima of JAX's softmaxes needn't be nan where a number is; all that follows is nan where it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
from tinyjax.interop import importing
from tinyjax.interop.jax import from_jax, of_jax
from tinyjax.ir import HostArray
from tinyjax.transforms.subtracted_maxima import subtracted_maxima

Function: TypeAlias = Callable[[Any], Any]


def written_out(x: jax.Array) -> jax.Array:
    e: jax.Array = jnp.exp(x - x.max(-1, keepdims=True))
    found: jax.Array = e / e.sum(-1, keepdims=True)
    return found


def along_columns(x: jax.Array) -> jax.Array:
    return written_out(x.T)


def cross_entropy(x: jax.Array) -> jax.Array:
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), jnp.arange(len(x))[:, None] % 7, 1))


def attention(x: jax.Array) -> jax.Array:
    heads = x.reshape(1, 64, 2, 64)
    return jax.nn.dot_product_attention(heads, heads, heads, is_causal=True)


def mapped(x: jax.Array) -> jax.Array:
    return jax.vmap(jax.nn.softmax, 1, 1)(x)


def in_a_loop(x: jax.Array) -> jax.Array:
    found: jax.Array = jax.lax.fori_loop(0, 2, lambda i, y: jax.nn.log_softmax(y * 1.5), x)
    return found


FOUND: Final[list[Function]] = [
    jax.nn.softmax,
    jax.nn.log_softmax,
    jax.nn.logsumexp,
    written_out,
    along_columns,
    cross_entropy,
    attention,
    mapped,
    in_a_loop,
    lambda x: jax.nn.softmax(x, 0),
    lambda x: jax.nn.softmax(x, (0, 1)),
    lambda x: jax.nn.logsumexp(x, 1, keepdims=True),
    lambda x: jax.nn.logsumexp(x, 0) * 2.0,
    lambda x: jax.scipy.special.logsumexp(x[:, :, None], (1, 2)),
]


def other_rows(x: jax.Array) -> jax.Array:
    """Each row is moved by the other rows' maxima."""
    e = jnp.exp(x - x.max(-1)[None, :])
    return e / e.sum(-1, keepdims=True)


def other_sums(x: jax.Array) -> jax.Array:
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(0, keepdims=True)


def divided_by_other_sums(x: jax.Array) -> jax.Array:
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1)[None, :]


def of_something_else(x: jax.Array) -> jax.Array:
    e = jnp.exp(jnp.sin(x) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def some_of_the_axes(x: jax.Array) -> jax.Array:
    e = jnp.exp(x - x.max())
    return e / e.sum(-1, keepdims=True)


def with_a_maximum(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    m = x.max(-1, keepdims=True)
    return m, jnp.exp(x - m).sum(-1)


def more_than_exponentials(x: jax.Array) -> jax.Array:
    e = jnp.exp(x - x.max(-1, keepdims=True)) + 1.0
    return e / e.sum(-1, keepdims=True)


def times_a_maximum(x: jax.Array) -> jax.Array:
    m = x.max(-1, keepdims=True)
    return m * jnp.log(jnp.exp(x - m).sum(-1, keepdims=True))


def minus_other_logarithms(x: jax.Array) -> jax.Array:
    m = x.max(-1, keepdims=True)
    return (x - m) - jnp.log(jnp.exp(x - m).sum(-1))


def with_a_constant_logarithm(x: jax.Array) -> jax.Array:
    """Its derivative is the maximum's alone."""
    m = x.max(-1)
    return jax.lax.stop_gradient(jnp.log(jnp.exp(x - m[:, None]).sum(-1))) + m


SQUARE: Final[list[Function]] = [
    other_rows,
    other_sums,
    divided_by_other_sums,
    of_something_else,
    some_of_the_axes,
    with_a_maximum,
    more_than_exponentials,
    times_a_maximum,
    minus_other_logarithms,
    with_a_constant_logarithm,
    lambda x: x.max(-1),
    lambda x: jnp.exp(x - x.max(-1, keepdims=True)),
    lambda x: jnp.exp(x - x.max(-1, keepdims=True)).sum(-1),
]


def inputs(square: bool) -> HostArray:
    """So many numbers that XLA's library takes a maximum, with nan and infinities in some rows."""
    x = np.random.default_rng(0).normal(size=(64, 64 if square else 128)).astype("float32")
    x[3, 5] = x[40, 0] = x[40, 1] = np.nan
    x[7, 2], x[9, 9] = np.inf, -np.inf
    return x


def modes(f: Function, x: HostArray) -> tuple[int, int]:
    """How many maxima a program has, and how many of them may be numbers."""
    text = str(from_jax(jax.make_jaxpr(f)(x)))
    return text.count("reduce_max["), text.count("nan_mode=NanMode.EITHER")


@pytest.mark.parametrize("f", FOUND)
def test_softmaxes(f: Function) -> None:
    assert modes(f, inputs(False)) == (1, 1)


@pytest.mark.parametrize("f", SQUARE)
def test_others_stay(f: Function) -> None:
    assert modes(f, inputs(True)) == (1, 0)


def test_each_maximum_by_itself() -> None:
    assert modes(lambda x: (jax.nn.softmax(x), x.max(-1)), inputs(False)) == (2, 1)


def test_programs_without_stay_the_same_object() -> None:
    program = tj.make_jaxpr(tj.numpy.max)(inputs(False)).jaxpr
    assert subtracted_maxima(program) is program


def results(g: Function) -> list[Function]:
    """What is computed of a function by compiled programs: itself, and derivatives."""

    def total(x: tj.Array) -> tj.Array:
        return sum((tj.numpy.sum(tj.numpy.sin(y)) for y in tj.tree.leaves(g(x))), tj.numpy.asarray(0.0))

    def forwards(x: tj.Array) -> object:
        return tj.jvp(g, (x,), (tj.numpy.cos(x),))[1]

    def backwards(x: tj.Array) -> object:
        return tj.vjp(g, x)[1](tj.tree.map(tj.numpy.ones_like, g(x)))

    def twice(x: tj.Array) -> object:
        return tj.jvp(tj.grad(total), (x,), (tj.numpy.ones_like(x),))[1]

    return [g, forwards, backwards, twice]


@pytest.mark.sweep
@pytest.mark.parametrize("f", [*FOUND, *SQUARE])
def test_nan_stays_where_it_was(f: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    """As without a maximum that may be a number; also in derivatives, first and second ones."""
    x = tj.numpy.asarray(inputs(f in SQUARE))
    ours = [tj.jit(h)(x) for h in results(of_jax(f))]
    monkeypatch.setattr(importing, "subtracted_maxima", lambda jaxpr: jaxpr)
    expected = [tj.jit(h)(x) for h in results(of_jax(partial(f)))]
    assert np.isnan(np.asarray(tj.tree.leaves(expected)[0])).any()
    for a, b in zip(tj.tree.leaves(ours), tj.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), 2e-3, 2e-4)


@pytest.mark.parametrize(("f", "asks"), [(written_out, False), (jnp.max, True)])
def test_only_derivatives_of_others_ask_for_nan(f: Function, asks: bool) -> None:
    x = inputs(True)
    program = from_jax(jax.make_jaxpr(f)(x))
    text = str(tj.make_jaxpr(lambda x: tj.jvp(lambda x: tj.eval_jaxpr(program, [], x), (x,), (x,)))(x))
    assert (" ne " in text) is asks


def test_layers_that_became_loops() -> None:
    """The bodies keep exponentials for the way back, which what is around them can't know to be nan."""

    def softmax(x: tj.Array) -> tj.Array:
        e = tj.numpy.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def loss(weights: list[tj.Array], x: tj.Array) -> tj.Array:
        for w in weights:
            x = tj.numpy.tanh(softmax(x @ w) @ x.T @ x)
        return x.sum()

    weights = [tj.numpy.full((128, 128), 0.1 + i) for i in range(12)]
    text = tj.jit(tj.grad(loss), reroll=True).lower(weights, tj.numpy.ones((64, 128))).as_text()
    assert "stablehlo.while" in text
    assert "stablehlo.if" not in text
