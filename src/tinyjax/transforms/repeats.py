"""Where the equations of a program repeat themselves: runs of consecutive blocks that do the same."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final, TypeAlias, final

import numpy as np
import numpy.typing as npt
from attrs import frozen

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import must_stay
from tinyjax.ir.equality import same_value
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Var

Numbers: TypeAlias = npt.NDArray[np.int64]
#: For each variable: the position of the equation that computes it (-1: none of these), and which of its results it is.
Producers: TypeAlias = Mapping[int, tuple[int, int]]
#: The type of an atom.
_TYPE: Final[Callable[[Atom], ShapedArray]] = attrgetter("aval")
#: At most so many periods are tried at each length of windows, and so many beginnings within one stretch.
_PERIODS: Final = 64
_BEGINNINGS: Final = 64
#: So many blocks are a run at least.
_BLOCKS: Final = 2
#: In how many kinds blocks may be in turn that are told apart by what they read alone.
_IN_TURN: Final = (2, 3, 4)
#: So many places where blocks may begin as well are looked at.
_PLACES: Final = 64


@final
@frozen
class Run:
    """`count` blocks of `period` equations each, the first of which is at `start`; they do the same.

    `others`: where the first one may be as well, with hardly more bytes handed on.
    """

    start: int
    period: int
    count: int
    others: tuple[int, ...] = ()

    @property
    def stop(self) -> int:
        return self.start + self.period * self.count

    @property
    def saved(self) -> int:
        """How many equations there are but once."""
        return self.period * (self.count - 1)


def labels(eqns: Sequence[Eqn]) -> Numbers:
    """A number for each equation: the same for those which apply the same primitive to operands of the same types.

    One that has an effect which must stay is like no other.
    """
    primitives = _Interned()
    types: dict[ShapedArray, int] = {}
    keys: dict[Hashable, int] = {}
    known: dict[tuple[int, ...], int] = {}  # by identity: most are the same objects, which the equations keep alive
    found: list[int] = []
    for i, eqn in enumerate(eqns):
        same = (id(eqn.primitive), *map(id, map(_TYPE, eqn.invars)))
        label = known.get(same)
        if label is None:
            number = primitives.number(eqn.primitive)
            own = [i] if number < 0 else [types.setdefault(atom.aval, len(types)) for atom in eqn.invars]
            label = keys.setdefault((number, *own), len(keys))
            if number >= 0:
                known[same] = label
        found.append(label)
    return np.array(found, np.int64)


@final
class _Interned:
    """Numbers for primitives: one for all that are the same, to the bit; -1 for those with effects that must stay."""

    def __init__(self) -> None:
        self._by_identity: dict[int, int] = {}
        self._by_value: dict[Primitive, list[tuple[Primitive, int]]] = {}
        self._count = 0

    def number(self, primitive: Primitive) -> int:
        known = self._by_identity.get(id(primitive))
        if known is not None:
            return known
        if must_stay(primitive.effects):
            number = -1
        else:
            number = self._equal(primitive)
        # The equations keep it alive, so that its identity stays its own.
        self._by_identity[id(primitive)] = number
        return number

    def _equal(self, primitive: Primitive) -> int:
        alike = self._by_value.setdefault(primitive, [])
        # Equal parameters may still differ: 0.0 and -0.0, or 1 and True.
        same = [number for other, number in alike if same_value(other, primitive)]
        if same:
            return same[0]
        self._count += 1
        alike.append((primitive, self._count))
        return self._count


@final
class Reads:
    """What equations read: their operands one after the other, by who computes each."""

    def __init__(self, eqns: Sequence[Eqn], producers: Producers) -> None:
        counts = [len(eqn.invars) for eqn in eqns]
        self.first: Numbers = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
        self.reader: Numbers = np.repeat(np.arange(len(eqns), dtype=np.int64), counts)
        self.operands: list[Atom] = [atom for eqn in eqns for atom in eqn.invars]
        places = [producers[atom.index] if type(atom) is Var else (-1, 0) for atom in self.operands]
        pairs = np.fromiter(chain.from_iterable(places), np.int64, 2 * len(places)).reshape(-1, 2)
        self.producer: Numbers = pairs[:, 0]
        self.result: Numbers = pairs[:, 1]

    def breaks(self, start: int, stop: int, period: int) -> tuple[int, int] | None:
        """The first equation of a run from `start` that reads something else than the one a period before it does, and
        where a run that has both may begin at the earliest; None: there is none up to `stop`.

        They read the same if what they read is as far apart as they are, or is both computed before the run; and so
        they do if the later one reads what the first block computes, and the other one what is handed to that.
        """
        late = slice(self.first[start + period], self.first[stop])
        early = slice(self.first[start], self.first[stop - period])
        a, b = self.producer[late], self.producer[early]
        moves = (a == b + period) & (b >= 0) & (self.result[late] == self.result[early])
        fits = moves | ((b < start) & (a < start + period))
        at = int(np.argmin(fits)) if len(fits) else 0
        if not len(fits) or fits[at]:
            return None
        x, y = int(a[at]), int(b[at])
        after = max(y, x - period) + 1
        return int(self.reader[late][at]), after if start < after <= x else max(x, y) + 1


def periods(found: Numbers) -> list[int]:
    """Periods that the labels may have somewhere, with what is likely to save most first.

    Windows of 1, 2, 4, … labels are told apart by number, and the distance of a window to the next one that is equal is
    a candidate: within a run, that of windows about as long as a block is the period itself. So it takes time in
    proportion to n log n.
    """
    n = len(found)
    weights: dict[int, int] = {}
    windows = found
    width = 1
    while width <= n // 2 and len(windows) > 1:
        order = np.argsort(windows, kind="stable")
        same = windows[order][1:] == windows[order][:-1]
        if not same.any():
            break
        distances = (order[1:] - order[:-1])[same]
        values, counts = np.unique(distances, return_counts=True)
        # In a run of n blocks, n - 1 times the period.
        for i in np.argsort(-counts * np.minimum(values, counts), kind="stable")[:_PERIODS]:
            value, count = int(values[i]), int(counts[i])
            weights[value] = max(weights.get(value, 0), count)
        if width * 2 > n:
            break
        pairs = windows[: n - 2 * width + 1] * (n + 1) + windows[width : n - width + 1]
        windows = np.unique(pairs, return_inverse=True)[1].reshape(-1)
        width *= 2
    return sorted(weights, key=lambda period: (-weights[period], period))


def in_blocks(found: Numbers, likely: Sequence[int], reads: Callable[[], Reads]) -> bool:
    """Whether equations with these labels, which may have these periods, are one run as they stand, but for fewer
    others than it has blocks: so none of the others is for each block, and nothing is to be gained by another order."""
    for period in likely[:1]:
        for start, stop in _equal(found, period):
            if len(found) - (stop - start) < (stop - start) // period:
                return reads().breaks(start, stop, period) is None
    return False


def are_blocks(found: Numbers, reads: Callable[[], Reads], runs: Sequence[Run]) -> bool:
    """Whether these runs are there: equations with these labels, and they read the same."""
    for run in runs:
        blocks = found[run.start : run.stop].reshape(run.count, run.period)
        if not (blocks == blocks[0]).all() or reads().breaks(run.start, run.stop, run.period) is not None:
            return False
    return True


def find_runs(found: Numbers, likely: Sequence[int], reads: Reads, least: int = 1) -> list[Run]:
    """Disjoint runs of equations with these labels, which may have these periods, with those that save most chosen
    first; in order. `least`: how much a run must save to be of use."""
    heap: list[tuple[int, int, int, int]] = []  # what it saves (negative), period, start and stop
    todo, seen = list(likely), set(likely)
    for i, period in enumerate(todo):
        broken = False
        for start, stop in _equal(found, period):
            parts = list(_stretches(start, stop, reads, period))
            broken = broken or (parts != [(start, stop)] and stop - start >= 2 * _IN_TURN[0] * period)
            for part in parts:
                heapq.heappush(heap, _candidate(*part, period))
        if broken and i < len(likely):
            # Blocks of several kinds may differ in nothing but what they read.
            several = [period * k for k in _IN_TURN if period * k not in seen]
            todo += several
            seen.update(several)
    taken: list[tuple[int, int, int]] = []  # start, stop, period
    within = _Within(heap, least)
    while heap:
        _, period, start, stop = heapq.heappop(heap)
        if within.better(period, start, stop):
            continue
        parts = _without(start, stop, taken)
        if parts == [(start, stop)]:
            taken.append((start, stop, period))
            continue
        for a, b in parts:
            if (b - a) // period >= _BLOCKS:
                heapq.heappush(heap, _candidate(a, b, period))
    return [_aligned(start, stop, period, reads) for start, stop, period in sorted(taken)]


@final
class _Within:
    """Which runs are better left to those within their blocks, as those of stages of a net, which have a loop each.

    What the blocks of a loop read is stacked outside; the stacks of a loop within a block are made in each iteration,
    of all that its own blocks read. So loops within few blocks, which have many of their own, come to more with depth.
    """

    def __init__(self, candidates: Sequence[tuple[int, int, int, int]], least: int) -> None:
        rows = np.array([row for row in candidates if -row[0] >= least], np.int64).reshape(-1, 4)
        self._period, self._start, self._stop = rows[:, 1], rows[:, 2], rows[:, 3]
        self._least = least

    def better(self, period: int, start: int, stop: int) -> bool:
        """Whether blocks within these ones, at least twice as many in each, save half as much or more."""
        blocks = (stop - start) // period
        if period < 4 * blocks:
            return False
        inside = np.minimum(self._stop, stop) - np.maximum(self._start, start)
        counts = inside // self._period
        saved = self._period * (counts - 1)
        fits = (counts >= 2 * blocks) & (counts * self._period <= period) & (saved >= self._least)
        if not fits.any():
            return False
        found = np.bincount(np.unique(self._period[fits], return_inverse=True)[1], saved[fits])
        return bool(2 * found.max() >= period * (blocks - 1))


def _candidate(start: int, stop: int, period: int) -> tuple[int, int, int, int]:
    count = (stop - start) // period
    return -period * (count - 1), period, start, stop


def _equal(found: Numbers, period: int) -> Iterator[tuple[int, int]]:
    """Where the labels repeat with this period."""
    equal = np.concatenate([[False], found[period:] == found[:-period], [False]])
    changes = np.flatnonzero(equal[1:] != equal[:-1])
    for low, high in zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True):
        yield low, high + period


def _stretches(start: int, stop: int, reads: Reads, period: int) -> Iterator[tuple[int, int]]:
    """The parts of a stretch of such labels where the equations repeat also in what they read."""
    for _ in range(_BEGINNINGS):
        if stop - start < _BLOCKS * period:
            break
        broken = reads.breaks(start, stop, period)
        if broken is None:
            yield start, stop
            break
        if broken[0] - start >= _BLOCKS * period:
            yield start, broken[0]
        start = broken[1]


def _without(start: int, stop: int, taken: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """What is left of a stretch."""
    parts = [(start, stop)]
    for a, b, _ in taken:
        if a < stop and start < b:
            parts = [each for x, y in parts for each in ((x, min(y, a)), (max(x, b), y)) if each[0] < each[1]]
    return parts


def _aligned(start: int, stop: int, period: int, reads: Reads) -> Run:
    """The run in a stretch whose blocks hand the fewest bytes to each other: where a block begins is free.

    As many blocks as there may be, unless one block fewer hands on much less.
    """
    costs = _handed_on(start, stop, period, reads)
    spare = (stop - start) % period
    best = int(np.argmin(costs[: spare + 1]))
    if (stop - start) // period > 3:
        other = int(np.argmin(costs))
        if costs[other] * 4 < costs[best] * 3:
            best = other
    count = (stop - start - best) // period
    last = stop - start - count * period
    near = [int(at) for at in np.flatnonzero(costs[: last + 1] * 3 <= costs[best] * 4) if at != best]
    others = sorted(near, key=costs.__getitem__)[:_PLACES]
    return Run(start + best, period, count, tuple([start + at for at in others]))


def _handed_on(start: int, stop: int, period: int, reads: Reads) -> Numbers:
    """How many bytes cross the border between two blocks, for each place where that may be within a block."""
    # One block is like the others: the second last, so that what reads it is there.
    first = start + ((stop - start) // period - 2) * period
    low, high = int(reads.first[first]), int(reads.first[stop])
    last: dict[tuple[int, int], tuple[int, int]] = {}  # of each result: where it is read last, and its bytes
    for producer, result, reader, operand in zip(
        reads.producer[low:high].tolist(),
        reads.result[low:high].tolist(),
        reads.reader[low:high].tolist(),
        reads.operands[low:high],
        strict=True,
    ):
        if first <= producer < first + period:
            last[producer, result] = reader, operand.aval.nbytes
    costs = np.zeros(period, np.int64)
    for (producer, _), (reader, nbytes) in last.items():
        # It crosses every place after what computes it, up to what reads it last.
        whole, rest = divmod(reader - producer, period)
        begin = (producer + 1 - start) % period
        costs += nbytes * whole
        costs[begin : begin + rest] += nbytes
        costs[: max(begin + rest - period, 0)] += nbytes
    return costs
