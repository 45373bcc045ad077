"""What follows from rows of a stack is put in order row by row, and is one loop then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.checks import assert_close, numbers, program, run
from tinyjax import Array, ShapedArray, lax, transforms
from tinyjax.ir import Jaxpr, Var
from tinyjax.ir.program import Eqn
from tinyjax.transforms.by_row import by_row
from tinyjax.transforms.rows import find_lazy

COUNT: Final = 12
V: Final = ShapedArray((4,), "float64")
Arrays: TypeAlias = Sequence[Array]
#: New values, given gradients, weights and moments.
Step: TypeAlias = Callable[[Arrays, Arrays, Arrays], Arrays]


def descent(gs: Arrays, ws: Arrays, ms: Arrays) -> Arrays:
    return [w - 0.1 * g for w, g in zip(ws, gs, strict=True)]


def named_otherwise(gs: Arrays, ws: Arrays, ms: Arrays) -> Arrays:
    """As where the names of layers are sorted: the first, the tenth, the eleventh, the second."""
    order = sorted(range(COUNT), key=str)
    new = {i: ws[i] - 0.1 * gs[i] for i in order}
    return [new[i] for i in range(COUNT)]


def momentum(gs: Arrays, ws: Arrays, ms: Arrays) -> Arrays:
    ms = [0.9 * m + g for m, g in zip(ms, gs, strict=True)]
    return [*ms, *(w - 0.1 * m for w, m in zip(ws, ms, strict=True))]


def decayed(gs: Arrays, ws: Arrays, ms: Arrays) -> Arrays:
    """All weights are scaled before anything is done with a gradient."""
    scaled = [0.01 * w for w in ws]
    return [w - 0.1 * (g + d) for w, g, d in zip(ws, gs, scaled, strict=True)]


def clipped(gs: Arrays, ws: Arrays, ms: Arrays) -> Arrays:
    norm = tnp.sqrt(tnp.sum(tnp.stack([tnp.sum(g * g) for g in gs])))
    factor = tnp.minimum(1.0, 1.0 / norm)
    ms = [0.9 * m + factor * g for m, g in zip(ms, gs, strict=True)]
    return [*ms, *(w - 0.1 * tnp.tanh(m) for w, m in zip(ws, ms, strict=True))]


def clipped_twice(gs: Arrays, ws: Arrays, ms: Arrays) -> Arrays:
    """What follows from all rows is part of what follows from each, twice one after the other."""
    for _ in range(2):
        norm = tnp.sqrt(tnp.sum(tnp.stack([tnp.sum(g * g) for g in gs])))
        gs = [tnp.sin(g / norm) for g in gs]
    return descent(gs, ws, ms)


def scheduled(gs: Arrays, ws: Arrays, ms: Arrays) -> Arrays:
    """Numbers that follow from an input alone are read by all rows."""
    rate = 0.1 / (1.0 + tnp.sum(ms[0]) ** 2)
    return [w - rate * tnp.tanh(g) for w, g in zip(ws, gs, strict=True)]


def shifted(gs: Arrays, ws: Arrays, ms: Arrays) -> Arrays:
    """Each is updated by its gradient and the next one's."""
    return [w - 0.1 * (g + h) for w, g, h in zip(ws, gs, [*gs[1:], gs[0]], strict=True)]


def one_otherwise(gs: Arrays, ws: Arrays, ms: Arrays) -> Arrays:
    return [tnp.sin(w) if i == 5 else w - 0.1 * g for i, (w, g) in enumerate(zip(ws, gs, strict=True))]


def one_longer(gs: Arrays, ws: Arrays, ms: Arrays) -> Arrays:
    gs = [*gs[:-1], tnp.sin(gs[-1])]
    return descent(gs, ws, ms)


def some_alone(gs: Arrays, ws: Arrays, ms: Arrays) -> Arrays:
    return descent(gs[:8], ws[:8], ms)


def many_others(gs: Arrays, ws: Arrays, ms: Arrays) -> Arrays:
    new, x = descent(gs, ws, ms), ms[0]
    for m in ms:
        x = tnp.sin(x) * tnp.cos(m) + 1.0
    return [*new, x]


STEPS: Final[dict[Step, int]] = {
    descent: 1,
    named_otherwise: 1,
    momentum: 1,
    decayed: 1,
    clipped: 2,
    clipped_twice: 3,
    scheduled: 1,
}
OTHERS: Final[Sequence[Step]] = [shifted, one_otherwise, one_longer, some_alone, many_others]


