"""The structural diff: what it finds, how it counts, how it reads, and that it stays near-linear."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.golden import Golden
from tests.ir.examples import (
    F64,
    VEC,
    WEAK,
    Assorted,
    Choose,
    applied,
    array,
    bits,
    chain,
    double,
    everything,
    nested,
    program,
)
from tests.strategies import STEPS, arithmetic, programs
from tinyjax.contexts.staging import StagingContext
from tinyjax.errors import InputError
from tinyjax.ir import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, ShapedArray, Var, typecheck
from tinyjax.primitives.elementwise import add, mul, neg
from tinyjax.primitives.trigonometric import cos, sin
from tinyjax.tools import diff
from tinyjax.tools.diff_align import align
from tinyjax.tools.diff_programs import Added, Changed, Diff, Removed, Same


def counts(found: Diff) -> tuple[int, int, int]:
    return found.added, found.removed, found.changed


def longest(a: Sequence[int], b: Sequence[int]) -> int:
    """The length of a longest common subsequence, by the textbook's table."""
    row = [0] * (len(b) + 1)
    for x in a:
        above = row
        row = [0]
        for j, y in enumerate(b):
            row.append(above[j] + 1 if x == y else max(above[j + 1], row[j]))
    return row[-1]


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
@settings(max_examples=100)
def test_short_sequences_are_aligned_as_well_as_can_be(a: list[int], b: list[int]) -> None:
    pairs = align(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(i < k and j < l for (i, j), (k, l) in pairwise(pairs))
    assert len(pairs) == longest(a, b)


@given(st.lists(st.integers(0, 200), min_size=150, max_size=250), st.randoms(use_true_random=False))
@settings(max_examples=5)
def test_long_sequences_are_aligned_in_order(a: list[int], source: random.Random) -> None:
    b = source.sample(a, len(a))
    pairs = align(a, b)
    assert pairs
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(i < k and j < l for (i, j), (k, l) in pairwise(pairs))


def renumbered(jaxpr: Jaxpr, change: Callable[[StagingContext, int, Eqn, list[Atom]], Sequence[Atom]]) -> Jaxpr:
    """The program again, each equation as `change(ctx, number, eqn, operands)` stages it."""
    ctx = StagingContext()
    values: dict[int, Atom] = {var.index: ctx.argument(var.aval) for var in jaxpr.invars}

    def value(atom: Atom) -> Atom:
        return values[atom.index] if isinstance(atom, Var) else atom

    for number, eqn in enumerate(jaxpr.eqns):
        outs = change(ctx, number, eqn, [value(atom) for atom in eqn.invars])
        values.update({var.index: out for var, out in zip(eqn.outvars, outs, strict=True)})
    return ctx.finish([value(atom) for atom in jaxpr.outvars]).jaxpr


def as_is(ctx: StagingContext, number: int, eqn: Eqn, operands: list[Atom]) -> Sequence[Atom]:
    return ctx.bind(eqn.primitive, *operands)


@given(programs())
@settings(max_examples=25)
def test_a_program_does_not_differ_from_itself(jaxpr: Jaxpr) -> None:
    again = renumbered(jaxpr, as_is)
    assert again == jaxpr
    found = diff(jaxpr, again)
    assert found.empty
    assert not found
    assert str(found).startswith("no difference")
    assert counts(found) == (0, 0, 0)
    assert found.equal == len(jaxpr.eqns)


@given(programs(), programs())
@settings(max_examples=35)
def test_programs_differ_if_there_is_a_difference(a: Jaxpr, b: Jaxpr) -> None:
    found = diff(a, b)
    assert bool(found) == (a != b) != str(found).startswith("no difference")
    whole = found.programs[0]
    size = sum(entry.count for entry in whole.entries if isinstance(entry, Same))
    pairs = size + sum(isinstance(entry, Changed) for entry in whole.entries)
    assert len(a.eqns) == pairs + sum(isinstance(entry, Removed) for entry in whole.entries)
    assert len(b.eqns) == pairs + sum(isinstance(entry, Added) for entry in whole.entries)
    back = diff(b, a)
    assert bool(back) == bool(found)


@given(programs((*STEPS, arithmetic, arithmetic, arithmetic), max_eqns=8), st.data())
@settings(max_examples=40)
def test_one_equation_more_or_less(jaxpr: Jaxpr, data: st.DataObject) -> None:
    """One that nothing reads."""
    assume(jaxpr.eqns)
    at = data.draw(st.integers(0, len(jaxpr.eqns) - 1))

    def insert(ctx: StagingContext, number: int, eqn: Eqn, operands: list[Atom]) -> Sequence[Atom]:
        if number == at:
            ctx.bind(cos, Literal.of(0.5))
            read = [atom for atom in operands if isinstance(atom, Var)]
            for atom in read[: data.draw(st.integers(0, 1))]:
                ctx.bind(neg, atom)
        return ctx.bind(eqn.primitive, *operands)

    longer = renumbered(jaxpr, insert)
    extra = len(longer.eqns) - len(jaxpr.eqns)
    found, back = diff(jaxpr, longer), diff(longer, jaxpr)
    assert counts(found) == (extra, 0, 0), str(found)
    assert counts(back) == (0, extra, 0), str(back)
    assert found.equal == back.equal == len(jaxpr.eqns)


@given(programs((*STEPS, arithmetic, arithmetic, arithmetic), max_eqns=8), st.data())
@settings(max_examples=35)
def test_one_equation_changed(jaxpr: Jaxpr, data: st.DataObject) -> None:
    """Another primitive, or another literal."""
    candidates = [i for i, eqn in enumerate(jaxpr.eqns) if eqn.primitive in (add, mul)]
    assume(candidates)
    at = data.draw(st.sampled_from(candidates))

    def change(ctx: StagingContext, number: int, eqn: Eqn, operands: list[Atom]) -> Sequence[Atom]:
        if number == at:
            return ctx.bind(mul if eqn.primitive == add else add, *operands)
        return ctx.bind(eqn.primitive, *operands)

    other = renumbered(jaxpr, change)
    found = diff(jaxpr, other)
    assert counts(found) == (0, 0, 1), str(found)
    (entry,) = (entry for entry in found.programs[0].entries if isinstance(entry, Changed))
    assert (entry.before, entry.after, entry.primitive) == (at, at, True)


def traced(f: Callable[[tj.Array], tj.Array]) -> ClosedJaxpr:
    return tj.make_jaxpr(f)(ShapedArray((3,), np.float64))


def test_text_of_an_insertion(golden: Golden) -> None:
    before = traced(lambda x: tnp.sum(tnp.sin(x) * 2.0 + tnp.cos(x)))
    after = traced(lambda x: tnp.sum(tnp.sin(x) * 2.0 - -tnp.cos(x), axis=0))
    golden("diff_insertion", str(diff(before, after)))
    golden("diff_removal", str(diff(after, before)))


def test_text_of_nested_programs(golden: Golden) -> None:
    def model(factor: float) -> ClosedJaxpr:
        def body(x: tj.Array) -> tj.Array:
            loop = tj.jit(lambda v: tj.lax.fori_loop(0, 3, lambda i, c: c * factor, v))
            return tnp.sum(tj.lax.cond(x[0] > 0, lambda v: tnp.sin(v) * factor, lambda v: loop(loop(v)), x))

        return traced(body)

    found = diff(model(2.0), model(3.0))
    golden("diff_nested", str(found))
    assert counts(found) == (0, 0, 2)
    assert len(found.programs) == 5  # the whole, two branches, the call's program, the loop's: each once


def test_text_of_inputs_outputs_and_constants(golden: Golden) -> None:
    small, large = np.arange(3.0), np.arange(30.0)
    before = tj.make_jaxpr(lambda x: (x * small, tnp.sum(large)))(small)
    after = tj.make_jaxpr(lambda x, y: (x * (small + 1) + y, tnp.sum(np.where(large == 7, -1, large)), y))(small, small)
    golden("diff_constants", str(diff(before, after)))
    golden("diff_fewer_constants", str(diff(before, tj.make_jaxpr(lambda x: (x * 2.0, 3.0))(small))))


def test_text_of_everything(golden: Golden) -> None:
    closed = everything()
    jaxpr = closed.jaxpr
    _, choose, last, _ = jaxpr.eqns
    (second, third) = jaxpr.outvars[2:]
    other = Jaxpr(
        jaxpr.invars,
        (
            Eqn(Choose((double(),)), choose.invars, (Var(2, F64),)),
            Eqn(last.primitive, (Var(1, WEAK), Var(2, F64)), (Var(3, F64),)),
            Eqn(Assorted((True, 1)), (Var(0, VEC), Var(3, F64)), (Var(4, VEC), Var(5, F64))),
        ),
        (Var(4, VEC), Var(5, F64), third, second),
    )
    typecheck(other)
    golden("diff_everything", str(diff(closed, ClosedJaxpr(other, closed.consts))))


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (Literal.of(1.0), Literal(1.0, F64), "operand 1: 1.0 -> 1.0:f64[]"),
        (Literal.of(0.0), Literal.of(-0.0), "operand 1: 0.0 -> -0.0"),
        (Literal.of(float("nan")), Literal.of(bits(0x7FF8000000000001)), "operand 1: nan -> nan(0x7ff8000000000001)"),
        (Literal.of(1), Literal.of(1.0), "operand 1: 1 -> 1.0"),
    ],
)
def test_literals_differ_by_type_and_bits(old: Literal, new: Literal, line: str) -> None:
    x, y = (program([F64], lambda ctx, x, atom=atom: ctx.bind(Assorted(None), x, atom)) for atom in (old, new))
    found = diff(x, y)
    assert counts(found) == (0, 0, 1)
    assert line in str(found)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (1, True, "parameter: 1 -> True"),
        (0.0, -0.0, "parameter: 0.0 -> -0.0"),
        ((1, (2,)), (1, (3,)), "parameter: (1, (2,)) -> (1, (3,))"),
        ("a" * 70 + "x", "a" * 70 + "y", "aaaax"),
        (array([1, 2], np.dtype("f8")), array([1, 3], np.dtype("f8")), "array(f64[2], [1.0, 2.0]) -> array("),
        (array(range(40), np.dtype("i4")), array([0, 5, *range(2, 40)], np.dtype("i4")), "1 of 40 elements differ"),
        (None, double(), "parameter: none -> { ... }"),
        ((double(),), (double(), double()), "parameter[1]: none -> { ... }"),
        (frozenset({"a"}), frozenset({"b"}), "parameter: {a} -> {b}"),
    ],
)
def test_parameters(old: object, new: object, line: str) -> None:
    x, y = (program([F64], lambda ctx, x, value=value: ctx.bind(Assorted(value), x)) for value in (old, new))
    found = diff(x, y)
    assert counts(found) == (0, 0, 1)
    assert line in str(found)


