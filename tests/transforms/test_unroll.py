"""`transforms.unroll`: the iterations of loops one after the other; and `reroll`, which finds the loop again."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.checks import F64, assert_close, count_eqns, numbers, program, run
from tests.transforms.pass_programs import REVERSIBLE
from tests.transforms.test_reroll import V, loops
from tinyjax import Array, ShapedArray, ir, lax, transforms
from tinyjax.errors import InputError
from tinyjax.ir import Jaxpr

LENGTH = 7


def scanned(reverse: bool) -> Jaxpr:
    def f(w: Array, x: Array) -> object:
        def body(c: Array, row: Array) -> tuple[Array, tuple[Array, Array]]:
            c = tnp.sin(c @ row)
            return c, (c * 2.0, tnp.sum(row))

        return lax.scan(body, x, w, reverse=reverse)

    return program(f, ShapedArray((LENGTH, 3, 3), "float64"), V)


@pytest.mark.parametrize("factor", [None, 1, 2, 3, LENGTH, LENGTH + 2])
@pytest.mark.parametrize("reverse", [False, True])
def test_iterations_are_the_same(reverse: bool, factor: int | None) -> None:
    j = scanned(reverse)
    unrolled = transforms.unroll(j, factor)
    assert ir.typecheck(unrolled) == j.type
    args = numbers(j.in_avals)
    assert_close(run(unrolled, args), run(j, args))
    lengths = [loop.length for loop in loops(unrolled)]
    assert lengths == ([] if factor is None or factor >= LENGTH else [LENGTH // factor])


@pytest.mark.parametrize("reverse", [False, True])
def test_rolled_up_it_is_the_same_loop(reverse: bool) -> None:
    j = scanned(reverse)
    assert transforms.reroll(transforms.unroll(j)) == j


def test_loops_within_loops() -> None:
    def f(x: Array) -> Array:
        def inner(c: Array, _: None) -> tuple[Array, None]:
            return tnp.sin(c), None

        return lax.scan(lambda c, _: (lax.scan(inner, c, None, length=3)[0] * 2.0, None), x, None, length=4)[0]

    j = program(f, F64)
    assert count_eqns(transforms.unroll(j)) == 4 * (3 + 1)
    assert transforms.unroll(program(tnp.sin, F64), 2).eqns[0].primitive.name == "sin"


def test_a_factor_is_positive() -> None:
    with pytest.raises(InputError, match=re.escape("unroll: the factor is a number of iterations, or None for all")):
        transforms.unroll(scanned(False), 0)


@given(REVERSIBLE)
@settings(max_examples=15, deadline=None)
def test_random_programs_stay_the_same(j: Jaxpr) -> None:
    args = numbers(j.in_avals)
    for factor in (None, 2):
        unrolled = transforms.unroll(j, factor)
        assert ir.typecheck(unrolled) == j.type
        assert_close(run(unrolled, args), run(j, args))


def test_rows_of_one_array_have_one_gradient() -> None:
    """What is added up of rows that are padded with zeros is what the backward loop stacks."""

    def f(w: Array, x: Array) -> Array:
        for i in range(8):
            x = tnp.sin(x @ w[i])
        return tnp.sum(x * x)

    j = program(tj.grad(f, argnums=(0, 1)), ShapedArray((8, 3, 3), "float64"), V)
    rolled = transforms.reroll(j)
    assert {"pad", "concatenate"}.isdisjoint({eqn.primitive.name for eqn in rolled.eqns})
    forward, backward = loops(rolled)
    assert (forward.length, backward.length, backward.reverse) == (8, 8, True)
    args = numbers(j.in_avals)
    assert_close(run(rolled, args), run(j, args))


def test_rows_that_are_left_out_have_no_gradient() -> None:
    def f(w: Array) -> Array:
        return tnp.sum(tnp.stack([tnp.sin(w[i]) * float(i) for i in (0, 2, 3, 5, 6)] * 8))

    j = program(tj.grad(f), ShapedArray((8, 3), "float64"))
    args = [np.ones((8, 3))]
    assert_close(run(transforms.reroll(j), args), run(j, args))
