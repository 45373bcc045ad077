"""Tracing, transforming and lowering programs, per equation; our own scaling; memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from benchmarks.library import OURS, THEIRS, A, Library
from benchmarks.programs import chain, mixed, nested, scans
from benchmarks.timing import Comparison, allocated, check, compare, seconds


class Family(Protocol):
    """A function of about n equations in a library."""

    def __call__(self, lib: Library[A], n: int) -> Callable[[A], A]: ...


FAMILIES: dict[str, Family] = {"chain": chain, "mixed": mixed, "nested calls": nested, "scans": scans}
POINT = np.linspace(0.1, 0.9, 9).reshape(3, 3)


def stages(lib: Library[A], family: Family, n: int) -> dict[str, Callable[[], object]]:
    """What is measured. Each run makes its function anew: both libraries remember what they have traced."""
    x = lib.asarray(POINT)

    def total() -> Callable[[A], A]:
        f = family(lib, n)
        return lambda x: lib.sum(f(x))

    return {
        "trace": lambda: lib.trace(family(lib, n), x),
        "trace and jvp": lambda: lib.trace(lambda x: lib.tangent(family(lib, n), x), x),
        "trace and vmap": lambda: lib.trace(lib.vmap(family(lib, n)), x),
        "trace and grad": lambda: lib.trace(lib.grad(total()), x),
        "trace and lower": lambda: lib.lower(family(lib, n), x),
    }


def staging(sizes: dict[str, tuple[int, ...]], rounds: int) -> Iterator[Comparison]:
    """Every stage of every family at every size."""
    for name, family in FAMILIES.items():
        check(name, family(OURS, 30)(OURS.asarray(POINT)), family(THEIRS, 30)(THEIRS.asarray(POINT)))
        for n in sizes[name]:
            theirs = stages(THEIRS, family, n)
            for stage, ours in stages(OURS, family, n).items():
                if stage == "trace and vmap" and name == "scans":
                    continue  # its point has no axis to spare
                few = rounds if n <= 10_000 else 1
                yield compare(
                    f"{name}, {n:,} equations", stage, ours, theirs[stage], units=n, rounds=few, warm=n <= 10_000
                )


def scaling(sizes: tuple[int, ...]) -> Iterator[Comparison]:
    """Our own cost at sizes that jax is not asked to bear."""
    for n in sizes:
        for stage, run in stages(OURS, chain, n).items():
            yield Comparison("our own scaling, chain", f"{stage}, {n:,} equations", n, (seconds(run),))


def memory(n: int) -> Iterator[Comparison]:
    """The most memory that Python's objects take while a program is traced, per equation."""
    for stage in ("trace", "trace and grad"):
        figures = [allocated(stages(lib, chain, n)[stage]) for lib in (OURS,)]
        others = [allocated(stages(lib, chain, n)[stage]) for lib in (THEIRS,)]
        yield Comparison("peak memory", f"{stage}, {n:,} equations", n, tuple(figures), tuple(others), unit="bytes")
