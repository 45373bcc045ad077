"""Layers in a Python loop, by depth: tinyjax compiles them as loops (`jit(reroll=True)`), jax as they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from attrs import evolve

import tinyjax as tj
from benchmarks.library import OURS, THEIRS, A, Library
from benchmarks.timing import Comparison, check, compare

#: The width of a layer.
WIDTH = 16


def _rolled_compile(
    f: Callable[[Sequence[tj.Array]], object], args: Sequence[tj.Array]
) -> Callable[[Sequence[tj.Array]], object]:
    return tj.jit(f, reroll=True).lower(args).compile()


ROLLED: Library[tj.Array] = evolve(OURS, compile=_rolled_compile)


def gradient(lib: Library[A], depth: int, scale: float) -> Callable[[Sequence[A]], object]:
    """Of the sum of squares of what so many layers return, whose weights are the rows of one array."""

    def f(w: A) -> A:
        x = lib.tanh(w[0])
        for i in range(depth):
            y = x - lib.mean(x)
            y = y / lib.sqrt(lib.mean(y * y) + 1.0)
            x = x + lib.tanh(y @ w[i]) * scale
        return lib.sum(x * x)

    return lambda args: lib.grad(f)(args[0])


def weights(lib: Library[A], depth: int) -> list[A]:
    return [lib.asarray(np.random.default_rng(depth).normal(size=(depth, WIDTH, WIDTH)) / WIDTH)]


def building(lib: Library[A], depth: int) -> Callable[[], object]:
    """Traces, lowers and compiles: each time a program with another number in it, which no cache has seen."""
    args, built = weights(lib, depth), iter(range(1_000_000))
    return lambda: lib.compile(gradient(lib, depth, 0.5 + next(built) * 1e-3), args)


def running(lib: Library[A], depth: int) -> Callable[[], object]:
    """One step of what was compiled."""
    args = weights(lib, depth)
    compiled = lib.compile(gradient(lib, depth, 0.5), args)
    return lambda: lib.wait(compiled(args))


def depth(depths: Iterable[int], rounds: int) -> Iterator[Comparison]:
    """Compiling and running, by depth."""
    for n in depths:
        ours, theirs = building(ROLLED, n), building(THEIRS, n)
        few = rounds if n <= 48 else min(rounds, 3)  # one by jax takes a minute
        yield compare("layers as loops: compiling", f"{n} layers", ours, theirs, rounds=few, warm=False)
        first, second = running(ROLLED, n), running(THEIRS, n)
        check(f"{n} layers", [first()], [second()])
        yield compare("layers as loops: a step", f"{n} layers", first, second, rounds=2 * rounds + 1)
