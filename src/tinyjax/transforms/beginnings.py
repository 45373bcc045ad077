"""Where a run of equal blocks begins, and how many of them are one: so that what differs lies in stacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, final

from attrs import evolve

from tinyjax.ir.program import Atom, Eqn, Var
from tinyjax.transforms.repeats import Run
from tinyjax.transforms.stacks import Row

#: How many blocks may be one.
_IN_TURN: Final = (2, 3, 4)
#: In how many blocks that follow each other inputs are compared: one more than may share them.
_WINDOW: Final = 5


@final
class Beginnings:
    """Of runs of these equations, among which are no inputs of the program. `row` says which row a value is by now."""

    def __init__(self, eqns: Sequence[Eqn], home: Mapping[int, tuple[int, int]], row: Callable[[Atom], Row | None]):
        self._eqns = eqns
        self._home = home
        self._row = row

    def best(self, run: Run) -> Run:
        """The run, with its first block where most of what differs from block to block lies in stacks already; or with
        several blocks as one, as where stacks of two kinds of layers are read in turn, or two layers share weights."""
        best = min([run, *(evolve(run, start=start) for start in run.others)], key=self._misfits) if run.others else run
        if best.count < 4:
            return best
        several = [
            evolve(best, start=best.start + best.period * first, period=best.period * k, count=count, others=())
            for k in _IN_TURN
            for first in range(k)
            for count in [(best.count - first) // k]
            if count > 3
        ]
        apart = [each for each in several if not self._shared(each)] if self._shared(best) else []
        if apart:
            return min(apart, key=self._turns)
        found = min([best, *(each for each in several if each.start == best.start)], key=self._turns)
        if found.period == best.period or not run.others:
            return found
        # What the single blocks read fits nowhere: it is in stacks in turn.
        return min([found, *(evolve(found, start=start) for start in (run.start, *run.others))], key=self._misfits)

    def _misfits(self, run: Run) -> int:
        """How many operands are rows in some blocks, and in others are not, or those of another stack."""
        return self._unlike(run, (0, 1, run.count - 1))

    def _turns(self, run: Run) -> float:
        """The same for three blocks in the middle that follow each other, for each equation."""
        middle = run.count // 2
        return self._unlike(run, (middle - 1, middle, middle + 1)) / run.period

    def _before(self, run: Run, blocks: Sequence[int]) -> Iterator[tuple[Atom, ...]]:
        """The operands of these blocks that are made before the run, side by side."""
        for j in range(run.period):
            for atoms in zip(*[self._eqns[run.start + at * run.period + j].invars for at in blocks], strict=True):
                if isinstance(atoms[0], Var) and self._home[atoms[0].index][0] < run.start:
                    yield atoms

    def _unlike(self, run: Run, blocks: tuple[int, int, int]) -> int:
        last = blocks[2] - blocks[0]
        return sum(not _fit(list(map(self._row, atoms)), last) for atoms in self._before(run, blocks))

    def _shared(self, run: Run) -> int:
        """How many inputs of the program blocks in the middle have in common with the next one, but not with all."""
        first = max(0, run.count // 2 - 2)
        found: list[tuple[int, ...]] = []
        for atoms in self._before(run, range(first, min(first + _WINDOW, run.count))):
            inputs = [atom.index for atom in atoms if isinstance(atom, Var) and self._home[atom.index] == (-1, 0)]
            if len(inputs) == len(atoms) and len(set(inputs)) > 1:
                found.append(tuple(inputs))
        blocks = [set(block) for block in zip(*found, strict=True)]
        return sum(len(one & other) for one, other in pairwise(blocks))


def _fit(rows: Sequence[Row | None], last: int) -> bool:
    """Whether values of one block, the next and a later one, which is so many after the first, are rows of one
    stack in order, or one value, or none is a row."""
    a, b, c = rows
    if a is None or b is None or c is None:
        return a is b is c
    step = b.at - a.at
    return a.stack == b.stack == c.stack and abs(step) <= 1 and c.at - a.at == step * last
