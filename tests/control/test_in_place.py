"""Loops that write over the rows they have read: the same results, in the memory of inputs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import tinyjax.numpy as tnp
from tests.transforms.checks import assert_close, numbers, program, run
from tests.transforms.test_reroll import M, V, repeating
from tinyjax import Array, ShapedArray, ir, lax, transforms
from tinyjax.control.in_place import in_place
from tinyjax.control.scan import Scan
from tinyjax.ir import Jaxpr
from tinyjax.transforms.border import Bordered, bordered


def as_it_is(j: Jaxpr) -> Bordered:
    """A program whose inputs and results are no stacks of others."""
    return Bordered(j, tuple(range(len(j.invars))), tuple((i, None) for i in range(len(j.outvars))))


def written(j: Jaxpr, given: Collection[int]) -> tuple[Jaxpr, tuple[int, ...]]:
    """The program that writes over these inputs, if it can, and over which it does: they compute the same."""
    border, over = in_place(as_it_is(j), given)
    ir.typecheck(border.program)
    assert set(over) <= set(given)
    for result, at in enumerate(over):  # XLA gives memory to the first result of its type
        assert border.program.out_avals[result] == j.in_avals[at]
    args = numbers(j.in_avals)
    found = run(border.program, args)
    assert_close([found[number] for number, _ in border.results], run(j, args))
    return border.program, over


def loops(j: Jaxpr) -> list[Scan]:
    return [eqn.primitive for eqn in j.eqns if isinstance(eqn.primitive, Scan)]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_stack_becomes_a_carry(reverse: bool) -> None:
    def f(w: Array, x: Array) -> object:
        return lax.scan(lambda c, row: (c * 2.0 + tnp.sum(row), tnp.sin(row) * c), x, w, reverse=reverse)

    j = program(f, M, ShapedArray((), "float64"))
    (before,), (after,) = loops(j), loops(written(j, (0,))[0])
    assert written(j, (0,))[1] == (0,)
    assert (before.num_carry, before.num_ys) == (1, 1)
    assert (after.num_carry, after.num_ys) == (3, 0)
    assert (after.length, after.reverse) == (before.length, reverse)


def test_each_is_written_over_what_it_is_made_of() -> None:
    """Of three stacks of one type, the weights follow from all, and the moments from themselves."""

    def f(w: Array, m: Array, v: Array) -> object:
        def body(c: Array, rows: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, Array, Array]]:
            w, m, v = rows
            m, v = 0.9 * m + c, 0.99 * v + c * c
            return c + tnp.sum(w), (w - m / (v + 1.0), v, m)

        return lax.scan(body, 0.5, (w, m, v))[1]

    j = program(f, M, M, M)
    found, over = written(j, (0, 1, 2))
    assert over == (0, 1, 2)
    (loop,) = loops(found)
    assert loop.num_ys == 0
    # The results come in the order of the inputs: the second was returned last.
    args = numbers(j.in_avals)
    assert_close([run(found, args)[1]], [run(j, args)[2]])
    assert written(j, (2,))[1] == (2,)
    assert written(j, ())[0] is j


def test_the_pass_before_reads_it() -> None:
    """A backward loop may write over the weights, which the forward loop has read."""

    def f(w: Array, x: Array) -> object:
        y, kept = lax.scan(lambda c, row: (tnp.sin(c @ row), c), x, w)
        _, new = lax.scan(lambda c, rows: (c @ rows[0], rows[0] - c * rows[1]), y, (w, kept), reverse=True)
        return tnp.sum(y), new

    j = program(f, ShapedArray((5, 3, 3), "float64"), V)
    found, over = written(j, (0, 1))
    assert over == (0,)
    assert [loop.num_ys for loop in loops(found)] == [1, 0]


def nothing_given(w: Array, x: Array) -> object:
    return lax.scan(lambda c, row: (c, row + c), x, w)[1]


def read_later(w: Array, x: Array) -> object:
    return lax.scan(lambda c, row: (c, row + c), x, w)[1], tnp.sum(w)


def handed_back(w: Array, x: Array) -> object:
    return lax.scan(lambda c, row: (c, row + c), x, w)[1], w


def twice(w: Array, x: Array) -> object:
    return lax.scan(lambda c, rows: (c, rows[0] + rows[1][::-1]), x, (w, w))[1]


def also_constant(w: Array, x: Array) -> object:
    return lax.scan(lambda c, row: (c, row + tnp.sum(w)), x, w)[1]


def of_another_type(w: Array, x: Array) -> object:
    return lax.scan(lambda c, row: (c, tnp.sum(row)), x, w)[1]


def of_other_values(w: Array, x: Array) -> object:
    return lax.scan(lambda c, row: (c + tnp.sum(row), tnp.ones(3)), x, w)[1]


def not_returned(w: Array, x: Array) -> object:
    return tnp.sum(lax.scan(lambda c, row: (c, row + c), x, w)[1])


def returned_twice(w: Array, x: Array) -> object:
    y = lax.scan(lambda c, row: (c, row + c), x, w)[1]
    return y, y


@pytest.mark.parametrize(
    "f",
    [read_later, handed_back, twice, also_constant, of_another_type, of_other_values, not_returned, returned_twice],
)
def test_what_stays(f: object) -> None:
    assert callable(f)
    j = program(f, M, ShapedArray((), "float64"))
    found, over = written(j, (0,))
    assert over == ()
    assert found is j


def test_nothing_is_given() -> None:
    j = program(nothing_given, M, ShapedArray((), "float64"))
    assert written(j, (1,)) == (j, ())


@given(repeating())
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=30)
def test_they_compute_the_same(j: Jaxpr) -> None:
    border = bordered(transforms.reroll(j, at_least=1, bordered=True))
    if border is None:
        return
    every: Sequence[int] = range(len(border.inputs))
    found, _ = in_place(border, every)
    ir.typecheck(found.program)
    args = numbers(border.program.in_avals)
    expected, outs = run(border.program, args), run(found.program, args)
    for (i, _), (k, _) in zip(border.results, found.results, strict=True):
        np.testing.assert_array_equal(outs[k], expected[i])
