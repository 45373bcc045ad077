"""Programs that close over arrays: edges of a graph, masks, statistics. Each is a function of one array, written once.

Measured are compiling the gradient, a run of it, what reverse mode keeps, and the memory that a run takes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final, final

import numpy as np
from typing_extensions import override

from benchmarks.library import OURS, THEIRS, A, Library, Sizes
from benchmarks.running import RUNS, repeat
from benchmarks.timing import Comparison, check, compare, compare_sizes

ROWS, EDGES, WIDTH = 256, 1024, 32
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, WIDTH))
W = RNG.normal(size=(WIDTH, WIDTH)) / WIDTH
SENDERS, RECEIVERS = (RNG.integers(0, ROWS, EDGES) for _ in range(2))
ORDER = RNG.permutation(ROWS)
MASK = RNG.random((ROWS, ROWS)) < 0.5
MEAN, VARIANCE = X.mean(0), X.var(0)


class Closing(ABC):
    """A function of X in a library of one's choice, which closes over arrays of that library."""

    name: ClassVar[str]

    @abstractmethod
    def __call__(self, lib: Library[A]) -> Callable[[A], A]:
        """The function."""


@final
class Graph(Closing):
    """Two rounds of messages along the edges of a graph."""

    name: ClassVar[str] = "messages on a graph"

    @override
    def __call__(self, lib: Library[A]) -> Callable[[A], A]:
        senders, receivers, w = map(lib.asarray, (SENDERS, RECEIVERS, W))

        def f(x: A) -> A:
            for _ in range(2):
                messages = lib.tanh((lib.rows_at(x, senders) - lib.rows_at(x, receivers)) @ w)
                x = x + lib.rows_added(ROWS, receivers, messages)
            return x

        return f


@final
class Permuted(Closing):
    """Rows in another order, and back."""

    name: ClassVar[str] = "permutation"

    @override
    def __call__(self, lib: Library[A]) -> Callable[[A], A]:
        order, back = lib.asarray(ORDER), lib.asarray(np.argsort(ORDER))
        return lambda x: lib.rows_at(lib.sin(lib.rows_at(x, order)), back)


@final
class Masked(Closing):
    """Attention under a mask."""

    name: ClassVar[str] = "attention under a mask"

    @override
    def __call__(self, lib: Library[A]) -> Callable[[A], A]:
        mask, w, never = lib.asarray(MASK), lib.asarray(W), lib.asarray(-1e9)

        def f(x: A) -> A:
            scores = lib.where(mask, (x @ w) @ lib.transpose(x), never)
            e = lib.exp(scores - lib.maximum_over(scores))
            return (e / lib.total_over(e)) @ x

        return f


@final
class Normalised(Closing):
    """Statistics that were computed before, and a layer."""

    name: ClassVar[str] = "normalisation"

    @override
    def __call__(self, lib: Library[A]) -> Callable[[A], A]:
        mean, variance, w = map(lib.asarray, (MEAN, VARIANCE, W))
        return lambda x: lib.tanh(((x - mean) / lib.sqrt(variance + 1e-5)) @ w)


CLOSING: Final[tuple[Closing, ...]] = (Graph(), Permuted(), Masked(), Normalised())


def gradient(program: Closing, lib: Library[A], scale: float = 1.0) -> Callable[[Sequence[A]], A]:
    """The gradient of a sum of squares, as a function of a list of one array."""
    f = program(lib)

    def loss(x: A) -> A:
        y = f(x)
        return lib.sum(y * y * scale)

    return lambda args: lib.grad(loss)(args[0])


def building(program: Closing, lib: Library[A]) -> Callable[[], object]:
    """Traces, lowers and compiles: each time a program with another number in it, which no cache has seen."""
    args, built = [lib.asarray(X)], iter(range(1_000_000))
    return lambda: lib.compile(gradient(program, lib, 1.0 + next(built) * 1e-3), args)


def running(program: Closing, lib: Library[A]) -> Callable[[], object]:
    """A run of what was compiled, which waits for its results."""
    args = [lib.asarray(X)]
    compiled = lib.jit_any(gradient(program, lib))
    return lambda: lib.wait(compiled(args))


def kept(program: Closing, lib: Library[A]) -> float:
    """The bytes that reverse mode keeps."""
    return float(lib.kept(program(lib), lib.asarray(X)))


def sizes(program: Closing, lib: Library[A]) -> Sizes:
    """What XLA makes of the gradient."""
    return lib.sizes(gradient(program, lib), [lib.asarray(X)])


def closing(rounds: int) -> Iterator[Comparison]:
    """All of these."""
    for program in CLOSING:
        name = program.name
        ours, theirs = running(program, OURS), running(program, THEIRS)
        check(name, ours(), theirs())
        yield compare(
            "closing over arrays: compiling", name, building(program, OURS), building(program, THEIRS), rounds=rounds
        )
        yield compare(
            "closing over arrays: a run",
            name,
            repeat(ours, RUNS),
            repeat(theirs, RUNS),
            units=RUNS,
            rounds=2 * rounds + 1,
        )
        found = (kept(program, OURS),), (kept(program, THEIRS),)
        yield Comparison("closing over arrays: kept by vjp", name, 1, *found, unit="bytes")
        yield from compare_sizes("closing over arrays: ", name, sizes(program, OURS), sizes(program, THEIRS))
