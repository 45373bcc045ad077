"""Loops that keep values for later loops in the memory of results: the same results, in less memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.checks import assert_close, numbers, program, run
from tests.transforms.test_reroll import repeating
from tinyjax import Array, ShapedArray, ir, lax, nn, transforms
from tinyjax.control.scan import Scan
from tinyjax.control.shared_stacks import shared_stacks
from tinyjax.ir import Jaxpr

N: Final = 5
STACK: Any = ShapedArray((N, 4, 3), "float64")


def shared(j: Jaxpr) -> Jaxpr:
    """The program that keeps in the memory of results what it can: it computes the same, also when it is compiled."""
    found = shared_stacks(j)
    ir.typecheck(found)
    assert found.in_avals == j.in_avals
    assert found.out_avals == j.out_avals
    args = numbers(j.in_avals)
    for one, other in zip(run(found, args), run(j, args), strict=True):
        np.testing.assert_array_equal(one, other)
    assert shared_stacks(found) == found
    return found


def loops(j: Jaxpr) -> list[Scan]:
    return [eqn.primitive for eqn in j.eqns if isinstance(eqn.primitive, Scan)]


def stacks(j: Jaxpr) -> list[int]:
    """How many stacks each loop makes beside what it carries."""
    return [scan.num_ys for scan in loops(j)]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_one_stack_over_another(first: bool, second: bool) -> None:
    def f(w: Array, x: Array) -> Array:
        kept = lax.scan(lambda c, row: (c + 1.0, tnp.exp(row) * c), x, w, reverse=first)[1]
        return lax.scan(lambda c, row: (c * 0.5, tnp.sin(row) - c), x, kept, reverse=second)[1]

    found = shared(program(f, STACK, ShapedArray((), "float64")))
    assert stacks(found) == [0, 0]
    assert [scan.num_carry for scan in loops(found)] == [3, 3]
    assert [scan.reverse for scan in loops(found)] == [first, second]
    assert [eqn.primitive.name for eqn in found.eqns] == ["broadcast_in_dim", "scan", "scan", "reshape"]


def test_several_in_one() -> None:
    """The longest comes first, ten numbers of twelve, which leave room for nothing but a single one."""

    def first(c: Array, row: Array) -> tuple[Array, tuple[Array, ...]]:
        return c, (tnp.sum(row, 1), row[:, :1] * 2.0, tnp.sum(row), tnp.exp(row.ravel()[:10]))

    def second(c: Array, rows: tuple[Array, ...]) -> tuple[Array, Array]:
        a, b, number, long = rows
        return c, (a[:, None] * b + number) * tnp.sum(long) * tnp.ones((4, 3))

    found = shared(program(lambda w: lax.scan(second, 0.0, lax.scan(first, 0.0, w)[1])[1], STACK))
    assert [aval.shape for aval in loops(found)[0].jaxpr.out_avals[-2:]] == [(4,), (4, 1)]
    assert stacks(found) == [2, 0]


def read_by_others(w: Array) -> object:
    kept = lax.map(tnp.exp, w)
    return lax.map(tnp.sin, kept), tnp.sum(kept)


def returned(w: Array) -> object:
    kept = lax.map(tnp.exp, w)
    return lax.map(tnp.sin, kept), kept


def of_another_dtype(w: Array) -> object:
    return lax.map(lambda row: tnp.sin(row).astype("float32"), lax.map(tnp.exp, w))


def too_small(w: Array) -> object:
    return lax.map(tnp.sum, lax.map(tnp.exp, w))


def of_other_values(w: Array) -> object:
    """The result doesn't follow from the row that was kept, and might be written before that is read."""
    kept = lax.map(tnp.exp, w)
    return lax.scan(lambda c, rows: (c + tnp.sum(rows[0]), tnp.sin(rows[1])), 0.0, (kept, w))


def of_another_order(w: Array) -> object:
    return lax.map(tnp.sin, lax.map(tnp.exp, w)[::-1])


def an_input(w: Array) -> object:
    return lax.map(tnp.sin, w)


@pytest.mark.parametrize(
    "f", [read_by_others, returned, of_another_dtype, too_small, of_other_values, of_another_order, an_input]
)
def test_what_stays(f: Any) -> None:
    j = program(f, STACK)
    assert shared(j) is j


def test_a_guest_is_no_host() -> None:
    """Of three loops the last one's result holds what the second makes; what that reads stays a stack of its own."""
    found = shared(program(lambda w: lax.map(tnp.cos, lax.map(tnp.sin, lax.map(tnp.exp, w))), STACK))
    assert sum(stacks(found)) == 1


@given(repeating(), st.integers(0, 3))
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=30)
def test_they_compute_the_same(j: Jaxpr, seed: int) -> None:
    found = transforms.reroll(j, at_least=1, bordered=True)
    args = numbers(j.in_avals, seed)
    for one, other in zip(run(shared_stacks(found), args), run(found, args), strict=True):
        np.testing.assert_array_equal(one, other)


def dense(layer: list[Array], x: Array) -> Array:
    return tnp.tanh(x @ layer[0] + layer[1])


def normed(layer: list[Array], x: Array) -> Array:
    y = (x - tnp.mean(x, -1, keepdims=True)) / tnp.sqrt(tnp.var(x, -1, keepdims=True) + 1e-5)
    return x + nn.gelu(y @ layer[0] + layer[1])


def attention(layer: list[Array], x: Array) -> Array:
    q = x @ layer[0] + layer[1]
    return x + nn.softmax(tnp.where(tnp.tril(tnp.ones((8, 8), bool)), q @ x.T, -1e9)) @ q


def gated(layer: list[Array], x: Array) -> Array:
    y = x @ layer[0] + layer[1]
    return nn.sigmoid(y) * tnp.tanh(y * 0.5) + (1.0 - nn.sigmoid(y)) * x


@pytest.mark.parametrize("step", ["gradient", "descent", "momentum"])
@pytest.mark.parametrize("layer", [dense, normed, attention, gated])
def test_a_model_takes_no_more_memory_than_unrolled(layer: Any, step: str) -> None:
    """Temporary bytes, but for a row of each stack of weights, and for what a layer computes; and the same results."""
    depth, width = 20, 16
    rng = np.random.default_rng(0)
    params = [[rng.normal(size=(width, width)) / 4.0, rng.normal(size=width)] for _ in range(depth)]
    x = rng.normal(size=(8, width))

    def loss(params: list[list[Array]], x: Array) -> Array:
        for weights in params:
            x = layer(weights, x)
        return tnp.sum(x**2)

    def f(params: Any, moments: Any, x: Any) -> Any:
        gradient = tj.grad(loss)(params, x)
        if step == "gradient":
            return gradient
        if step == "momentum":
            moments = tj.tree.map(lambda m, g: 0.9 * m + g, moments, gradient)
            return moments, tj.tree.map(lambda p, m: p - 0.1 * m, params, moments)
        return tj.tree.map(lambda p, g: p - 0.1 * g, params, gradient)

    args = (params, tj.tree.map(np.ones_like, params), x)
    rolled = tj.jit(f, reroll=True).lower(*args).compile()
    assert_close(*(tj.tree.leaves(g(*args)) for g in (rolled, f)))
    plain = tj.jit(f).lower(*args).compile().memory_analysis().temp_size_in_bytes
    found = rolled.memory_analysis().temp_size_in_bytes
    assert found <= plain + 8 * (2 * width * width + 12 * 8 * width)
