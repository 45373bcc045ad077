"""Threads and async tasks that trace, transform and run at the same time."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.families import FUNCTIONS, TRANSFORMATIONS
from tinyjax import Array, lax
from tinyjax.errors import ConcretizationError, LeakedTracerError
from tinyjax.tracing.concrete import ROOT, active_frame

WORKERS = 8


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Threads take turns as often as Python allows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def in_threads(jobs: list[Callable[[], Any]]) -> list[Any]:
    """The results of the jobs, started together, each on a thread of its own."""
    barrier = threading.Barrier(len(jobs))

    def run(job: Callable[[], Any]) -> Any:
        barrier.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, jobs))


def transformed(function: str, *names: str) -> Callable[[Array], Array]:
    f = FUNCTIONS[function][0]
    for name in reversed(names):
        f = TRANSFORMATIONS[name][0](f)
    return f


@pytest.mark.sweep
@pytest.mark.usefixtures("eager_switching")
def test_threads_transform_at_once() -> None:
    chains = [("grad",), ("jit", "grad"), ("grad", "jit"), ("vmap", "grad"), ("jvp", "jvp"), ("linearize", "vmap")]
    x = tnp.asarray(np.float64(0.7))
    expected = [float(transformed("nested", *names)(x)) for names in chains]

    def work(names: tuple[str, ...]) -> list[float]:
        return [float(transformed("nested", *names)(x)) for _ in range(3)]

    for found, value in zip(in_threads([partial(work, names) for names in chains]), expected, strict=True):
        np.testing.assert_allclose(found, [value] * 3, rtol=1e-12)


@pytest.mark.usefixtures("eager_switching")
def test_threads_share_a_jitted_function() -> None:
    count = 0

    @tj.jit
    def f(x: Any) -> Any:
        nonlocal count
        count += 1
        return tnp.sin(x) * tj.jit(tnp.cos)(x)

    xs = [np.float64(i) for i in range(WORKERS)]
    found = in_threads([partial(f, x) for x in xs])
    np.testing.assert_allclose(found, [np.sin(x) * np.cos(x) for x in xs])
    assert 1 <= count <= WORKERS, "threads that come at the same time may each trace it"
    before = count
    in_threads([partial(tj.grad(f), x) for x in xs])
    assert count == before


@pytest.mark.usefixtures("eager_switching")
def test_threads_trace_equal_programs() -> None:
    f = FUNCTIONS["vector"][0]
    programs = in_threads([lambda: tj.make_jaxpr(tj.grad(f))(np.float64(0.5))] * WORKERS)
    assert all(program == programs[0] for program in programs)
    assert len({str(program) for program in programs}) == 1


def test_a_thread_started_while_tracing_is_outside_of_it() -> None:
    frames: list[object] = []
    results: list[Array] = []

    def work() -> None:
        frames.append(active_frame())
        results.append(tj.grad(lambda x: x * x)(tnp.asarray(3.0)))

    @tj.jit
    def f(x: Any) -> Any:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x * 2.0

    assert float(f(1.0)) == 2.0
    assert frames == [ROOT]
    assert float(results[0]) == 6.0


def test_a_thread_with_the_context_is_inside_of_it() -> None:
    def f(x: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(contextvars.copy_context().run, lambda: tnp.sin(x) * tnp.cos(2.0)).result()

    closed = tj.make_jaxpr(f)(1.0)
    assert [eqn.primitive.name for eqn in closed.eqns] == ["sin", "cos", "mul"]
    np.testing.assert_allclose(tj.grad(f)(1.0), np.cos(1.0) * np.cos(2.0))


def test_values_of_one_thread_in_another() -> None:
    """A traced value works in any thread while it is alive, and fails well afterwards."""
    ready, done = threading.Event(), threading.Event()
    box: list[Any] = []

    def trace() -> None:
        def f(x: Any) -> Any:
            box.append(x)
            ready.set()
            done.wait(10)
            return x

        tj.jvp(f, (3.0,), (1.0,))

    thread = threading.Thread(target=trace)
    thread.start()
    ready.wait(10)
    product = box[0] * 2.0
    assert float(product) == 6.0
    done.set()
    thread.join()
    with pytest.raises(LeakedTracerError, match="was used after jvp of f"):
        product + 1.0


@pytest.mark.usefixtures("eager_switching")
def test_failures_in_one_thread_do_not_reach_another() -> None:
    def fails() -> str:
        for _ in range(20):
            with pytest.raises(ConcretizationError):
                tj.jit(tj.grad(lambda x: x if x > 0 else -x))(1.0)
        return "failed"

    def works() -> float:
        return sum(float(tj.grad(lambda x: x * x if x > 0 else -x)(1.0)) for _ in range(20))

    assert in_threads([fails, works, fails, works]) == ["failed", 40.0, "failed", 40.0]
    assert active_frame() is ROOT


# Async tasks.


def test_tasks_take_turns() -> None:
    async def work(function: str, names: tuple[str, ...], point: float) -> list[float]:
        found: list[float] = []
        for _ in range(4):
            await asyncio.sleep(0)
            f = transformed(function, *names)
            await asyncio.sleep(0)
            found.append(float(f(tnp.asarray(np.float64(point)))))
        assert active_frame() is ROOT
        return found

    chains = [("grad",), ("jit", "grad"), ("vmap", "grad"), ("linearize", "jvp")]

    async def main() -> list[list[float]]:
        return await asyncio.gather(*(work("mixed", names, 0.3 + i) for i, names in enumerate(chains)))

    expected = [float(transformed("mixed", *names)(tnp.asarray(np.float64(0.3 + i)))) for i, names in enumerate(chains)]
    for found, value in zip(asyncio.run(main()), expected, strict=True):
        np.testing.assert_allclose(found, [value] * 4, rtol=1e-12)


def drive(steps: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine to its end within a synchronous function, one step after another."""
    while True:
        try:
            steps.send(None)
        except StopIteration as stop:
            return stop.value


