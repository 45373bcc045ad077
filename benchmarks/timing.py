"""Timing two functions against each other."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import final

from attrs import frozen


@final
@frozen
class Comparison:
    """What two functions took, round by round, in seconds; and per unit of work."""

    name: str
    units: int
    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        return [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)]

    @property
    def ratio(self) -> float:
        """The median ratio."""
        return statistics.median(self.ratios)

    def per_unit(self, times: tuple[float, ...]) -> float:
        """The median, in microseconds a unit."""
        return statistics.median(times) / self.units * 1e6


def measure(f: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def compare(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], *, units: int, rounds: int
) -> Comparison:
    """Runs the two in turn, after one round that doesn't count."""
    ours()
    theirs()
    times = [(measure(ours), measure(theirs)) for _ in range(rounds)]
    return Comparison(name, units, tuple(a for a, _ in times), tuple(b for _, b in times))