def test_weak_types_of_inputs() -> None:
    strong, weak = (program([aval], lambda ctx, x: ctx.bind(sin, x)) for aval in (F64, WEAK))
    found = diff(strong, weak)
    assert found.programs[0].changed_inputs == ((0, 0),)
    assert "- { lambda ; a:f64[]. let\n+ { lambda ; a:~f64[]. let" in str(found)
    assert "type of b: f64[] -> ~f64[]" in str(found)


def test_color_only_if_asked_for() -> None:
    found = diff(double(), program([F64], lambda ctx, x: ctx.bind(mul, Literal.of(3.0), x)))
    assert "\x1b[33m~" in found.text(color=True)
    assert "\x1b" not in str(found)


def test_unchanged_stretches_are_left_out() -> None:
    long = chain(100)
    other = renumbered(
        long, lambda ctx, i, eqn, xs: ctx.bind(neg if i == 50 else eqn.primitive, *xs[-1 if i == 50 else 0 :])
    )
    lines = diff(long, other).text(context=3).splitlines()
    assert [line for line in lines if "..." in line] == [
        "      ... 47 equations unchanged",
        "      ... 46 equations unchanged",
    ]
    assert len(lines) == 1 + 1 + 1 + 3 + 2 + 3 + 1 + 1


def test_a_closed_program_without_constants_is_like_an_open_one() -> None:
    assert not diff(double(), ClosedJaxpr(double()))


