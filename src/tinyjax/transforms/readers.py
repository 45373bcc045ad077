"""Who reads what in a program, and in which order that is followed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop

from tinyjax.ir.program import Eqn, Var


def readers_of(eqns: Sequence[Eqn]) -> dict[int, list[int]]:
    """For each variable that is read, the positions of the equations that do, as often as they do."""
    readers: dict[int, list[int]] = {}
    for i, eqn in enumerate(eqns):
        for atom in eqn.invars:
            if type(atom) is Var:
                readers.setdefault(atom.index, []).append(i)
    return readers


def in_order(todo: list[int]) -> Iterator[int]:
    """The numbers of a heap, each once, from the least on; others that are no less may be pushed meanwhile."""
    done: int | None = None
    while todo:
        at = heappop(todo)
        if at != done:
            done = at
            yield at
