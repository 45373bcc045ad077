"""In which order the equations of a program are looked through for runs, and the runs that are found."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import final

import numpy as np

from tinyjax.ir.program import Eqn, Jaxpr
from tinyjax.transforms.by_row import by_row
from tinyjax.transforms.early import early
from tinyjax.transforms.late import late
from tinyjax.transforms.near_repeats import Stopped, near_runs
from tinyjax.transforms.repeats import Numbers, Reads, Run, are_blocks, find_runs, in_blocks, labels, periods
from tinyjax.transforms.rows import Lazy


def order_of(jaxpr: Jaxpr, lazy: Lazy) -> Order:
    """The order in which runs are to be looked for: as they stand, if they are one run; row by row, where they follow
    from rows; or each where it can be applied first, or is needed."""
    found = Order(jaxpr, lazy, [eqn for i, eqn in enumerate(jaxpr.eqns) if i not in lazy.positions])
    if not lazy.rows:
        if in_blocks(found.labels, found.likely, lambda: found.reads):
            return found
    # Updates by rows of what a loop has made go in the loop's order.
    elif (rows := by_row(found.eqns, lazy)) is not None:
        ordered = Order(jaxpr, lazy, *rows)
        if are_blocks(ordered.labels, lambda: ordered.reads, rows[1]):
            return ordered
    return Order(jaxpr, lazy, late(early(found.eqns, lazy, jaxpr.outvars), lazy))


@final
class Order:
    """The equations that have a place of their own, in some order, and what that says about them. `known`: runs."""

    def __init__(self, jaxpr: Jaxpr, lazy: Lazy, eqns: list[Eqn], known: Sequence[Run] = ()) -> None:
        self._jaxpr = jaxpr
        self._lazy = lazy
        self._known = known
        self.eqns = eqns

    @cached_property
    def home(self) -> dict[int, tuple[int, int]]:
        """By which of them each variable is computed."""
        return self._lazy.homes(self._jaxpr, self.eqns)

    @cached_property
    def labels(self) -> Numbers:
        """A number for each, the same for those which are alike."""
        return labels(self.eqns)

    @cached_property
    def likely(self) -> list[int]:
        """With which periods these may repeat."""
        return periods(self.labels)

    @cached_property
    def reads(self) -> Reads:
        """What each reads."""
        return Reads(self.eqns, self.home)

    def runs(self, least: int, stopped: list[Stopped] | None) -> list[Run]:
        """The runs of these, each of which is to save so much; what stopped others is noted in a list, if one is
        given."""
        if not self._known:
            found = find_runs(self.labels, self.likely, self.reads, least)
        else:
            places = np.concatenate([np.arange(run.start, run.stop) for run in self._known])
            others = self.labels.copy()
            others[places] = -1 - places  # which are like no others
            found = find_runs(others, periods(np.delete(others, places)), self.reads, least)
            found = sorted([*self._known, *found], key=lambda run: run.start)
        if stopped is not None:
            stopped += near_runs(self.eqns, self.labels, self.reads, found)
        return found
