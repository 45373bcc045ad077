"""Whole programs, calls of compiled functions, eager operations, and the import."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.library import OURS, THEIRS, A, Library, Sizes
from benchmarks.programs import (
    PROGRAMS,
    Program,
    chain,
    choosing,
    composing,
    contracting,
    converting,
    drawing,
    indexing,
    mixed,
    moving,
    reducing,
    reshaping,
)
from benchmarks.staging import Family
from benchmarks.timing import Comparison, check, compare, compare_sizes

#: How often a compiled program is run in each round.
RUNS = 50


def compiling(rounds: int) -> Iterator[Comparison]:
    """Whole programs from the function to the executable, and running what was compiled."""
    for program in PROGRAMS:
        group, name = "trace, lower and compile", program.name
        yield compare(group, name, building(program, OURS), building(program, THEIRS), rounds=rounds)
        ours, theirs = compiled(program, OURS), compiled(program, THEIRS)
        check(name, ours(), theirs())
        yield compare(
            "run of a compiled program",
            name,
            repeat(ours, RUNS),
            repeat(theirs, RUNS),
            units=RUNS,
            rounds=2 * rounds + 1,
        )
        yield from compare_sizes("", name, sizes(program, OURS), sizes(program, THEIRS))


def sizes(program: Program, lib: Library[A]) -> Sizes:
    """What XLA makes of a program."""
    return lib.sizes(program.function(lib), list(map(lib.asarray, program.arrays)))


def building(program: Program, lib: Library[A]) -> Callable[[], object]:
    """Traces, lowers and compiles: each time a program with another number in it, which no cache has seen."""
    args = list(map(lib.asarray, program.arrays))
    numbers = itertools.count(1)

    def run() -> object:
        scale = 1.0 + next(numbers) * 1e-3
        function = program.function(lib)
        return lib.compile(lambda arrays: function([arrays[0] * scale, *arrays[1:]]), args)

    return run


def compiled(program: Program, lib: Library[A]) -> Callable[[], object]:
    """A call of the compiled program that waits for its results."""
    args = list(map(lib.asarray, program.arrays))
    function = lib.jit_any(program.function(lib))
    return lambda: lib.wait(function(args))


def repeat(f: Callable[[], object], times: int) -> Callable[[], None]:
    """A function that calls f so many times."""

    def run() -> None:
        for _ in range(times):
            f()

    return run


def incrementing(lib: Library[A]) -> Callable[..., object]:
    """A compiled function that does next to nothing with each of its arguments."""

    def increment(*args: A) -> list[A]:
        return [arg + 1.0 for arg in args]

    def increment_tree(tree: dict[str, A | list[A]]) -> dict[str, A | list[A]]:
        return {
            key: [x + 1.0 for x in value] if isinstance(value, list) else value + 1.0 for key, value in tree.items()
        }

    return lib.jit_any(lambda *args: increment_tree(args[0]) if isinstance(args[0], dict) else increment(*args))


def calls_of(f: Callable[..., object], args: Sequence[object]) -> Callable[[], None]:
    """Some hundred calls of a function."""
    return repeat(lambda: f(*args), CALLS)


CALLS = 300
#: How many rounds of what takes milliseconds: other processes disturb some of them.
SHORT = 5


def calling(rounds: int) -> Iterator[Comparison]:
    """Calls of compiled functions that do next to nothing, by what they take."""
    point = np.linspace(0.1, 0.9, 3)
    x, y = OURS.asarray(point), THEIRS.asarray(point)
    arguments: dict[str, tuple[list[object], list[object]]] = {
        "a Python number": ([1.5], [1.5]),
        "1 array": ([x], [y]),
        "10 arrays": ([x] * 10, [y] * 10),
        "100 arrays": ([x] * 100, [y] * 100),
        "a tree of 10 arrays": ([{"w": x, "layers": [x] * 9}], [{"w": y, "layers": [y] * 9}]),
        "1 NumPy array": ([point], [point]),
        "10 NumPy arrays": ([point] * 10, [point] * 10),
    }
    for name, (ours, theirs) in arguments.items():
        f, g = incrementing(OURS), incrementing(THEIRS)
        check(name, f(*ours), g(*theirs))
        yield compare(
            "call of a compiled function",
            name,
            calls_of(f, ours),
            calls_of(g, theirs),
            units=CALLS,
            rounds=SHORT * rounds,
        )


#: What about n operations are measured with.
EAGER: dict[str, Family] = {
    "operation": chain,
    "mixed arithmetic": mixed,
    "comparison, where": choosing,
    "index, slice": indexing,
    "reshape, transpose": reshaping,
    "sum, maximum": reducing,
    "dot": contracting,
    "astype": converting,
    "of several: //, %, mean": composing,
    "lax: sort, rev, cumsum, top_k": moving,
    "three random numbers": drawing,
}


def eager(rounds: int) -> Iterator[Comparison]:
    """Operations outside of everything, on small arrays, and gradients of functions of them.

    Our arrays are on the host until a compiled function has been involved, then on the device, as jax's always are.
    """
    n, point = 300, np.linspace(0.1, 0.9, 3)

    def operations(lib: Library[A], x: A, family: Family) -> Callable[[], object]:
        return lambda: family(lib, n)(x)

    def gradient(lib: Library[A], x: A) -> Callable[[], object]:
        return lambda: lib.grad(lambda x: lib.sum(chain(lib, n)(x)))(x)

    jax_x = THEIRS.asarray(point)
    for place, x in ("eager", OURS.asarray_on_host(point)), ("eager, on the device", OURS.asarray(point)):
        pairs = {name: (operations(OURS, x, of), operations(THEIRS, jax_x, of)) for name, of in EAGER.items()}
        for name, (ours, theirs) in {**pairs, "grad": (gradient(OURS, x), gradient(THEIRS, jax_x))}.items():
            check(name, ours(), theirs())
            yield compare(place, name, ours, theirs, units=n, rounds=SHORT * rounds)


def importing(rounds: int) -> Iterator[Comparison]:
    """A new process that imports the library."""

    def run(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    yield compare("import", "whole process", run("import tinyjax"), run("import jax"), rounds=rounds)
