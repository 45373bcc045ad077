"""An interrupt anywhere in tracing, transforming, lowering and compiling leaves everything usable."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import lax
from tinyjax import numpy as tnp
from tinyjax.collecting import FewCollections
from tinyjax.tracing.concrete import ROOT, innermost

OURS = os.path.dirname(tj.__file__) + os.sep


def fresh() -> Callable[[Any], Any]:
    """A function that nobody has traced yet, with something of everything."""

    @tj.custom_jvp
    def sine(x: Any) -> Any:
        return tnp.sin(x)

    sine.defjvp(lambda primals, tangents: (sine(primals[0]), tnp.cos(primals[0]) * tangents[0]))

    def f(x: Any) -> Any:
        y = tj.jit(lambda a: sine(a) * 2.0)(x)
        z = lax.cond(y > 0.0, lambda a: a * 3.0, lambda a: a, y)
        return lax.scan(lambda c, i: (c + z * i, c), 0.0, np.arange(3.0))[0]

    return f


def use(f: Callable[[Any], Any], compiled: Callable[[Any], Any]) -> list[float]:
    mapped = tj.vmap(tj.jit(tj.grad(f)))(np.full(2, 0.5))
    return [float(compiled(0.5)), float(tj.grad(compiled)(0.5)), *map(float, mapped)]


class Interrupting:
    """Counts the lines and calls of the library that are run, and raises an error at one of them."""

    def __init__(self, at: int, error: type[BaseException]) -> None:
        self.at = at
        self.error = error
        self.count = 0
        self.where = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> Interrupting | None:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        if frame.f_code.co_name == "__del__":  # Python reports what is raised there, and goes on
            return None
        if event in ("line", "call"):
            self.count += 1
            if self.count == self.at:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                sys.settrace(None)
                raise self.error
        return self


def interrupted(at: int, error: type[BaseException]) -> tuple[Interrupting, Callable[[Any], Any], Callable[[Any], Any]]:
    """What was interrupted, which then has gone half its way."""
    f = fresh()
    compiled = tj.jit(f)
    tracer, before = Interrupting(at, error), sys.gettrace()
    sys.settrace(tracer)
    try:
        use(f, compiled)
    except error:
        pass
    finally:
        sys.settrace(before)
    return tracer, f, compiled


def check(points: int, seed: int) -> None:
    first = fresh()
    expected = use(first, tj.jit(first))
    widest = jax.dtypes.canonicalize_dtype(np.float64)
    tj.clear_caches()
    total = interrupted(sys.maxsize, KeyboardInterrupt)[0].count
    chosen = random.Random(seed)
    for i in range(points):
        if i % 3 == 0:
            tj.clear_caches()
        error = (KeyboardInterrupt, MemoryError, SystemExit)[i % 3]
        tracer, f, compiled = interrupted(chosen.randrange(1, total), error)
        assert innermost() is ROOT, tracer.where
        assert jax.dtypes.canonicalize_dtype(np.float64) == widest  # jax's settings are as they were
        assert use(f, compiled) == expected, tracer.where
        other = fresh()
        assert use(other, tj.jit(other)) == expected, tracer.where


@pytest.mark.sweep
def test_interrupts_anywhere() -> None:
    check(12, 5)


@pytest.mark.parametrize("name", ["__enter__", "__exit__", "end"])
@pytest.mark.parametrize("transform", [tj.jit, tj.grad, tj.vmap, tj.watch])
def test_interrupts_at_the_moment_of_entering_and_leaving(name: str, transform: Callable[..., Any]) -> None:
    interrupts = 0

    def trace(frame: FrameType, event: str, _: object) -> None:
        nonlocal interrupts
        code = frame.f_code
        if event == "call" and code.co_name == name and code.co_filename.endswith("frames.py") and not interrupts:
            interrupts += 1
            raise KeyboardInterrupt

    f = transform(lambda x: tnp.sin(x) * 2.0)
    x = np.ones(2) if transform is tj.vmap else 0.5
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with pytest.raises(KeyboardInterrupt):
            f(x)
    finally:
        sys.settrace(before)
    assert interrupts == 1
    assert innermost() is ROOT or not innermost().alive
    assert str(tj.make_jaxpr(lambda x: tnp.cos(x) + 1.0)(0.5)).count("cos") == 1
    f(x)
    assert float(tnp.sin(0.0)) == 0.0


class AtALine:
    """Raises in the line of this number among those of entering and leaving frames."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def __call__(self, frame: FrameType, event: str, _: object) -> AtALine:
        code = frame.f_code
        entering = code.co_name in ("__enter__", "__exit__", "end") and code.co_filename.endswith("frames.py")
        if entering and event in ("line", "call"):
            self.count += 1
            if self.count == self.at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


@pytest.mark.parametrize("transform", [tj.jit, tj.grad, tj.vmap, tj.watch])
def test_interrupts_at_every_line_of_entering_and_leaving(transform: Callable[..., Any]) -> None:
    """However far it came, the frame is no longer the innermost one."""
    x = np.ones(2) if transform is tj.vmap else 0.5
    at, before = 0, sys.gettrace()
    while True:
        at += 1
        f, line = transform(lambda x: tnp.sin(x) * 2.0), AtALine(at)
        sys.settrace(line)
        try:
            f(x)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert innermost() is ROOT, at
        if line.count < at:
            break
    assert at > 12
    assert float(tnp.sin(0.0)) == 0.0


# What is raised while a generator is closed can go nowhere.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.sweep
def test_interrupts_everywhere() -> None:
    check(150, 6)


@pytest.fixture
def _alarm() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # raised in a weakref's callback
@pytest.mark.usefixtures("_alarm")
def test_real_signals() -> None:
    f = fresh()
    expected = use(f, tj.jit(f))
    for i in range(12):
        f = fresh()
        compiled = tj.jit(f)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.004 * (i + 1))
            use(f, compiled)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            pass
        assert innermost() is ROOT
        assert use(f, compiled) == expected


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # raised in a weakref's callback
@pytest.mark.usefixtures("_alarm")
def test_an_interrupt_while_another_thread_traces_for_this_one() -> None:
    """Deep traces go on in new threads, for which the first one waits."""

    def deep(n: int, x: Any) -> Any:
        if n == 0:
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            for _ in range(2000):
                x = tnp.sin(x)
            return x
        return tj.jit(lambda x: deep(n - 1, x))(x)

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        tj.make_jaxpr(lambda x: deep(100, x))(0.5)
    assert innermost() is ROOT
    assert threading.active_count() <= before
    f = fresh()
    assert use(f, tj.jit(f)) == use(f, tj.jit(f))


def test_a_block_that_was_never_made_ends_well() -> None:
    """An interrupt before the first line of `__init__` leaves nothing to put back, and `__del__` says nothing."""
    block = FewCollections.__new__(FewCollections)
    block.__del__()
