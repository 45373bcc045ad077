"""What holds of all passes: types, values, derivatives and effects stay; costs are linear; nothing recurses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.checks import F64, count_eqns
from tests.transforms.pass_programs import FORWARD, REVERSIBLE
from tests.transforms.test_dce import Emit, Noise
from tests.transforms.test_scale import nested
from tinyjax import Array, ir, transforms
from tinyjax.contexts.staging import stage
from tinyjax.ir import Atom, Context, Jaxpr, Literal
from tinyjax.primitives.elementwise import add, mul
from tinyjax.primitives.trigonometric import sin
from tinyjax.testing import check_laws

PASSES: Final[dict[str, Callable[[Jaxpr], Jaxpr]]] = {
    "dce": transforms.dce,
    "cse": transforms.cse,
    "fold_constants": transforms.fold_constants,
    "inline": transforms.inline,
    "simplify": transforms.simplify,
    "hoist_constants": transforms.hoist_constants,
    "optimize": transforms.optimize,
    "reroll": transforms.reroll,
}
each_pass = pytest.mark.parametrize("change", PASSES.values(), ids=PASSES.keys())
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(REVERSIBLE)
@settings(few, max_examples=30)
def test_meaning_and_derivatives_stay(j: Jaxpr) -> None:
    check_laws(j, laws=[*PASSES, "optimized_derivatives"])
    assert not check_laws(transforms.optimize(j), laws=["linearize", "transpose"]).skipped


@given(FORWARD)
@settings(few, max_examples=30)
def test_meaning_and_derivatives_of_loops_stay(j: Jaxpr) -> None:
    assert not check_laws(j, laws=[*PASSES, "optimized_derivatives"]).skipped


@given(FORWARD)
@few
def test_once_is_enough(j: Jaxpr) -> None:
    clean = transforms.dce(j)
    assert transforms.dce(clean) is clean
    merged = transforms.cse(j)
    assert transforms.cse(merged) is merged


def redundant(n: int) -> Jaxpr:
    """A chain with something for every pass."""

    def body(ctx: Context[Atom], x: Atom, y: Atom) -> Atom:
        one = Literal.of(1.0)
        for _ in range(n):
            (a,), (b,) = ctx.bind(sin, x), ctx.bind(sin, x)
            (c,) = ctx.bind(mul, a, b)
            (d,) = ctx.bind(mul, c, *ctx.bind(mul, one, one))
            (x,) = ctx.bind(add, d, y)
            ctx.bind(add, d, y)
        return x

    return stage([F64, F64], lambda ctx, ins: [body(ctx, *ins)])


@pytest.mark.parametrize("n", [10, 3000])
def test_sizes(n: int) -> None:
    j = redundant(n)
    assert len(j.eqns) == 7 * n
    sizes = {name: len(change(j).eqns) for name, change in PASSES.items()}
    assert sizes == {
        "dce": 6 * n,
        "cse": 4 * n + 1,
        "fold_constants": 6 * n,
        "inline": 7 * n,
        "simplify": 4 * n,
        "hoist_constants": 7 * n,
        "optimize": 3 * n,
        "reroll": 2,
    }


@each_pass
def test_deep_nesting(change: Callable[[Jaxpr], Jaxpr]) -> None:
    j = nested(1000, 0.75)
    result = change(j)
    assert ir.typecheck(result) == j.type
    assert count_eqns(result) in (1001, 2001)


@each_pass
def test_effects_stay_in_order(change: Callable[[Jaxpr], Jaxpr]) -> None:
    def body(ctx: Context[Atom], x: Atom) -> Atom:
        for number in (1.0, 1.0, 2.0):
            (y,) = ctx.bind(mul, x, Literal.of(number))
            ctx.bind(Emit(Noise()), y)
            ctx.bind(Emit(Noise()), Literal.of(3.0))
        return x

    j = stage([F64], lambda ctx, ins: [body(ctx, *ins)])
    result = change(j)
    ir.typecheck(result)
    emitted = [eqn.invars[0] for eqn in result.eqns if isinstance(eqn.primitive, Emit)]
    assert len(emitted) == 6
    assert emitted[1::2] == [Literal.of(3.0)] * 3
    assert result.effects == j.effects


@each_pass
def test_programs_are_changed_once(change: Callable[[Jaxpr], Jaxpr]) -> None:
    inner = tj.jit(lambda x: tnp.cos(tnp.sin(x) * 1.0 + tnp.sin(x)) + tnp.cos(0.0) + tnp.sum(tnp.asarray([x, x])))

    def f(x: Array) -> Array:
        for _ in range(20):
            x = inner(x)
        return x

    j = tj.make_jaxpr(f)(F64).jaxpr
    result = change(j)
    callees = {id(program) for eqn in result.eqns for program in ir.subjaxprs(eqn.primitive)}
    assert len(callees) <= 1


@each_pass
def test_lines_are_kept(change: Callable[[Jaxpr], Jaxpr]) -> None:
    """Programs that are equal but come from different lines point to their own lines afterwards."""
    one = tj.jit(lambda x: tnp.sin(x) * tnp.cos(x) * 1.0)
    other = tj.jit(lambda x: tnp.sin(x) * tnp.cos(x) * 1.0)
    result = change(tj.make_jaxpr(lambda x: one(x) + other(x + 1.0))(F64).jaxpr)
    lines = {
        eqn.source.line
        for program in [result, *(p for e in result.eqns for p in ir.subjaxprs(e.primitive))]
        for eqn in program.eqns
        if eqn.primitive is sin and eqn.source is not None
    }
    assert len(lines) == 2


@each_pass
def test_closed_programs(change: Callable[[Jaxpr], Jaxpr]) -> None:
    table = tnp.asarray([1.0, 2.0, 3.0])
    unused = tnp.asarray([1.0, 2.0])
    closed = tj.make_jaxpr(lambda x: (tnp.sum(table * 2.0 * x), unused * x)[0])(F64)
    pipeline = transforms.Pipeline([change])
    result = pipeline(closed)
    assert ir.typecheck(result) == ir.typecheck(closed)
    assert tj.eval_jaxpr(result.jaxpr, result.consts, 2.0) == tj.eval_jaxpr(closed.jaxpr, closed.consts, 2.0)
