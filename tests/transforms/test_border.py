"""`bordered`: programs that take stacks of their inputs and return stacks of their results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.checks import assert_close, numbers, program, run
from tests.transforms.test_dce import names
from tests.transforms.test_reroll import M, V, layers, repeating
from tinyjax import Array, ShapedArray, ir, transforms
from tinyjax.ir import Jaxpr
from tinyjax.ir.dtypes import HostArray
from tinyjax.transforms.border import bordered


def by_stacks(j: Jaxpr, args: Sequence[HostArray], first: int = 0) -> list[HostArray]:
    """The results of a program by way of the one for stacks."""
    border = bordered(j, first)
    assert border is not None
    ir.typecheck(border.program)
    taken = [args[at] if isinstance(at, int) else np.stack([args[i] for i in at]) for at in border.inputs]
    outs = run(border.program, taken)
    return [outs[number] if at is None else np.asarray(outs[number])[at] for number, at in border.results]


@pytest.mark.parametrize("n", [4, 9])
def test_the_gradient_of_layers(n: int) -> None:
    j = transforms.reroll(program(tj.grad(layers, argnums=(*range(n), n + 1)), *[M] * n, V, V))
    border = bordered(j)
    assert border is not None
    assert border.inputs == (tuple(range(n)), n, n + 1)
    assert {"slice", "concatenate"}.isdisjoint(names(border.program)[2:])
    args = numbers(j.in_avals)
    assert_close(by_stacks(j, args), run(j, args))


def test_stacks_of_parts_of_a_chain() -> None:
    """Rows that follow each other in one place and in another are rows of one stack."""

    def f(a: Array, b: Array, c: Array, d: Array) -> object:
        first, last = tnp.stack([a, b, c]), tnp.stack([b, c, d])
        return tnp.sum(tnp.sin(first)), tnp.sum(tnp.cos(last)), d * 2.0

    j = program(f, V, V, V, V)
    border = bordered(j)
    assert border is not None
    assert border.inputs == ((0, 1, 2, 3),)
    args = numbers(j.in_avals)
    assert_close(by_stacks(j, args), run(j, args))


def test_orders_that_contradict() -> None:
    def f(a: Array, b: Array, c: Array) -> object:
        return tnp.stack([a, b]) * 2.0, tnp.stack([b, a]) * 3.0, tnp.stack([c, a]), tnp.stack([a, a])

    j = program(f, V, V, V)
    args = numbers(j.in_avals)
    assert_close(by_stacks(j, args), run(j, args))


def test_what_stays() -> None:
    def f(a: Array, b: Array) -> object:
        return tnp.stack([a, b]) * 2.0

    j = program(f, V, V)
    assert bordered(j, first=2) is None  # closed over
    assert bordered(program(tnp.sin, V)) is None

    def few(w: Array) -> object:
        return tnp.sin(w)[0], tnp.cos(w)[1]

    assert bordered(program(few, ShapedArray((5, 3), "float64"))) is None


@given(repeating())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_they_compute_the_same(j: Jaxpr) -> None:
    rolled = transforms.reroll(j)
    if bordered(rolled) is not None:
        args = numbers(j.in_avals)
        assert_close(by_stacks(rolled, args), run(j, args))
