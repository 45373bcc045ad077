"""A frame whose transformation has ended is in force nowhere: not in tasks and threads that copied the context."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import lax
from tinyjax import numpy as tnp
from tinyjax.tracing.concrete import ROOT, ConcreteArray, active_frame
from tinyjax.tracing.frames import base_in_force

X = np.arange(1.0, 4.0)


def double(x: Any) -> Any:
    return x * 2.0


CUSTOM = tj.custom_jvp(double)
CUSTOM.defjvp(lambda primals, tangents: (CUSTOM(primals[0]), tangents[0] * 2.0))

#: What does one thing inside of a transformation: it is called with what to do.
TRANSFORMED: dict[str, Callable[[Callable[[Any], Any]], object]] = {
    "jit": lambda f: tj.jit(f)(1.0),
    "make_jaxpr": lambda f: tj.make_jaxpr(f)(1.0),
    "eval_shape": lambda f: tj.eval_shape(f, 1.0),
    "grad": lambda f: tj.grad(f)(1.0),
    "jvp": lambda f: tj.jvp(f, (1.0,), (1.0,)),
    "vjp": lambda f: tj.vjp(f, 1.0),
    "linearize": lambda f: tj.linearize(f, 1.0),
    "vmap": lambda f: tj.vmap(f, axis_name="i")(X),
    "jit of grad": lambda f: tj.jit(tj.grad(f))(1.0),
    "grad of jit": lambda f: tj.grad(tj.jit(f))(1.0),
    "vmap of jit of vmap": lambda f: tj.vmap(tj.jit(tj.vmap(f)))(np.ones((2, 2))),
    "jit of vmap of grad of jit": lambda f: tj.jit(tj.vmap(tj.grad(tj.jit(f))))(X),
    "scan": lambda f: lax.scan(lambda c, x: (f(c), x), 0.0, X),
    "cond": lambda f: tj.jit(lambda x: lax.cond(x > 0.0, f, f, x))(1.0),
    "while_loop": lambda f: lax.while_loop(lambda x: x < 1.0, f, 2.0),
    "checkpoint": lambda f: tj.grad(tj.checkpoint(f))(1.0),
    "watch": lambda f: tj.watch(f)(1.0),
    "watch of jit": lambda f: tj.watch(tj.jit(f))(1.0),
    "failing jit": lambda f: _failing(tj.jit, f),
    "failing grad": lambda f: _failing(tj.grad, f),
}


def _failing(transform: Callable[..., Any], f: Callable[[Any], Any]) -> None:
    def fails(x: Any) -> Any:
        f(x)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        transform(fails)(1.0)


def usual(what: str = "") -> None:
    """Everything does what it does outside of all transformations."""
    assert active_frame() is ROOT, what
    assert base_in_force(active_frame()) is ROOT
    for x in (3.0, np.float64(3.0), tnp.asarray(3.0)):
        assert float(tj.jit(double)(x)) == 6.0
        assert float(tj.grad(lambda y: y * y)(x)) == 6.0
        assert float(tj.jvp(CUSTOM, (x,), (x,))[1]) == 6.0
        assert float(tnp.sum(tnp.multiply(x, 2.0))) == 6.0
    assert tj.vmap(tj.jit(double))(X).tolist() == [2.0, 4.0, 6.0]
    assert float(lax.scan(lambda c, x: (c + x, x), 0.0, X)[0]) == 6.0
    assert float(tj.jit(tj.grad(lambda x: double(x) * x / 2.0))(3.0)) == 6.0
    assert str(tj.make_jaxpr(double)(1.0)) == "{ lambda ; a:~f64[]. let b:~f64[] = mul a 2.0 in (b,) }"
    with pytest.raises(NameError, match="Axes in scope: none"):
        lax.psum(X, "i")


@pytest.mark.parametrize("name", TRANSFORMED)
def test_copied_contexts_outlive_what_they_were_copied_in(name: str) -> None:
    contexts: list[Context] = []

    def keeps(x: Any) -> Any:
        contexts.append(copy_context())
        return x * 1.0

    TRANSFORMED[name](keeps)
    assert contexts
    for context in contexts:
        context.run(usual, name)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(context.run, usual, name).result()
    usual()


@pytest.mark.parametrize("name", TRANSFORMED)
def test_the_first_thing_done_in_a_late_context(name: str) -> None:
    """Each thing by itself: whatever comes first finds out that the frame has ended."""
    contexts: list[Context] = []

    def keeps(x: Any) -> Any:
        contexts.extend(copy_context() for _ in range(8))
        return x * 1.0

    TRANSFORMED[name](keeps)
    warm = tj.jit(double)
    assert float(warm(3.0)) == 6.0
    array = tnp.asarray(3.0)
    for do in (
        lambda: warm(3.0),
        lambda: tj.jit(double)(3.0),
        lambda: tj.grad(lambda y: y * y)(3.0),
        lambda: array * 2.0,
        lambda: tnp.where(True, 6.0, array),
        lambda: tj.vmap(double)(tnp.ones(3) * 3.0)[0],
        lambda: lax.fori_loop(0, 3, lambda i, x: x + 2.0, 0.0),
        lambda: tj.jvp(CUSTOM, (3.0,), (3.0,))[1],
    ):
        result = contexts.pop().run(do)
        assert isinstance(result, ConcreteArray)
        assert float(result) == 6.0


def test_tasks_that_are_started_in_a_trace() -> None:
    async def main() -> list[float]:
        tasks: list[asyncio.Task[float]] = []

        async def later() -> float:
            await asyncio.sleep(0)
            usual()
            return float(tj.jit(lambda y: y * 2.0)(3.0)) + float(tj.grad(lambda y: y * y)(3.0))

        @tj.jit
        def f(x: Any) -> Any:
            tasks.append(asyncio.create_task(later()))
            return x + 1.0

        assert float(f(1.0)) == 2.0
        return [await task for task in tasks]

    assert asyncio.run(main()) == [12.0]


def test_a_copy_is_inside_as_long_as_the_transformation_is_in_progress() -> None:
    def in_a_thread(x: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(copy_context().run, lambda: tnp.sin(x) + tnp.cos(0.5)).result()

    inside = tj.make_jaxpr(in_a_thread)(1.0)
    assert str(inside) == str(tj.make_jaxpr(lambda x: tnp.sin(x) + tnp.cos(0.5))(1.0))
    assert float(tj.grad(in_a_thread)(0.0)) == 1.0


def test_threads_that_record_one_program_at_a_time() -> None:
    def chain(x: Any, factor: float) -> Any:
        for _ in range(100):
            x = tnp.sin(x) * factor
        return x

    def f(x: Any) -> list[Any]:
        with ThreadPoolExecutor(4) as pool:
            return [r.result() for r in [pool.submit(copy_context().run, chain, x, float(i)) for i in range(4)]]

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        programs = [tj.make_jaxpr(f)(1.0) for _ in range(5)]
    finally:
        sys.setswitchinterval(before)
    for closed in programs:
        tj.ir.typecheck(closed.jaxpr)
        np.testing.assert_array_equal(tj.eval_jaxpr(closed, (), 1.0), [chain(1.0, float(i)) for i in range(4)])


def test_a_new_thread_is_outside() -> None:
    found: list[float] = []

    def run() -> None:
        usual()
        found.append(float(tj.jit(double)(3.0)))

    def f(x: Any) -> Any:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return x

    tj.make_jaxpr(f)(1.0)
    assert found == [6.0]


def test_a_transformation_over_one_that_has_ended() -> None:
    """It goes on with what it has of its own; values of the one that has ended are refused."""
    kept: list[tuple[Context, Any]] = []

    def outer(x: Any) -> Any:
        kept.append((copy_context(), x))
        return x

    tj.jit(outer)(1.0)
    context, x = kept[0]
    with pytest.raises(ValueError, match="jit of outer"):
        context.run(lambda: tj.grad(lambda y: y * x)(2.0))
    assert float(context.run(tj.grad(lambda y: y * y), 2.0)) == 4.0


def test_generators_take_part_where_they_are_resumed() -> None:
    def numbers() -> Iterator[Any]:
        x: Any = 1.0
        while True:
            x = tnp.add(x, 1.0)
            yield x

    generator = numbers()
    assert float(next(generator)) == 2.0
    program = tj.make_jaxpr(lambda y: y * next(generator))(1.0)
    assert [eqn.primitive.name for eqn in program.jaxpr.eqns] == ["add", "mul"]
    with pytest.raises(tj.errors.LeakedTracerError):
        next(generator)  # it has kept a value of the trace


def test_ended_frames_are_not_kept_by_what_has_outlived_them() -> None:
    contexts: list[Context] = []

    def keeps(x: Any) -> Any:
        contexts.append(copy_context())
        return x

    tj.jit(tj.grad(tj.jit(keeps)))(1.0)
    for context in contexts:
        context.run(usual)
        assert all(value is ROOT for variable, value in context.items() if variable.name == "tinyjax_active_frame")