def test_only_programs_have_differences() -> None:
    with pytest.raises(InputError, match=r"diff takes a program: a Jaxpr, a ClosedJaxpr or .*, not a function"):
        diff(double(), cast(Jaxpr, lambda x: x))


def test_deep_nesting_needs_no_recursion() -> None:
    deep = nested(1000)
    other = program([F64], lambda ctx, x: ctx.bind(mul, Literal.of(3.0), x))
    for _ in range(1000):
        other = applied(other)
    found = diff(deep, other)
    assert len(found.programs) == 1001
    assert counts(found) == (0, 0, 1)
    assert found == diff(deep, other)
    assert len(str(found)) < 500_000


def test_many_changes_take_near_linear_time() -> None:
    """Counted in comparisons that the alignment makes."""

    class Counted:
        compared = 0

        def __init__(self, value: int) -> None:
            self.value = value

        @override
        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return isinstance(other, Counted) and self.value == other.value

        @override
        def __hash__(self) -> int:
            return hash(self.value)

    source = random.Random(0)
    work = []
    for size in (500, 2000):
        Counted.compared = 0
        a, b = ([Counted(source.randrange(8)) for _ in range(size)] for _ in range(2))
        align(a, b)
        work.append(Counted.compared)
    assert work[1] < 8 * work[0]
