"""What loops have in common: carries that a body takes and returns, and programs with their inputs in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tinyjax.caching import remembered, remembered_of
from tinyjax.contexts.staging import stage
from tinyjax.errors import TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.ir.program_value import well_typed
from tinyjax.ir.type_lists import all_match, listed
from tinyjax.ir.verify import verify

T = TypeVar("T")
R = TypeVar("R")


def fixpoint(
    marks: Sequence[bool], step: Callable[[tuple[bool, ...]], tuple[R, Sequence[bool]]]
) -> tuple[tuple[bool, ...], R]:
    """Which carries have a property (a tangent, a mapped axis, being unknown) at the start or after some iteration.

    `marks` says which have it at the start. `step` transforms the body for given marks, and says which carries have it
    after the body. Returns the marks that the body keeps, and the body transformed for them. Each step marks at least
    one carry more, so there are at most as many steps as carries, and one.
    """
    current = tuple(marks)
    while True:
        result, found = step(current)
        joined = tuple(mark or new for mark, new in zip(current, found, strict=True))
        if joined == current:
            return current, result
        current = joined


def groups(items: Sequence[T], sizes: Sequence[int]) -> list[Sequence[T]]:
    """The items in consecutive groups of these sizes, and the rest as the last one."""
    found = []
    start = 0
    for size in sizes:
        found.append(items[start : start + size])
        start += size
    found.append(items[start:])
    return found


def interleaved(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    """The order that takes groups A1 A2 … B1 B2 …, whose sizes are given, to A1 B1 A2 B2 …."""
    total = range(sum(first) + sum(second))
    parts = groups(total, [*first, *second])
    n = len(first)
    return tuple(i for a, b in zip(parts[:n], parts[n : 2 * n], strict=True) for i in (*a, *b))


@remembered_of
def rearranged(jaxpr: Jaxpr, inputs: tuple[int, ...] | None, outputs: tuple[int, ...] | None = None) -> Jaxpr:
    """The program with its inputs and outputs in another order: for each new one, which of the old it is.

    Outputs may be left out or repeated. None: as they are.
    """
    verify(jaxpr)
    order = range(len(jaxpr.invars)) if inputs is None else inputs
    invars = tuple([Var(new, jaxpr.invars[old].aval) for new, old in enumerate(order)])
    # What equations bind keeps its numbers, so only those change that read an input.
    moved = dict(zip(order, invars, strict=True))

    def read(atom: Atom) -> Atom:
        return moved.get(atom.index, atom) if isinstance(atom, Var) else atom

    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        ins = tuple(map(read, eqn.invars))
        eqns.append(eqn if ins == eqn.invars else Eqn(eqn.primitive, ins, eqn.outvars, eqn.source))
    outs = tuple(map(read, jaxpr.outvars))
    return well_typed(Jaxpr(invars, tuple(eqns), outs if outputs is None else tuple([outs[i] for i in outputs])))


@remembered
def with_unused(jaxpr: Jaxpr, avals: tuple[ShapedArray, ...]) -> Jaxpr:
    """The program with more inputs, last, which it doesn't use."""
    n = len(jaxpr.invars)
    return stage([*jaxpr.in_avals, *avals], lambda ctx, ins: interpret(ctx, jaxpr, ins[:n]))


def check_carry(what: str, before: Sequence[ShapedArray], after: Sequence[ShapedArray]) -> None:
    """A TypingError unless a body returns carries of the types that it takes."""
    if not all_match(before, after):
        raise TypingError(f"the body of {what} takes the carry {listed(before)}, but returns {listed(after)}")


def positions(marks: Iterable[bool]) -> list[int]:
    """Where the marks are set."""
    return [i for i, mark in enumerate(marks) if mark]
