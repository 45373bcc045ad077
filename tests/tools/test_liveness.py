"""Liveness, against running programs with everything dead taken away."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.control_steps import bind, control_programs, inputs, run_all, value
from tinyjax import Array, ShapedArray, debug, lax, make_jaxpr
from tinyjax import numpy as tnp
from tinyjax.errors import DataflowError
from tinyjax.ir import Atom, ConcreteValue, Jaxpr, Var
from tinyjax.tools import dataflow
from tinyjax.tools.dataflow import Liveness, liveness

F32 = ShapedArray((), "float32")


def operand(env: dict[int, ConcreteValue], atom: Atom) -> ConcreteValue:
    """The value; of one that isn't needed, any."""
    if isinstance(atom, Var):
        return env.get(atom.index, ConcreteValue(np.full(atom.aval.shape, 7, atom.aval.dtype), atom.aval))
    return value([], atom)


def run_frugally(jaxpr: Jaxpr, found: Liveness, args: Sequence[ConcreteValue]) -> dict[int, ConcreteValue]:
    """Runs what has to run, and forgets each value with its last use; what is left at the end."""
    env = {i: arg for i, arg in enumerate(args) if found.last_use[i] is not None}
    for position, eqn in enumerate(jaxpr.eqns):
        if not found.runs[position]:
            continue
        assert {var.index for var in found.live_after(position - 1)} == set(env)
        outs = bind(eqn.primitive, [operand(env, atom) for atom in eqn.invars])
        env.update(zip([var.index for var in eqn.outvars], outs, strict=True))
        for var in found.freed[position]:
            del env[var.index]
    return env


@given(control_programs(), inputs(), st.data())
@settings(max_examples=60, deadline=None)
def test_nothing_is_read_after_its_last_use(jaxpr: Jaxpr, args: list[ConcreteValue], data: st.DataObject) -> None:
    wanted = [data.draw(st.booleans()) for _ in jaxpr.outvars]
    found = liveness(jaxpr, wanted)
    everything = run_all(jaxpr, args)
    left = run_frugally(jaxpr, found, args)
    kept = {atom.index for atom, want in zip(jaxpr.outvars, wanted, strict=True) if want and isinstance(atom, Var)}
    assert set(left) == kept
    for index in kept:
        assert left[index] == everything[index]


@given(control_programs(), inputs(), inputs(), st.data())
@settings(max_examples=60, deadline=None)
def test_inputs_that_are_not_needed_do_not_matter(
    jaxpr: Jaxpr, args: list[ConcreteValue], others: list[ConcreteValue], data: st.DataObject
) -> None:
    wanted = [data.draw(st.booleans()) for _ in jaxpr.outvars]
    needed = liveness(jaxpr, wanted).needed
    mixed = [arg if need else other for arg, other, need in zip(args, others, needed, strict=False)]
    first, second = run_all(jaxpr, args), run_all(jaxpr, mixed)
    for atom, want in zip(jaxpr.outvars, wanted, strict=True):
        if want:
            assert value(first, atom) == value(second, atom)


@given(control_programs())
@settings(max_examples=40, deadline=None)
def test_the_last_use_is_a_use(jaxpr: Jaxpr) -> None:
    found = liveness(jaxpr)
    for index, position in enumerate(found.last_use):
        if position is None:
            assert not found.needed[index]
            continue
        atoms = jaxpr.outvars if position == len(jaxpr.eqns) else jaxpr.eqns[position].invars
        assert index in {atom.index for atom in atoms if isinstance(atom, Var)}


def test_carries_that_only_serve_themselves() -> None:
    def f(x: Array) -> object:
        def body(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
            a, b = carry
            return (tnp.sin(a), b * 2.0), None

        return lax.scan(body, (x, x), None, length=3)[0]

    jaxpr = make_jaxpr(f)(F32).jaxpr
    found = liveness(jaxpr, [False, True])
    (scan,) = jaxpr.eqns
    body = found.within(0)[0]
    assert [body.needed[i] for i in range(len(body.jaxpr.invars))] == [False, True]
    assert body.runs == tuple(eqn.primitive.name == "mul" for eqn in body.jaxpr.eqns)
    assert found.last_use[scan.outvars[0].index] is None


def test_predicates_and_what_decides_them_are_needed() -> None:
    def f(x: Array, limit: Array) -> object:
        return lax.while_loop(lambda c: c[0] < limit, lambda c: (c[0] + 1.0, c[1] * 2.0), (0.0, x))[1]

    found = liveness(make_jaxpr(f)(F32, F32))
    assert all(found.needed[:2])
    assert found.needed[0]
    assert all(found.within(0)[1].needed[:2])


def test_effects_keep_their_operands() -> None:
    def f(x: Array) -> object:
        debug.print("{}", tnp.sin(x))
        return tnp.cos(x)

    jaxpr = make_jaxpr(f)(F32).jaxpr
    found = liveness(jaxpr, [False])
    assert [eqn.primitive.name for eqn, runs in zip(jaxpr.eqns, found.runs, strict=True) if not runs] == ["cos"]
    assert found.needed[0]


def test_an_effect_in_a_loop_needs_what_decides_how_often_it_happens() -> None:
    def f(n: Array) -> object:
        def body(i: Array) -> Array:
            debug.print("round")
            return i + 1

        return lax.while_loop(lambda i: i < n, body, 0)

    found = liveness(make_jaxpr(f)(ShapedArray((), "int64")), [False])
    assert found.needed[0]
    assert found.runs == (True,)


def test_positions_out_of_range() -> None:
    found = liveness(make_jaxpr(lambda x: x + 1)(1.0))
    assert [var.index for var in found.live_after(-1)] == [0]
    with pytest.raises(DataflowError, match="the program has 1 equations, so none at position 1"):
        found.live_after(1)
    with pytest.raises(DataflowError, match="2 facts about the outputs of a program that has 1"):
        dataflow.liveness(found.jaxpr, [True, True])


def test_last_uses_are_found_in_linear_time() -> None:
    def f(x: Array) -> object:
        for _ in range(20_000):
            x = tnp.negative(x)
        return x

    found = liveness(make_jaxpr(f)(np.float32(1)))
    assert found.last_use == tuple(range(20_001))
    assert sum(map(len, found.freed)) == 20_000
