"""Timing two functions against each other."""

from __future__ import annotations

import gc
import math
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import final

import numpy as np
from attrs import frozen

from benchmarks.library import Sizes


@final
@frozen
class Comparison:
    """What two functions took, round by round: seconds, or bytes; and how many units of work that was."""

    group: str
    name: str
    units: int
    ours: tuple[float, ...]
    #: Empty where there is nothing to compare with.
    theirs: tuple[float, ...] = ()
    unit: str = "µs"

    @property
    def ratios(self) -> list[float]:
        pairs = zip(self.ours, self.theirs, strict=True) if self.theirs else ()
        return [1.0 if ours == theirs else ours / theirs if theirs else math.inf for ours, theirs in pairs]

    @property
    def ratio(self) -> float | None:
        """The median ratio; None where there is nothing to compare with."""
        return statistics.median(self.ratios) if self.theirs else None

    @property
    def quartiles(self) -> tuple[float, float] | None:
        """Between which half of the rounds' ratios lie; None where there was only one round."""
        if len(self.ratios) < 2:
            return None
        lower, _, upper = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return lower, upper

    def per_unit(self, figures: tuple[float, ...]) -> float | None:
        """The median, in microseconds or bytes a unit."""
        return statistics.median(figures) / self.units * (1e6 if self.unit == "µs" else 1.0) if figures else None


def seconds(f: Callable[[], object]) -> float:
    """How long one call takes, with nothing left to collect from before."""
    gc.collect()
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def allocated(f: Callable[[], object]) -> float:
    """The most bytes that Python's allocator had handed out at once during a call, above those before."""
    gc.collect()
    tracemalloc.start()
    try:
        f()
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def compare(
    group: str,
    name: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    units: int = 1,
    rounds: int,
    warm: bool = True,
) -> Comparison:
    """Runs the two in turn, after a round that doesn't count if `warm`; the order changes from round to round."""
    if warm:
        ours()
        theirs()
    times: list[tuple[float, float]] = []
    for i in range(rounds):
        if i % 2:
            second = seconds(theirs)
            times.append((seconds(ours), second))
        else:
            first = seconds(ours)
            times.append((first, seconds(theirs)))
    return Comparison(group, name, units, tuple(a for a, _ in times), tuple(b for _, b in times))


def compare_sizes(group: str, name: str, ours: Sizes, theirs: Sizes) -> Iterator[Comparison]:
    """What XLA has made of the same program of both."""
    counts = (float(ours.instructions),), (float(theirs.instructions),)
    yield Comparison(f"{group}instructions after XLA", name, 1, *counts, unit="instructions")
    found = (float(ours.temporary),), (float(theirs.temporary),)
    yield Comparison(f"{group}temporary memory", name, 1, *found, unit="bytes")


def check(name: str, ours: object, theirs: object, rtol: float = 1e-7, atol: float = 1e-9) -> None:
    """An AssertionError unless the leaves of both results agree; or the times would mean nothing."""
    import jax

    leaves, others = jax.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(leaves) == len(others), name
    for x, y in zip(leaves, others, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=atol, err_msg=name)