def test_async_functions_within_transformations() -> None:
    async def body(x: Any) -> Any:
        y = tnp.sin(x)
        await asyncio.sleep(0)
        return y * tnp.cos(2.0)

    def f(x: Any) -> Any:
        return drive(body(x))

    np.testing.assert_allclose(tj.grad(f)(1.0), np.cos(1.0) * np.cos(2.0))
    assert [eqn.primitive.name for eqn in tj.make_jaxpr(f)(1.0).eqns] == ["sin", "cos", "mul"]


def test_traces_that_interleave_in_one_thread() -> None:
    """Two traces that take turns step by step, each in a context of its own, as tasks are."""
    contexts = [contextvars.copy_context() for _ in range(3)]
    switch = [threading.Semaphore(int(i == 0)) for i in range(3)]
    order: list[int] = []

    def job(i: int) -> list[str]:
        def step() -> None:
            order.append(i)
            switch[(i + 1) % 3].release()
            switch[i].acquire()

        def f(x: Any) -> Any:
            y = tnp.sin(x)
            step()
            z = tj.vmap(lambda v: lax.psum(v * y, "i"), axis_name="i")(tnp.arange(3.0))
            step()
            return tnp.sum(z) * tnp.cos(float(i))

        switch[i].acquire()
        closed = tj.make_jaxpr(tj.grad(f))(1.0)
        order.append(i)
        switch[(i + 1) % 3].release()
        return [eqn.primitive.name for eqn in closed.eqns]

    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(contexts[i].run, job, i) for i in range(3)]
        names = [future.result(timeout=30) for future in futures]
    assert order == [0, 1, 2] * 3
    assert names[0] == names[1] == names[2]
    assert names[0].count("cos") == 2


def test_generators_do_not_leave_a_transformation_open() -> None:
    """A generator that is suspended within a transformed function has no say in what is active outside."""

    def numbers(x: Any) -> Iterator[Any]:
        yield x * 2.0
        yield x * 3.0

    kept: list[Iterator[Any]] = []

    def f(x: Any) -> Any:
        kept.append(numbers(x))
        return next(kept[0])

    assert float(tj.grad(f)(1.0)) == 2.0
    assert active_frame() is ROOT
    with pytest.raises(LeakedTracerError):
        next(kept[0])
