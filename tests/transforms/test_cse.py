"""`transforms.cse`."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.golden import Golden
from tests.transforms.checks import F64, program
from tests.transforms.test_dce import Emit, Noise, names
from tinyjax import Array, ShapedArray, ir, lax, transforms
from tinyjax.contexts.staging import stage
from tinyjax.ir import Atom, Context, Literal, Primitive
from tinyjax.primitives.annotations import optimization_barrier
from tinyjax.primitives.arithmetic import max_
from tinyjax.primitives.elementwise import add, neg, sub
from tinyjax.primitives.trigonometric import sin


@final
@frozen
class Scaled(Primitive):
    """Has a parameter of which there are several that Python calls equal."""

    factor: object
    name: ClassVar[str] = "scaled"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals


def test_golden(golden: Golden) -> None:
    def f(x: Array, y: Array) -> object:
        a = lax.cond(x > 0.0, lambda z: tnp.sin(z) * tnp.sin(z), lambda z: z, y)
        b = lax.cond(x > 0.0, lambda z: z + 1.0, lambda z: z, y)
        c = lax.cond(x > 0.0, lambda z: tnp.sin(z) * tnp.sin(z), lambda z: z, y)
        table = tnp.asarray([1.0, 2.0]) * x + tnp.asarray([1.0, 2.0])
        total, _ = lax.scan(lambda t, row: (t + tnp.sin(t) * row + row * tnp.sin(t), None), x, tnp.ones(2))
        return a, b, c, x * y + y * x, table, total

    j = program_with_tables(f)
    golden("cse", f"{j}\n\n{transforms.cse(j)}")


def program_with_tables(f: object) -> ir.Jaxpr:
    """Constants as equations."""
    closed = tj.make_jaxpr(f)(F64, F64) if callable(f) else None
    assert closed is not None
    return stage(
        closed.in_avals, lambda ctx, ins: ir.interpret(ctx, closed.jaxpr, [*map(ctx.constant, closed.consts), *ins])
    )


def in_both_orders(primitive: Primitive) -> ir.Jaxpr:
    return stage([F64, F64], lambda ctx, ins: [*ctx.bind(primitive, *ins), *ctx.bind(primitive, *reversed(ins))])


def test_order_of_operands() -> None:
    assert names(transforms.cse(in_both_orders(add))) == ["add"]
    for k in map(in_both_orders, (sub, max_)):
        assert transforms.cse(k) is k
    one = Literal.of(1.0)
    m = stage([F64], lambda ctx, ins: [*ctx.bind(add, one, *ins), *ctx.bind(add, *ins, one)])
    assert names(transforms.cse(m)) == ["add"]


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0.0, -0.0), ((0, 1), (False, 1))])
def test_parameters_that_python_calls_equal(one: object, other: object) -> None:
    j = stage([F64], lambda ctx, ins: [*ctx.bind(Scaled(one), *ins), *ctx.bind(Scaled(other), *ins)])
    assert transforms.cse(j) is j
    k = stage([F64], lambda ctx, ins: [*ctx.bind(Scaled(one), *ins), *ctx.bind(Scaled(one), *ins)])
    assert names(transforms.cse(k)) == ["scaled"]


def test_literals_that_python_calls_equal() -> None:
    zeros = [Literal.of(np.float64(value)) for value in (0.0, -0.0)]
    j = stage([F64], lambda ctx, ins: [ctx.bind(add, *ins, zero)[0] for zero in zeros])
    assert transforms.cse(j) is j


def test_what_the_user_keeps_apart() -> None:
    barrier = stage([F64], lambda ctx, ins: [ctx.bind(optimization_barrier, *ins)[0] for _ in range(2)])
    assert transforms.cse(barrier) is barrier
    kept = tj.checkpoint(tnp.sin)
    j = program(lambda x: kept(x) + kept(x), F64)
    assert names(transforms.cse(j)) == ["checkpoint", "checkpoint", "add"]
    loose = tj.checkpoint(tnp.sin, prevent_cse=False)
    k = program(lambda x: loose(x) + loose(x), F64)
    assert names(transforms.cse(k)) == ["checkpoint", "add"]


def test_named_axes_do_not_matter() -> None:
    j = stage([F64], lambda ctx, ins: [*ctx.bind(sin, *ins), *ctx.bind(sin, *ins)])
    merged = transforms.cse(j)
    assert merged.outvars[0] == merged.outvars[1]


def test_equations_around_effects_are_merged() -> None:
    """Effects stay where they are, and what is the same before and after them is computed once."""

    def body(ctx: Context[Atom], x: Atom) -> list[Atom]:
        first, second = sin(ctx, x), sin(ctx, x)
        ctx.bind(Emit(Noise()), first)
        third, fourth = sin(ctx, x), neg(ctx, second)
        ctx.bind(Emit(Noise()), third)
        return [second, third, fourth, neg(ctx, first)]

    j = stage([F64], lambda ctx, ins: body(ctx, *ins))
    merged = transforms.cse(j)
    assert ir.typecheck(merged) == j.type
    assert [eqn.primitive.name for eqn in merged.eqns] == ["sin", "emit", "neg", "emit"]
    assert merged.effects == j.effects
    a, b = merged.eqns[0].outvars[0], merged.eqns[2].outvars[0]
    assert merged.outvars == (a, a, b, b)
