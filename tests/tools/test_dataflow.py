"""The dataflow kit: lattices of one's own, loops that settle, and programs of any size and depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, final

import numpy as np
import pytest
from attrs import frozen
from hypothesis import given, settings
from typing_extensions import override

from tests.tools.control_steps import control_programs, inputs, run_all
from tinyjax import Array, ShapedArray, checkpoint, custom_jvp, jit, lax, make_jaxpr
from tinyjax.contexts.staging import StagingContext
from tinyjax.control.call import Call
from tinyjax.errors import DataflowError
from tinyjax.extend import Composite, bind
from tinyjax.ir import ConcreteValue, Context, Eqn, Jaxpr, Literal, Primitive, RuleTable
from tinyjax.ir.context import V
from tinyjax.primitives.arithmetic import Square, max_
from tinyjax.primitives.elementwise import Add, Neg, add, neg
from tinyjax.tools.dataflow import Lattice, Rules, Walk, backward, backward_rules, forward, forward_rules

F64 = ShapedArray((), "float64")
I64 = ShapedArray((), "int64")

Signs = frozenset[str]
ANY: Signs = frozenset("-0+n")


def signs_of(x: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Signs:
    return frozenset("n" if np.isnan(v) else "-" if v < 0 else "+" if v > 0 else "0" for v in x.ravel().tolist())


@final
class SignSets(Lattice[Signs]):
    """Which signs elements may have: negative, zero, positive, or none (nan)."""

    @override
    def bottom(self, aval: ShapedArray) -> Signs:
        return frozenset()

    @override
    def join(self, first: Signs, second: Signs) -> Signs:
        return first | second

    @override
    def constant(self, value: ConcreteValue | Literal) -> Signs:
        return signs_of(np.asarray(value.value if isinstance(value, Literal) else value.data))


SIGNS: Rules[Signs] = forward_rules("Sign", name="SIGNS")


@SIGNS.register(Primitive)
def _any_sign(primitive: Primitive, walk: Walk[Signs], eqn: Eqn, facts: Sequence[Signs]) -> Sequence[Signs]:
    return [ANY] * len(eqn.outvars)


@SIGNS.register(Neg)
def _neg(primitive: Neg, walk: Walk[Signs], eqn: Eqn, facts: Sequence[Signs]) -> Sequence[Signs]:
    # The most negative integer is its own negative.
    return [frozenset({"-": "+", "+": "-"}.get(sign, sign) for sign in facts[0]) | (facts[0] & {"-"})]


@SIGNS.register(Square)
def _square(primitive: Square, walk: Walk[Signs], eqn: Eqn, facts: Sequence[Signs]) -> Sequence[Signs]:
    # Small numbers have a square of 0, and large integers any.
    return [ANY if eqn.outvars[0].aval.dtype.kind in "iu" else facts[0] - {"-"} | {"0", "+"}]


def signs(fact: Signs) -> str:
    return "".join(sorted(fact))


def test_a_lattice_of_ones_own() -> None:
    def f(x: Array, p: Array) -> object:
        y = lax.square(x)
        return -y, lax.cond(p, lambda: -1.0, lambda: 2.0), lax.sin(x)

    found = forward(make_jaxpr(f)(F64, ShapedArray((), "bool")), SignSets(), SIGNS, [ANY, ANY])
    assert list(map(signs, found.outs)) == ["-0n", "+-", "+-0n"]
    assert found.ins == (ANY, ANY)


@given(control_programs(), inputs())
@settings(max_examples=60, deadline=None)
def test_facts_hold_of_every_value(jaxpr: Jaxpr, args: list[ConcreteValue]) -> None:
    found = forward(jaxpr, SignSets(), SIGNS, [signs_of(np.asarray(arg)) for arg in args])
    for fact, value in zip(found.facts, run_all(jaxpr, args), strict=True):
        assert signs_of(np.asarray(value)) <= fact


def test_facts_go_round_loops_until_they_settle() -> None:
    def f(n: Array) -> object:
        def body(c: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            return c[0] + 1, -c[1], c[1]

        return lax.while_loop(lambda c: c[0] < n, body, (0, 1.0, 0.0))

    _, flipped, before = forward(make_jaxpr(f)(I64), SignSets(), SIGNS, [ANY]).outs
    assert (signs(flipped), signs(before)) == ("+-", "+-0")


def test_scans_of_one_iteration_or_none_need_no_joins() -> None:
    def f(x: Array, length: int) -> object:
        return lax.scan(lambda c, _: (-c, c), x, None, length=length)

    for length, last, rows in [(0, "+", ""), (1, "-", "+"), (2, "+-", "+-")]:
        found = forward(make_jaxpr(lambda x, n=length: f(x, n))(F64), SignSets(), SIGNS, [frozenset("+")])
        shown = [signs(fact) for fact in found.outs]
        assert shown == [last, rows], length


def test_calls_of_every_kind_are_walked() -> None:
    @custom_jvp
    def custom(x: Array) -> object:
        return -x

    custom.defjvp(lambda primals, tangents: (primals[0], tangents[0]))

    def f(x: Array) -> object:
        return jit(lambda x: -x)(x), checkpoint(lambda x: -x)(x), custom(x)

    found = forward(make_jaxpr(f)(F64), SignSets(), SIGNS, [frozenset("+")])
    assert list(map(signs, found.outs)) == ["-", "-", "-"]
    assert [list(found.within(i)) for i in range(3)] == [[0]] * 3


def test_facts_of_a_program_differ_from_call_to_call() -> None:
    @jit
    def g(x: Array) -> object:
        return -x

    found = forward(
        make_jaxpr(lambda x, y: (g(x), g(y)))(F64, F64), SignSets(), SIGNS, [frozenset("+"), frozenset("0")]
    )
    assert [signs(found.within(i)[0].outs[0]) for i in (0, 1)] == ["-", "0"]
    assert len(list(found.walk())) == 3


@final
@frozen
class Twice(Composite):
    """Minus x, twice."""

    name: ClassVar[str] = "twice"

    @override
    def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
        (x,) = args
        return ctx.bind(neg, ctx.bind(neg, x)[0])


def test_decompositions_are_walked_unless_there_is_a_rule() -> None:
    closed = make_jaxpr(lambda x: bind(Twice(), x)[0])(F64)
    found = forward(closed, SignSets(), SIGNS, [frozenset("0")])
    assert (signs(found.outs[0]), list(found.within(0))) == ("0", [0])
    own: Rules[Signs] = forward_rules("Sign", name="own", parent=SIGNS)
    own[Twice] = lambda primitive, walk, eqn, facts: [frozenset("+")]
    assert signs(forward(closed, SignSets(), own).outs[0]) == "+"


# Lattices in which facts grow without end.


Bounds = tuple[float, float]


@final
class Intervals(Lattice[Bounds]):
    """Bounds of scalars, which loops could go on to widen for ever."""

    patience: ClassVar[int] = 4

    @override
    def bottom(self, aval: ShapedArray) -> Bounds:
        return np.inf, -np.inf

    @override
    def join(self, first: Bounds, second: Bounds) -> Bounds:
        return min(first[0], second[0]), max(first[1], second[1])

    @override
    def widen(self, before: Bounds, after: Bounds) -> Bounds:
        return after[0] if after[0] == before[0] else -np.inf, after[1] if after[1] == before[1] else np.inf

    @override
    def constant(self, value: ConcreteValue | Literal) -> Bounds:
        number = float(np.asarray(value.value if isinstance(value, Literal) else value.data).real)
        return number, number


class Endless(Lattice[Bounds]):
    """The same without widening."""

    @override
    def bottom(self, aval: ShapedArray) -> Bounds:
        return np.inf, -np.inf

    @override
    def join(self, first: Bounds, second: Bounds) -> Bounds:
        return min(first[0], second[0]), max(first[1], second[1])

    @override
    def constant(self, value: ConcreteValue | Literal) -> Bounds:
        return Intervals().constant(value)


INTERVALS: Rules[Bounds] = forward_rules("Interval", name="INTERVALS")


@INTERVALS.register(Add)
def _add(primitive: Add, walk: Walk[Bounds], eqn: Eqn, facts: Sequence[Bounds]) -> Sequence[Bounds]:
    (a, b), (c, d) = facts
    return [(a + c, b + d)]


def counting() -> Jaxpr:
    return make_jaxpr(lambda n: lax.while_loop(lambda i: i < n, lambda i: i + 1, 0))(I64).jaxpr


def test_widening_ends_what_would_not() -> None:
    assert forward(counting(), Intervals(), INTERVALS, [(0.0, 9.0)]).outs == ((0.0, np.inf),)


def test_facts_that_never_settle() -> None:
    with pytest.raises(DataflowError, match=r"while at .*test_dataflow.py.* keep changing after 10000 rounds.*widen"):
        forward(counting(), Endless(), INTERVALS, [(0.0, 9.0)])


# Backward.


Degrees = frozenset[int]


@final
class Outputs(Lattice[Degrees]):
    """Which outputs a value may get to."""

    @override
    def bottom(self, aval: ShapedArray) -> Degrees:
        return frozenset()

    @override
    def join(self, first: Degrees, second: Degrees) -> Degrees:
        return first | second


OUTPUTS: Rules[Degrees] = backward_rules("Output", name="OUTPUTS")


@given(control_programs())
@settings(max_examples=60, deadline=None)
def test_backward_from_each_output_finds_what_forward_from_each_input_does(jaxpr: Jaxpr) -> None:
    """Reachability, both ways: the forward rules for facts are the mirror images of the backward ones."""
    outs = [frozenset({i}) for i in range(len(jaxpr.outvars))]
    found = backward(jaxpr, Outputs(), OUTPUTS, outs).ins
    forwards = forward(jaxpr, Influences(), INFLUENCES, [frozenset({i}) for i in range(len(jaxpr.invars))]).outs
    for i, reached in enumerate(found):
        assert reached == {j for j, sources in enumerate(forwards) if i in sources}


@final
class Influences(Lattice[Degrees]):
    """Which inputs get to a value, also by way of predicates."""

    @override
    def bottom(self, aval: ShapedArray) -> Degrees:
        return frozenset()

    @override
    def join(self, first: Degrees, second: Degrees) -> Degrees:
        return first | second

    @override
    def influenced(self, fact: Degrees, decision: Degrees) -> Degrees:
        return fact | decision


INFLUENCES: Rules[Degrees] = forward_rules("Influence", name="INFLUENCES")


def test_backward_through_loops_and_branches() -> None:
    def f(x: Array, n: Array, p: Array, y: Array) -> object:
        a = lax.while_loop(lambda c: c[1] < n, lambda c: (c[0] * 2.0, c[1] + 1, c[2]), (x, 0, y))
        return a[0], a[2], lax.cond(p, lambda: 1.0, lambda: 2.0)

    closed = make_jaxpr(f)(F64, I64, ShapedArray((), "bool"), F64)
    found = backward(closed, Outputs(), OUTPUTS, [frozenset({i}) for i in range(3)])
    assert list(map(set, found.ins)) == [{0}, {0}, {2}, {1}]


# Mistakes.


def test_wrong_numbers_of_facts() -> None:
    closed = make_jaxpr(lambda x: -x)(F64)
    with pytest.raises(DataflowError, match="2 facts about the inputs of a program that has 1"):
        forward(closed, SignSets(), SIGNS, [ANY, ANY])
    wrong: Rules[Signs] = forward_rules("Sign", name="mine.WRONG")
    wrong[Neg] = lambda primitive, walk, eqn, facts: []
    with pytest.raises(DataflowError, match=r"the Sign rule for 'neg' in mine.WRONG returned 0 facts about neg at .*"
                       r"test_dataflow.py.*there are 1 results"):  # fmt: skip
        forward(closed, SignSets(), wrong, [ANY])


def test_a_table_without_rules_names_what_it_lacks() -> None:
    empty: Rules[Signs] = RuleTable("Sign", name="mine.EMPTY")
    with pytest.raises(NotImplementedError, match=r"Sign rule for 'neg' not implemented.*@mine.EMPTY.register\(Neg\)"):
        forward(make_jaxpr(lambda x: -x)(F64), SignSets(), empty, [ANY])


# Size.


def nested(depth: int) -> Jaxpr:
    """Programs within programs: calls, and loops now and then."""
    ctx = StagingContext()
    program = ctx.finish(ctx.bind(max_, ctx.argument(F64), Literal.of(0.0, np.dtype("float64")))).jaxpr
    for i in range(depth):
        ctx = StagingContext()
        x = ctx.argument(F64)
        outs = ctx.bind(Call(f"f{i}", program), x)
        program = ctx.finish(ctx.bind(add, *outs, *outs)).jaxpr
    return program


def test_deeply_nested_programs() -> None:
    program = nested(1000)
    found = forward(program, Influences(), INFLUENCES, [frozenset({0})])
    assert found.outs == (frozenset({0}),)
    assert len(list(found.walk())) == 1001
    assert backward(program, Outputs(), OUTPUTS, [frozenset({0})]).ins == (frozenset({0}),)


def test_long_programs() -> None:
    ctx = StagingContext()
    x = ctx.argument(F64)
    for _ in range(50_000):
        (x,) = ctx.bind(neg, x)
    jaxpr = ctx.finish([x]).jaxpr
    assert forward(jaxpr, Influences(), INFLUENCES, [frozenset({0})]).outs == (frozenset({0}),)
    assert backward(jaxpr, Outputs(), OUTPUTS, [frozenset({0})]).ins == (frozenset({0}),)


def test_lattice_order() -> None:
    lattice = SignSets()
    assert lattice.leq(frozenset("+"), ANY)
    assert not lattice.leq(ANY, frozenset("+"))
    assert lattice.join_all(F64, []) == frozenset()
