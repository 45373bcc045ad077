"""Costs of programs: what is counted, per equation, line and in total, and that what isn't known is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, final

import numpy as np
import pytest
from attrs import frozen
from hypothesis import given, settings
from typing_extensions import override

from tests.tools.control_steps import control_programs
from tinyjax import (
    Array,
    ShapedArray,
    custom_vjp,
    debug,
    grad,
    jit,
    lax,
    make_jaxpr,
    pure_callback,
)
from tinyjax import numpy as tnp
from tinyjax.contexts.staging import StagingContext
from tinyjax.control.call import Call, Calling
from tinyjax.control.callbacks import Callback
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomCall
from tinyjax.control.custom_linear import CustomLin
from tinyjax.control.exported import CallExported
from tinyjax.control.foreign import FfiCall
from tinyjax.control.loops import While
from tinyjax.control.recursion import Enclosing
from tinyjax.control.scan import Scan
from tinyjax.errors import InputError
from tinyjax.extend import STANDARD, Composite, bind
from tinyjax.ir import Atom, Context, Jaxpr, Literal, Primitive, RuleTable, Var
from tinyjax.ir.context import V
from tinyjax.ir.dtypes import FLOATS, DType
from tinyjax.primitives.collectives import Collective
from tinyjax.primitives.elementwise import Elementwise, add, mul, neg
from tinyjax.primitives.exponential import exp
from tinyjax.tools.cost import (
    COSTS,
    Cost,
    CostReport,
    CostRules,
    Expense,
    Times,
    cost_of,
    program_cost,
)
from tinyjax.transforms import linearize

F32 = ShapedArray((), "float32")
VEC = ShapedArray((100,), "float32")
MATRIX = ShapedArray((10, 10), "float32")


def test_costs_add_up() -> None:
    report = cost_of(lambda x, y: tnp.sum(tnp.exp(x) * y), VEC, VEC)
    assert [(eqn.cost.fixed.flops, eqn.cost.fixed.transcendentals) for eqn in report.equations] == [
        (0, 100),
        (100, 0),
        (99, 0),
    ]
    assert report.total == Expense(Cost(199, 100, 800 + 1200 + 404))
    assert report.traffic == 804
    assert report.complete


def total_of_lines(report: CostReport) -> Expense:
    total = Expense()
    for line in report.lines:
        total += line.cost
    return total


def as_values(expense: Expense) -> tuple[Cost, dict[str, Cost]]:
    return expense.fixed, {name: cost for name, cost in expense.per_iteration if cost != Cost()}


@given(control_programs())
@settings(max_examples=60, deadline=None)
def test_lines_and_programs_add_up_to_the_total(jaxpr: Jaxpr) -> None:
    for report in (program_cost(jaxpr), program_cost(jaxpr, branches="cheapest")):
        total = as_values(report.total)
        assert as_values(total_of_lines(report)) == total
        fixed = sum((equation.cost.fixed for equation in report.equations), Cost())
        assert fixed == report.total.fixed
    assert program_cost(jaxpr, branches="cheapest").total.once.weight <= program_cost(jaxpr).total.once.weight


def test_lines_of_user_code() -> None:
    def f(x: Array) -> Array:
        y = tnp.exp(x)
        return lax.fori_loop(0, 3, lambda i, c: tnp.sin(c), y)

    first, second = cost_of(f, VEC).lines[:2]
    assert first.source is not None
    assert second.source is not None
    assert first.source.line == second.source.line + 1
    assert (first.cost.fixed.transcendentals, second.cost.fixed.transcendentals) == (300, 100)


def test_lines_are_those_before_transformations() -> None:
    def f(x: Array) -> Array:
        return tnp.sum(tnp.sin(x) * x)

    report = cost_of(grad(f), VEC)
    assert {None if line.source is None else line.source.transformations for line in report.lines} == {()}


# Loops.


def test_a_loop_of_unknown_length_is_named() -> None:
    def f(x: Array) -> object:
        return lax.while_loop(lambda c: tnp.sum(c) < 10.0, lambda c: c * c, x)

    report = cost_of(f, VEC)
    (loop,) = report.loops
    assert (loop.name, loop.eqn.primitive.name, loop.iteration.flops) == ("n1", "while", 99 + 1 + 100)
    assert report.total.fixed.flops == 100  # the test, once
    assert report.total.at(n1=3).flops == 100 + 3 * 200
    assert not report.complete
    with pytest.raises(InputError, match=r"depends on the iterations of \['n1'\].*was given \['n2'\]"):
        report.total.at(n2=1)
    with pytest.raises(InputError, match="depends on the iterations of no loop"):
        cost_of(tnp.sin, F32).total.at(n1=1)
    assert "n1: the iterations of while at test_cost.py" in report.table()


def run_counting(jaxpr: Jaxpr, args: Sequence[float]) -> tuple[int, int]:
    """How many flops and transcendentals there are in a run of scalars, and how many iterations of `while`."""
    flops = iterations = 0

    def run(program: Jaxpr, values: Sequence[float]) -> list[float]:
        nonlocal flops, iterations
        env = list(values)

        def read(atom: Atom) -> float:
            return env[atom.index] if isinstance(atom, Var) else float(atom.value.real)

        for eqn in program.eqns:
            primitive, ins = eqn.primitive, [read(atom) for atom in eqn.invars]
            if isinstance(primitive, While):
                consts, body_consts, carry = primitive.operands(ins)
                while run(primitive.cond_jaxpr, [*consts, *carry])[0]:
                    iterations += 1
                    carry = run(primitive.body_jaxpr, [*body_consts, *carry])
                env += carry
            elif isinstance(primitive, Scan):
                carry = ins
                for _ in range(primitive.length):
                    carry = run(primitive.jaxpr, carry)
                env += carry
            elif isinstance(primitive, Calling):
                env += run(primitive.jaxpr, ins)
            else:
                flops += 1
                env += [float(x) for x in primitive.evaluate(*[np.asarray(x) for x in ins])]
        return [read(atom) for atom in program.outvars]

    run(jaxpr, args)
    return flops, iterations


def test_loops_within_loops_and_calls() -> None:
    """A while within a scan, within another while: counted, and run."""

    @jit
    def inner(x: Array) -> Any:
        return lax.while_loop(lambda c: c < 20.0, lambda c: c * 3.0 + 1.0, x)

    def f(x: Array) -> object:
        def middle(i: Array, c: Array) -> Any:
            return inner(c) - 15.0

        return lax.while_loop(lambda c: c < 10_000.0, lambda c: lax.fori_loop(0, 4, middle, c) + 9_000.0, x)

    jaxpr = make_jaxpr(f)(ShapedArray((), "float64")).jaxpr
    report = program_cost(jaxpr)
    assert [loop.name for loop in report.loops] == ["n1", "n2"]
    flops, iterations = run_counting(jaxpr, [1.0])
    outer = 0
    x = 1.0
    while x < 10_000.0:
        outer += 1
        for _ in range(4):
            while x < 20.0:
                x = x * 3.0 + 1.0
            x -= 15.0
        x += 9_000.0
    assert report.total.at(n1=iterations - outer, n2=outer).flops == flops
    assert as_values(total_of_lines(report)) == as_values(report.total)
    times = {str(program.times) for program in report.programs}
    assert {"n2", "1 + n2", "4·n2", "n1"} <= times


def test_a_scan_moves_its_slices() -> None:
    report = cost_of(lambda c, xs: lax.scan(lambda c, x: (c + x, c), c, xs), VEC, ShapedArray((7, 100), "float32"))
    body = 7 * 1200
    assert report.total.fixed == Cost(700, 0, body + 2 * 7 * 800)


def test_a_loop_that_does_not_run_costs_nothing() -> None:
    assert cost_of(lambda x: lax.fori_loop(0, 0, lambda i, c: tnp.sin(c), x), VEC).total.fixed == Cost()


# Branches.


def test_branches() -> None:
    def f(p: Array, x: Array) -> Array:
        return lax.cond(p, tnp.sin, lambda x: x * x + x, x)

    most = cost_of(f, ShapedArray((), "bool"), VEC)
    closed = make_jaxpr(f)(ShapedArray((), "bool"), VEC)
    least = program_cost(closed, branches="cheapest")
    assert most.total.fixed.flops >= 200
    assert least.total.fixed.transcendentals == 100
    (choice,) = most.choices
    assert (choice.branch, choice.branches, least.choices[0].branch) == (0, 2, 1)
    assert "branch 0 of 2 of cond at test_cost.py" in str(most)
    wrong: Any = "all"
    with pytest.raises(InputError, match="branches must be 'costliest' or 'cheapest', got 'all'"):
        program_cost(closed, branches=wrong)


def test_a_known_branch_is_no_choice() -> None:
    report = cost_of(lambda x: lax.cond(True, tnp.sin, lambda x: x * x + x, x), VEC)
    assert report.total.fixed.transcendentals == 100
    assert not report.choices


# What isn't known.


@final
@frozen
class Mystery(Primitive):
    name: ClassVar[str] = "mystery"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals


@final
@frozen
class MyElementwise(Elementwise):
    name: ClassVar[str] = "my_elementwise"
    accepts: ClassVar[frozenset[DType]] = FLOATS


@final
@frozen
class SinPlus(Composite):
    name: ClassVar[str] = "sin_plus"

    @override
    def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
        (x,) = args
        return ctx.bind(add, ctx.bind(exp, x)[0], x)


@final
@frozen
class Holder(Primitive):
    """Applies two programs, who knows how often."""

    first: Jaxpr
    second: Jaxpr
    name: ClassVar[str] = "holder"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals


def test_primitives_without_a_rule_are_listed() -> None:
    def f(x: Array) -> Array:
        def body(i: Array, c: Array) -> Array:
            return bind(Mystery(), bind(Mystery(), c)[0])[0] * 2.0

        return bind(MyElementwise(), lax.fori_loop(0, 5, body, x))[0]

    report = cost_of(f, VEC)
    named = {unknown.primitive: unknown for unknown in report.unknown}
    assert set(named) == {"mystery", "my_elementwise"}
    mystery = named["mystery"]
    assert (mystery.count, mystery.times, mystery.source is not None) == (2, Times(10), True)
    assert "@tinyjax.tools.cost.COSTS.register(Mystery)" in mystery.reason
    assert report.total.fixed.flops == 500 + 5  # what is known: the products, and the counter
    assert not report.complete
    assert [equation.unknown for equation in report.equations] == [True, True]
    assert "unknown: mystery, 10 times, first at test_cost.py" in report.table()


def test_rules_of_ones_own() -> None:
    own: CostRules = RuleTable("Cost", name="mine.COSTS", parent=COSTS)
    own[Mystery] = lambda primitive, eqn: Cost(flops=7)
    closed = make_jaxpr(lambda x: bind(Mystery(), tnp.sin(x))[0])(VEC)
    assert program_cost(closed, rules=own).total.fixed == Cost(7, 100, 800)
    assert Mystery not in COSTS


def test_decompositions_cost_what_they_are_made_of() -> None:
    report = cost_of(lambda x: bind(SinPlus(), x)[0], VEC)
    assert report.total.fixed == Cost(100, 100, 800 + 1200)
    assert report.complete
    assert not report.programs
    own: CostRules = RuleTable("Cost", name="mine.COSTS", parent=COSTS)
    own[SinPlus] = lambda primitive, eqn: Cost(1)
    assert program_cost(report.jaxpr, rules=own).total.fixed == Cost(1)


def test_what_cannot_be_known_says_why() -> None:
    @custom_vjp
    def g(x: Array) -> Array:
        return x

    g.defvjp(lambda x: (x, None), lambda _, ct: (ct,))

    def f(x: Array) -> object:
        debug.print("{}", x)
        return pure_callback(lambda x: x, VEC, x)

    assert {unknown.reason for unknown in cost_of(f, VEC).unknown} == {"it calls a Python function on the host"}
    linear = program_cost(linearize(make_jaxpr(g)(VEC).jaxpr).linear)
    assert [unknown.primitive for unknown in linear.unknown] == ["custom_lin"]
    ctx = StagingContext()
    x = ctx.argument(VEC)
    program = ctx.finish(ctx.bind(neg, x)).jaxpr
    outer = StagingContext()
    held = outer.finish(outer.bind(Holder(program, program), outer.argument(VEC))).jaxpr
    assert [unknown.primitive for unknown in program_cost(held).unknown] == ["holder"]


def test_branches_of_unknown_cost_are_named_though_they_are_not_counted() -> None:
    def f(p: Array, x: Array) -> Array:
        return lax.cond(p, tnp.sin, lambda x: bind(Mystery(), x)[0], x)

    report = cost_of(f, ShapedArray((), "bool"), VEC)
    assert [(unknown.primitive, unknown.times) for unknown in report.unknown] == [("mystery", Times(0))]
    assert report.total.fixed.transcendentals == 100


def test_every_primitive_of_the_library_is_counted_or_has_a_reason() -> None:
    structure = (Calling, Cond, While, Scan, CustomCall)
    unknown = (CallExported, Callback, Collective, CustomLin, Enclosing, FfiCall)
    classes = [cls for table in STANDARD.tables for cls in table.primitives.values()]
    assert len(classes) > 100
    for cls in classes:
        counted = cls in COSTS or issubclass(cls, structure) or cls.expand is not Primitive.expand
        assert counted != issubclass(cls, unknown), cls


# The table, and size.


def test_the_table_shows_the_most_expensive_equations() -> None:
    def f(x: Array) -> Array:
        for _ in range(5):
            x = x + 1.0
        return x @ x

    report = cost_of(f, MATRIX)
    text = report.table(most=2)
    assert "(4 more equations)" in text
    assert "5 dot_general -> f32[10,10]" in text
    assert str(report) == report.table(most=20)
    assert len(report.table(most=None).splitlines()) > len(text.splitlines())
    assert repr(report) == report.table()


def test_deep_and_long_programs() -> None:
    ctx = StagingContext()
    program = ctx.finish(ctx.bind(mul, ctx.argument(F32), Literal.of(2.0, np.dtype("float32")))).jaxpr
    for i in range(1000):
        ctx = StagingContext()
        (y,) = ctx.bind(Call(f"f{i}", program), ctx.argument(F32))
        program = ctx.finish(ctx.bind(Call(f"f{i}", program), y)).jaxpr
    report = program_cost(program)
    assert report.total.fixed.flops == 2**1000
    assert report.lines[0].cost.fixed.flops == 2**1000
    assert report.programs[-1].times == Times(2**1000)
    assert report.memory.needed == 4 + 1000 * 4
    ctx = StagingContext()
    x = ctx.argument(F32)
    for _ in range(10_000):
        (x,) = ctx.bind(neg, x)
    long = program_cost(ctx.finish([x]).jaxpr)
    assert (long.total.fixed.flops, long.memory.peak) == (10_000, 12)
