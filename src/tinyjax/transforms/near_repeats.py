"""What keeps equations from being repetitions: blocks that are nearly equal, and what differs between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
from attrs import frozen

from tinyjax.ir.effects import must_stay
from tinyjax.ir.equality import same_value
from tinyjax.ir.program import Eqn
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.traverse import record_values
from tinyjax.transforms.repeats import Numbers, Reads, Run, periods

#: Blocks of fewer equations aren't mentioned, and no more runs of them than this.
_PERIOD, _MOST = 4, 20


@final
@frozen
class Stopped:
    """About `count` blocks of `period` equations that look alike and didn't become a loop: what is otherwise at the
    line `source`."""

    source: SourceInfo | None
    count: int
    period: int
    why: str


def near_runs(eqns: Sequence[Eqn], found: Numbers, reads: Reads, taken: Sequence[Run]) -> list[Stopped]:
    """Blocks that apply the same primitives, but aren't equal: those which would save most, and what differs first."""
    classes: dict[tuple[type, int], int] = {}
    rough = np.array(
        [classes.setdefault((type(eqn.primitive), len(eqn.invars)), len(classes)) for eqn in eqns], np.int64
    )
    free = np.ones(len(eqns), bool)
    for run in taken:
        free[run.start : run.stop] = False
    candidates: list[tuple[int, int, int, int]] = []
    for period in periods(rough):
        if period < _PERIOD or 2 * period > len(eqns):
            continue
        equal = np.concatenate([[False], (rough[period:] == rough[:-period]) & free[period:] & free[:-period], [False]])
        changes = np.flatnonzero(equal[1:] != equal[:-1]).tolist()
        for low, high in zip(changes[::2], changes[1::2], strict=True):
            if high - low >= period:
                candidates.append((low - high, period, low, high + period))
    stopped: list[Stopped] = []
    for _, period, start, stop in sorted(candidates):
        if len(stopped) == _MOST or not free[start:stop].all():
            continue
        free[start:stop] = False
        differing = np.flatnonzero(found[start + period : stop] != found[start : stop - period])
        if differing.size:
            at = start + period + int(differing[0])
            why = _difference(eqns[at - period], eqns[at])
        else:
            broken = reads.breaks(start, stop, period)
            if broken is None:
                continue
            at = broken[0]
            why = f"{eqns[at].primitive.name} reads what another equation computes than in the block before"
        stopped.append(Stopped(eqns[at].source, (stop - start) // period, period, why))
    return stopped


def _difference(one: Eqn, other: Eqn) -> str:
    """What differs between two equations of primitives of the same class."""
    name = other.primitive.name
    if must_stay(other.primitive.effects):
        return f"{name} has an effect, so it stays where it is"
    for (field, value), (_, new) in zip(record_values(one.primitive), record_values(other.primitive), strict=True):
        if not same_value(value, new):
            shown = [" ".join(str(each).split()) for each in (value, new)]
            if max(map(len, shown)) > 60:
                return f"{field} of {name} differs"
            return f"{field} of {name} is {shown[0]}, and then {shown[1]}"
    for i, (x, y) in enumerate(zip(one.invars, other.invars, strict=True)):
        if x.aval != y.aval:
            return f"operand {i} of {name} is {x.aval}, and then {y.aval}"
    return f"{name} is another primitive"