def of_step(step: Step) -> Jaxpr:
    """The program of a step whose gradients a loop makes."""

    def whole(x: Array, *inputs: Array) -> Arrays:
        stack = lax.scan(lambda c, _: (c * 0.9, tnp.sin(c)), x, None, length=COUNT)[1]
        return step(tnp.unstack(stack), inputs[:COUNT], inputs[COUNT:])

    return program(whole, V, *[V] * (2 * COUNT))


def ordered(jaxpr: Jaxpr) -> tuple[list[Eqn], list[int]] | None:
    """The equations row by row, and how often each of their runs repeats itself; they must be the same ones, each after
    what it reads."""
    lazy = find_lazy(jaxpr)
    eqns = [eqn for i, eqn in enumerate(jaxpr.eqns) if i not in lazy.positions]
    found = by_row(eqns, lazy)
    if found is None:
        return None
    assert sorted(map(id, found[0])) == sorted(map(id, eqns))
    made = {var.index for var in jaxpr.invars}
    for eqn in found[0]:
        assert {lazy.root(atom).index for atom in eqn.invars if isinstance(atom, Var)} <= made
        made.update(out.index for out in eqn.outvars)
    return found[0], [each.count for each in found[1]]


def check_loops(jaxpr: Jaxpr, loops: int, seed: int = 0) -> None:
    """It has so many loops, besides the one that makes the stack, and computes the same."""
    found = transforms.repeats(jaxpr, bordered=True)
    assert [each.count for each in found.found] == [COUNT] * loops
    args = numbers(jaxpr.in_avals, seed)
    assert_close(run(found.program.jaxpr, args), run(jaxpr, args))


@pytest.mark.parametrize("step", STEPS)
def test_rows(step: Step) -> None:
    jaxpr = of_step(step)
    found = ordered(jaxpr)
    assert found is not None
    assert found[1] == [COUNT] * STEPS[step]
    check_loops(jaxpr, STEPS[step])


@pytest.mark.parametrize("step", OTHERS)
def test_others_are_left(step: Step) -> None:
    jaxpr = of_step(step)
    assert ordered(jaxpr) is None
    result = transforms.reroll(jaxpr, bordered=True)
    args = numbers(jaxpr.in_avals)
    assert_close(run(result, args), run(jaxpr, args))


def test_effects_stay_in_order() -> None:
    def shown(gs: Arrays, ws: Arrays, ms: Arrays) -> Arrays:
        for g in gs:
            tj.debug.print("{}", g)
        return descent(gs, ws, ms)

    assert ordered(of_step(shown)) is None


def test_nothing_but_rows_is_put_in_order() -> None:
    def plain(x: Array, *ws: Array) -> Arrays:
        return [w - 0.1 * x for w in ws]

    assert ordered(program(plain, V, *[V] * COUNT)) is None


@st.composite
def updates(draw: st.DrawFn) -> Step:
    """One update for all rows, of some of what they have and of what they share, and the order in which it is made."""
    depth = draw(st.integers(1, 5))
    kinds = [draw(st.integers(0, 5)) for _ in range(depth)]
    places = [draw(st.integers(0, 20)) for _ in range(2 * depth)]
    order = draw(st.permutations(range(COUNT)))
    by_layer = draw(st.booleans())

    def applied(kind: int, x: Array, y: Array, shared: Array) -> Array:
        match kind:
            case 0:
                return x + y
            case 1:
                return x * tnp.tanh(y)
            case 2:
                return x - shared * y
            case 3:
                return tnp.where(x > y, x, 0.5 * y)
            case 4:
                return tnp.sin(x) * shared
            case _:
                return x / (1.0 + y * y)

    def step(gs: Arrays, ws: Arrays, ms: Arrays) -> Arrays:
        shared = tnp.tanh(tnp.sum(ws[3]))
        values = {i: [gs[i], ws[i], ms[i]] for i in range(COUNT)}

        def one(i: int, j: int) -> None:
            own = values[i]
            x, y = own[places[2 * j] % len(own)], own[places[2 * j + 1] % len(own)]
            own.append(applied(kinds[j], x, y, shared))

        pairs = (
            [(i, j) for i in order for j in range(depth)] if by_layer else [(i, j) for j in range(depth) for i in order]
        )
        for i, j in pairs:
            one(i, j)
        return [ws[i] - 0.1 * (own[-1] + gs[i]) for i, own in values.items()]

    return step


@settings(max_examples=25, deadline=None)
@given(updates(), st.integers(0, 1000))
def test_any_update_is_one_loop(step: Step, seed: int) -> None:
    jaxpr = transforms.dce(of_step(step))
    assert ordered(jaxpr) is not None
    check_loops(jaxpr, 1, seed)
