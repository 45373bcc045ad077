"""Constancy, against running programs on several inputs."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from tests.tools.control_steps import control_programs, inputs, run_all
from tinyjax import Array, ShapedArray, lax, make_jaxpr, pure_callback
from tinyjax import numpy as tnp
from tinyjax.extend import bind
from tinyjax.ir import ConcreteValue, Jaxpr, Primitive
from tinyjax.tools.dataflow import Fixed, constancy

F32 = ShapedArray((), "float32")


def known(fact: object) -> object:
    """The elements of a known value as lists; what is known of it otherwise."""
    return np.asarray(fact.data).tolist() if isinstance(fact, ConcreteValue) else fact


@given(control_programs(), st.lists(inputs(), min_size=2, max_size=4))
@settings(max_examples=80, deadline=None)
def test_constants_are_the_same_in_every_run(jaxpr: Jaxpr, runs: list[list[ConcreteValue]]) -> None:
    found = constancy(jaxpr)
    values = [run_all(jaxpr, args) for args in runs]
    for index, fact in enumerate(found.facts):
        column = [env[index] for env in values]
        if isinstance(fact, ConcreteValue):
            assert all(value == fact for value in column)
        elif fact is Fixed.FIXED:
            assert all(value == column[0] for value in column)
        else:
            assert fact is Fixed.VARYING


@given(control_programs(), inputs())
@settings(max_examples=60, deadline=None)
def test_with_all_inputs_known_nothing_varies(jaxpr: Jaxpr, args: list[ConcreteValue]) -> None:
    found = constancy(jaxpr, args)
    for fact, value in zip(found.facts, run_all(jaxpr, args), strict=True):
        assert fact == value or fact is Fixed.FIXED


def test_what_is_computed_and_what_is_not() -> None:
    def f(x: Array) -> object:
        i = lax.iota("int32", 3)
        return i * 2, x + 1.0, tnp.zeros((100, 100)), lax.exp(0.0)

    small, varying, large, one = constancy(make_jaxpr(f)(F32)).outputs
    assert known(small) == [0, 2, 4]
    assert known(one) == 1.0
    assert varying is Fixed.VARYING
    assert large is Fixed.FIXED
    assert known(constancy(make_jaxpr(f)(F32), limit=10_000).outputs[2]) == np.zeros((100, 100)).tolist()


def test_branches_that_are_not_taken_are_not_walked() -> None:
    def f(x: Array) -> object:
        index = lax.iota("int32", 2)[1]
        return lax.switch(index, [lambda x: 1.0, lambda x: 2.0, lambda x: x], x)

    closed = make_jaxpr(f)(ShapedArray((), "float64"))
    found = constancy(closed)
    position = next(i for i, eqn in enumerate(closed.eqns) if eqn.primitive.name == "cond")
    assert known(found.outputs[0]) == 2.0
    assert list(found.within(position)) == [1]


def test_branches_that_agree_and_branches_that_do_not() -> None:
    def f(p: Array) -> object:
        return lax.cond(p, lambda: (1.0, 2.0), lambda: (1.0, 3.0))

    agreed, chosen = constancy(make_jaxpr(f)(ShapedArray((), "bool"))).outputs
    assert known(agreed) == 1.0
    assert chosen is Fixed.VARYING


def test_loops() -> None:
    def f(n: Array, x: Array) -> object:
        counted = lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1], c[2] * 1.0), (0, 7.0, 0.0))
        bounded = lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1]), (0, 7.0))
        never = lax.while_loop(lambda c: c > 0, lambda c: c + 1, -3)
        total, rows = lax.scan(lambda s, x: (s + x, 1.0), 0.0, tnp.ones(4))
        return *counted, *bounded, never, total, rows

    i, kept, zero, j, same, never, total, rows = constancy(make_jaxpr(f)(ShapedArray((), "int64"), F32)).outputs
    assert (i, j, total) == (Fixed.FIXED, Fixed.VARYING, Fixed.FIXED)
    assert (known(kept), known(same), known(zero), known(never)) == (7.0, 7.0, 0.0, -3)
    assert known(rows) == [1.0] * 4


def test_slices_of_a_known_array_are_known_if_they_are_equal() -> None:
    def f() -> object:
        return lax.scan(lambda c, x: (c, x * 2.0), 0.0, tnp.arange(3.0))[1], lax.map(lambda x: x * 2.0, tnp.ones(3))

    different, equal = constancy(make_jaxpr(f)()).outputs
    assert different is Fixed.FIXED
    assert known(equal) == [2.0] * 3


def test_what_a_loop_never_enters_is_missing() -> None:
    closed = make_jaxpr(lambda: lax.while_loop(lambda c: c > 0, lambda c: c + 1, -3))()
    assert list(constancy(closed).within(0)) == [0]


def test_python_functions_are_not_called() -> None:
    calls: list[int] = []

    def host(x: Array) -> object:
        calls.append(1)
        return x

    closed = make_jaxpr(lambda: pure_callback(host, F32, np.float32(1)))()
    assert constancy(closed).outputs == (Fixed.VARYING,)
    assert not calls


def test_empty_arrays_are_known() -> None:
    assert known(constancy(make_jaxpr(lambda x: x[:0])(ShapedArray((3,), "float32"))).outputs[0]) == []


@final
@frozen
class Mystery(Primitive):
    """A primitive that can't be evaluated."""

    name: ClassVar[str] = "mystery"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals


def test_a_primitive_that_cannot_be_evaluated() -> None:
    closed = make_jaxpr(lambda x: (*bind(Mystery(), tnp.ones(2)), *bind(Mystery(), x)))(F32)
    assert constancy(closed).outputs == (Fixed.FIXED, Fixed.VARYING)


def test_constants_of_closed_programs_are_known() -> None:
    weights = np.array([1.0, 2.0])
    assert known(constancy(make_jaxpr(lambda x: tnp.asarray(weights) * 2.0)(F32)).outputs[0]) == [2.0, 4.0]


def test_how_often_a_loop_runs_decides() -> None:
    """A carry that is known before and after an iteration differs between runs, if the number of iterations does."""

    def f(n: Array) -> object:
        first, second = tnp.ones(2), -tnp.ones(2)
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, second, first), (0, first, first))

    _, changed, same = constancy(make_jaxpr(f)(ShapedArray((), "int64"))).outputs
    assert changed is Fixed.VARYING
    assert known(same) == [1.0, 1.0]
