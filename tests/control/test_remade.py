"""Loops that compute again what follows from less, where another loop kept it in stacks."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.checks import assert_close, numbers, program, run
from tinyjax import Array, ShapedArray, debug, lax, nn, transforms
from tinyjax.control.remade import remade
from tinyjax.control.scan import Scan
from tinyjax.ir import Jaxpr, typecheck
from tinyjax.testing import check_laws

N: Final = 4
V: Any = ShapedArray((N,), "float64")
STACK: Any = ShapedArray((5, N), "float64")
M: Any = ShapedArray((N, N), "float64")


def scans(j: Jaxpr) -> list[Scan]:
    return [eqn.primitive for eqn in j.eqns if isinstance(eqn.primitive, Scan)]


def kept(j: Jaxpr) -> int:
    """How many bytes the first loop's stacks have."""
    first = scans(j)[0]
    return sum(aval.nbytes for aval in first.results(first.jaxpr.out_avals)[1]) * first.length


def checked(j: Jaxpr) -> Jaxpr:
    found = remade(j)
    typecheck(found)
    args = numbers(j.in_avals)
    for a, b in zip(run(found, args), run(j, args), strict=True):
        np.testing.assert_array_equal(a, b)
    assert remade(found) == found
    return found


def two_loops(a: Array) -> Array:
    """The example of the docstring."""

    def first(state: Array, row: Array) -> tuple[Array, tuple[Array, Array]]:
        grown = tnp.exp(row)
        return state, (grown * 2.0, grown * grown)

    _, (b, c) = lax.scan(first, 0.0, a)
    return lax.map(lambda rows: rows[0] + rows[1], (b, c))


def test_one_stack_instead_of_two() -> None:
    j = program(two_loops, STACK)
    found = checked(j)
    assert kept(found) * 2 == kept(j)
    assert [eqn.primitive.name for eqn in scans(found)[1].jaxpr.eqns] == ["mul", "mul", "add"]


def gelu_layers(kind: str) -> Jaxpr:
    def f(x: Array, *weights: Array) -> Array:
        for w, s in zip(weights[::2], weights[1::2], strict=True):
            y = x - tnp.mean(x)
            y = y / tnp.sqrt(tnp.mean(y * y) + 1e-5) * s
            x = x + tj.nn.gelu(y @ w) if kind == "gelu" else x + tj.nn.silu(y @ w) * s
        return tnp.sum(x * x)

    return transforms.reroll(program(tj.grad(f, tuple(range(1, 21))), V, *[M, V] * 10), bordered=True)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["gelu", "silu"])
def test_backward_passes_are_given_less(kind: str) -> None:
    j = gelu_layers(kind)
    found = remade(j)
    args = numbers(j.in_avals)
    assert_close(run(found, args), run(j, args))
    assert kept(found) < 0.8 * kept(j)
    check_laws(found)


def test_what_is_there_anyway_is_read_where_it_is() -> None:
    """Constants and rows of the first loop, and its stacks that the program returns."""

    def f(a: Array, scale: Array) -> tuple[Array, Array]:
        def first(state: Array, row: Array) -> tuple[Array, tuple[Array, Array, Array]]:
            grown = tnp.exp(row)
            return state, (grown, row * scale, grown + scale)

        _, (b, c, d) = lax.scan(first, 0.0, a)
        return b, lax.map(lambda rows: tnp.sin(rows[0]) * rows[1], (c, d))

    found = checked(program(f, STACK, V))
    first, second = scans(found)
    assert first.num_ys == 1
    assert second.num_consts == 1


def test_stacks_that_are_read_row_by_row_stay() -> None:
    """To compute each row by itself would take more equations than there are: a few rows are, but not all."""

    def f(count: int) -> Jaxpr:
        def rows(a: Array) -> tuple[Any, ...]:
            def first(state: Array, row: Array) -> tuple[Array, tuple[Array, Array]]:
                grown = tnp.exp(row)
                return state, (grown * 2.0, grown * grown)

            _, (b, c) = lax.scan(first, 0.0, a)
            alone = [tnp.sin(lax.slice(c, (i, 0), (i + 1, N))) for i in range(count)]
            return lax.map(lambda rows: rows[0] + rows[1], (b, c)), *alone

        return program(rows, STACK)

    assert kept(checked(f(2))) * 2 == kept(f(2))
    assert remade(f(5)) == f(5)


def test_loops_in_loops() -> None:
    def f(rows: Array) -> Array:
        return lax.map(lambda row: two_loops(tnp.stack([row] * 5)), rows)

    (outer,) = scans(checked(program(f, STACK)))
    assert [loop.num_ys for loop in scans(outer.jaxpr)] == [1, 1]


def test_what_is_read_elsewhere_or_has_effects_stays() -> None:
    def returned(a: Array) -> tuple[Array, Array, Array]:
        _, (b, c) = lax.scan(lambda state, row: (state, (tnp.exp(row), tnp.exp(row) * 2.0)), 0.0, a)
        return b, c, lax.map(lambda rows: rows[0] + rows[1], (b, c))

    def printing(a: Array) -> Array:
        def first(state: Array, row: Array) -> tuple[Array, tuple[Array, Array]]:
            debug.print("{}", row)
            grown = tnp.exp(row)
            return state, (grown * 2.0, grown * grown)

        _, (b, c) = lax.scan(first, 0.0, a)
        return lax.map(lambda rows: rows[0] + rows[1], (b, c))

    def expensive(a: Array) -> Array:
        _, (b, c) = lax.scan(lambda state, row: (state, (tnp.exp(row), tnp.sin(row))), 0.0, a)
        return lax.map(lambda rows: rows[0] + rows[1], (b, c))

    for f in (returned, printing, expensive):
        j = program(f, STACK)
        assert remade(j) == j


def test_loops_of_a_gradient_alone() -> None:
    """Of which the one forwards is part of a call, with what doesn't depend on the layer."""

    def norm(x: Array, g: Array) -> Array:
        return (x - tnp.mean(x, -1, keepdims=True)) / tnp.sqrt(tnp.var(x, -1, keepdims=True) + 1e-5) * g

    def loss(layers: list[tuple[Array, Array]], x: Array) -> Array:
        for g, w in layers:
            mask = tnp.tril(tnp.ones((N, N), bool))
            y = norm(x, g) @ w
            scores = tnp.where(mask, tnp.einsum("hqd,hkd->hqk", y, y), -1e9)
            x = x + nn.softmax(scores) @ y
        return tnp.sum(x**2)

    layers = [(tnp.full(N, 1.0 + i), tnp.eye(N) / (i + 1)) for i in range(16)]
    x = tnp.sin(tnp.arange(2.0 * N * N)).reshape(2, N, N)
    gradient = tj.jit(tj.grad(loss), reroll=True)
    found = gradient.trace(layers, x).jaxpr.jaxpr
    assert [scan.length for scan in scans(found)] == [16, 16]
    # Rows that are centred, products, exponentials; deviations and sums.
    assert kept(found) == 16 * (3 * x.nbytes + 2 * 2 * N * 8)
    assert_close(*(tj.tree.leaves(f(layers, x)) for f in (gradient, tj.grad(loss))))
