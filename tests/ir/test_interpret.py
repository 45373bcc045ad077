"""The evaluation loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ir.examples import F64, HERE, VEC, Emit, affine, chain, double, program
from tests.strategies import programs
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.errors import InputError, TypingError
from tinyjax.ir import ConcreteValue, Eqn, Jaxpr, Literal, SourceInfo, Var, interpret
from tinyjax.ir.dtypes import FLOATS
from tinyjax.primitives.elementwise import add, mul, neg


def run(jaxpr: Jaxpr, *args: float | Sequence[float]) -> list[object]:
    """The outputs of a program as Python numbers."""
    values = [ConcreteValue.of(np.asarray(arg, np.float64)) for arg in args]
    return [np.asarray(out).tolist() for out in interpret(EvalContext(), jaxpr, values)]


def test_evaluation() -> None:
    assert run(double(), 3.0) == [6.0]
    assert run(affine(), [1.0, 2.0, 3.0]) == [[3.0, 5.0, 7.0]]
    assert run(Jaxpr((), (), ())) == []


def test_outputs_may_repeat_and_be_inputs_or_literals() -> None:
    x = Var(0, F64)
    assert run(Jaxpr((x,), (), (x, x, Literal.of(2.0))), 5.0) == [5.0, 5.0, 2.0]


def test_equations_with_no_output_or_several() -> None:
    jaxpr = program([F64], lambda ctx, x: [*ctx.bind(Emit(), x), neg(ctx, x)])
    staged = stage(jaxpr.in_avals, lambda ctx, args: interpret(ctx, jaxpr, args))
    assert staged == jaxpr
    assert len(staged.eqns) == 2


@given(programs(depth=2))
@settings(max_examples=30, deadline=None)
def test_staging_a_program_gives_it_back(jaxpr: Jaxpr) -> None:
    staged = stage(jaxpr.in_avals, lambda ctx, args: interpret(ctx, jaxpr, args))
    assert staged == jaxpr
    assert [eqn.source for eqn in staged.eqns] == [eqn.source for eqn in jaxpr.eqns]


@given(programs(depth=2, dtypes=st.sampled_from(sorted(FLOATS, key=str))))
@settings(max_examples=30, deadline=None)
def test_evaluation_gives_the_types_that_the_program_declares(jaxpr: Jaxpr) -> None:
    args = [ConcreteValue(np.ones(aval.shape, aval.dtype), aval) for aval in jaxpr.in_avals]
    outs = interpret(EvalContext(), jaxpr, args)
    assert tuple(out.aval for out in outs) == jaxpr.out_avals
    assert all(np.asarray(out).shape == out.shape and np.asarray(out).dtype == out.dtype for out in outs)


@pytest.mark.parametrize("count", [0, 2])
def test_a_wrong_number_of_arguments(count: int) -> None:
    with pytest.raises(InputError, match=f"the program takes 1 inputs, got {count}"):
        interpret(EvalContext(), double(), [ConcreteValue.of(1.0)] * count)


def test_what_is_staged_points_to_the_lines_of_the_program() -> None:
    jaxpr = program([F64], lambda ctx, x: [neg(ctx, neg(ctx, x))])
    first, second = jaxpr.eqns
    other = SourceInfo("other.py", 1, "g")
    mixed = Jaxpr(jaxpr.invars, (first, Eqn(second.primitive, second.invars, second.outvars)), jaxpr.outvars)
    ctx = StagingContext()
    ctx.cursor.source = other
    outs = interpret(ctx, mixed, [ctx.argument(F64)])
    assert [eqn.source for eqn in ctx.finish(outs).jaxpr.eqns] == [HERE, other]
    assert ctx.cursor.source == other


def test_the_line_is_restored_after_an_error() -> None:
    x, y = Var(0, F64), Var(1, F64)
    bad = Jaxpr((x, y), (Eqn(add, (x, y), (Var(2, F64),), HERE),), ())
    ctx = StagingContext()
    wrong = [ctx.argument(VEC), ctx.argument(program([], lambda ctx: [Literal.of(1)]).out_avals[0])]
    with pytest.raises(TypingError):
        interpret(ctx, bad, wrong)
    assert ctx.cursor.source is None


def test_a_long_chain() -> None:
    n = 20_000
    mul_only = chain(n)
    eqns = tuple(Eqn(mul, (Literal.of(1.0), eqn.invars[1]), eqn.outvars) for eqn in mul_only.eqns)
    assert run(Jaxpr(mul_only.invars, eqns, mul_only.outvars), 3.0) == [3.0]
