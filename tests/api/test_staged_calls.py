"""Calls of compiled functions within transformations: what is met again becomes one equation at once, the same one."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.nodes import Pair
from tinyjax import ir
from tinyjax.control.call import Call
from tinyjax.errors import InputError, LeakedTracerError

X = np.array([0.3, -1.2, 2.0])


def calls(closed: ir.ClosedJaxpr) -> list[Call]:
    return [eqn.primitive for eqn in closed.jaxpr.eqns if isinstance(eqn.primitive, Call)]


def same(closed: ir.ClosedJaxpr) -> bool:
    """Whether all calls apply one object."""
    return len({id(call) for call in calls(closed)}) == 1


def test_calls_of_one_signature_share_their_primitive() -> None:
    f = tj.jit(lambda x: tnp.sin(x) * 2.0)
    closed = tj.make_jaxpr(lambda x: f(f(f(x))))(X)
    assert len(calls(closed)) == 3
    assert same(closed)
    again = tj.make_jaxpr(f)(X)
    assert calls(again)[0] is calls(closed)[0]
    ir.typecheck(closed.jaxpr)


def test_trees_names_and_static_arguments() -> None:
    traces: list[int] = []

    def f(p: Any, n: Any, scale: Any = 1.0, power: int = 1) -> Any:
        traces.append(1)
        return {"out": Pair(p["w"] * n, p["b"] ** power * scale)}

    jitted = tj.jit(f, static_argnames="power")
    p = {"w": X, "b": X}

    def run(p: Any) -> Any:
        first = jitted(p, 2.0, scale=3.0, power=2)
        second = jitted(p, 2.0, scale=3.0, power=2)
        third = jitted(p, 2.0, scale=3.0, power=3)
        return first, second, third

    closed = tj.make_jaxpr(run)(p)
    found = calls(closed)
    assert len(found) == 3
    assert found[0] is found[1]
    assert found[0] is not found[2]
    assert len(traces) == 2
    first, second, third = run(p)
    for got, power in zip((first, second, third), (2, 2, 3), strict=True):
        np.testing.assert_allclose(got["out"].first, X * 2.0)
        np.testing.assert_allclose(got["out"].second, X**power * 3.0)


def test_types_are_told_apart() -> None:
    f = tj.jit(lambda x: x + 1)
    closed = tj.make_jaxpr(lambda x: (f(x), f(x[0]), f(1), f(np.int64(1)), f(x)))(X)
    found = calls(closed)
    assert [str(call.jaxpr.in_avals[0]) for call in found] == ["f64[3]", "f64[]", "~i64[]", "i64[]", "f64[3]"]
    assert found[0] is found[4]


def test_more_signatures_than_are_kept_ready() -> None:
    traces: list[int] = []

    @tj.jit
    def f(x: Any) -> Any:
        traces.append(1)
        return x * 2.0

    def run(x: Any) -> Any:
        return [f(x[:n]) for _ in range(2) for n in range(1, 21)]

    closed = tj.make_jaxpr(run)(np.arange(20.0))
    assert len(traces) == 20
    assert len(calls(closed)) == 40
    assert tj.cache_info()["calls of compiled functions"].size <= tj.cache_info()["calls of compiled functions"].limit


def test_what_closes_over_traced_values_is_traced_anew() -> None:
    def outer(x: Any, y: Any) -> Any:
        inner = tj.jit(lambda z: z * x)
        return inner(y), inner(y)

    closed = tj.make_jaxpr(outer)(X, X)
    found = tj.eval_jaxpr(closed, (), X, 2 * X)
    for out in found:
        np.testing.assert_allclose(out, 2 * X * X)
    first, second = tj.vmap(tj.jit(outer))(X, 2 * X)
    np.testing.assert_allclose(first, second)
    np.testing.assert_allclose(first, 2 * X * X)


def test_what_closes_over_another_value_each_time() -> None:
    held = [X]
    f = tj.jit(lambda x: x + tnp.asarray(held[0]))

    def run(x: Any) -> Any:
        first = f(x)
        held[0] = X * 100.0
        return first, f(x)  # what was traced stays, as it does outside of transformations

    first, second = tj.jit(run)(X)
    np.testing.assert_allclose(first, 2 * X)
    np.testing.assert_allclose(second, 2 * X)


def test_arrays_that_are_closed_over() -> None:
    scale = tnp.asarray(np.array([1.0, 2.0, 3.0]))
    f = tj.jit(lambda x: x * scale)
    closed = tj.make_jaxpr(lambda x: f(f(x)))(X)
    assert same(closed)
    assert len(closed.consts) == 1
    np.testing.assert_allclose(tj.eval_jaxpr(closed, (), X)[0], X * np.array([1.0, 4.0, 9.0]))


@tj.jit
def f(x: Any) -> Any:
    return tnp.sin(x) * x


def twice(x: Any) -> Any:
    return f(f(x))


def plain(x: Any) -> Any:
    y = tnp.sin(x) * x
    return tnp.sin(y) * y


@pytest.mark.parametrize(
    "transform",
    [
        tj.grad,
        lambda g: tj.grad(tj.grad(g)),
        lambda g: lambda x: tj.jvp(g, (x,), (x,)),
        lambda g: lambda x: tj.vjp(g, x)[1](x),
        lambda g: lambda x: tj.linearize(g, x)[1](x),
        tj.jit,
        lambda g: tj.jit(tj.grad(tj.jit(g))),
    ],
)
def test_in_every_transformation(transform: Any) -> None:
    for _ in range(3):
        for over in (lambda g: g, tj.jit, lambda g: lambda x: tj.vmap(g)(tnp.stack([x, x + 1.0]))):
            expected = over(transform(plain))(0.7)
            for got, value in zip(tj.tree.leaves(over(transform(twice))(0.7)), tj.tree.leaves(expected), strict=True):
                assert got.aval == value.aval
                np.testing.assert_allclose(got, value, rtol=1e-12)


def test_arguments_that_are_not_traced() -> None:
    closed = tj.make_jaxpr(lambda: (f(2.0), f(2.0)))()
    assert len(calls(closed)) == 2  # recorded all the same
    tangents = []

    def eagerly(x: Any) -> Any:
        tangents.append(f(2.0))  # nothing is traced in it, and nothing staged: it is run
        tangents.append(f(2.0))
        return f(x)

    tj.grad(eagerly)(1.0)
    assert [float(x) for x in tangents] == [float(f(2.0))] * 2


def test_named_axes() -> None:
    summed = tj.jit(lambda x: tj.lax.psum(x, "i"))
    for size in (2, 3):
        out = tj.vmap(lambda x: summed(x) + summed(x), axis_name="i")(np.ones(size))
        np.testing.assert_allclose(out, np.full(size, 2.0 * size))


def test_values_without_tangents() -> None:
    g = tj.jit(lambda x, n: x * n)

    def run(x: Any, n: Any) -> Any:
        return g(x, n) + g(x, n)

    out, tangent = tj.jvp(run, (2.0, 3), (1.0, np.zeros((), tj.float0)))
    assert (float(out), float(tangent)) == (12.0, 6.0)
    zero = np.zeros((), tj.float0)
    h = tj.jit(lambda x, t: x)
    assert len(calls(tj.make_jaxpr(lambda x: (h(x, zero), h(x, zero)))(1.0))) == 2


def test_lines() -> None:
    def run(x: Any) -> Any:
        x = f(x)
        x = f(x)
        return f(f(x))

    first = inspect.getsourcelines(run)[1]
    closed = tj.make_jaxpr(run)(X)
    lines = [eqn.source.line - first for eqn in closed.jaxpr.eqns if eqn.source is not None]
    assert lines == [1, 2, 3, 3]


def test_errors_are_the_same_as_at_first() -> None:
    g: Any = tj.jit(lambda x, y: x + y)
    seen: list[str] = []

    def run(x: Any) -> Any:
        g(x, x)
        for bad in ("text", object):
            with pytest.raises(InputError) as caught:
                g(x, bad)
            seen.append(str(caught.value))
        with pytest.raises(TypeError):
            g(x)
        return x

    tj.make_jaxpr(run)(X)
    assert all("argument y of" in message for message in seen)
    leaked: list[Any] = []

    def leak(x: Any) -> Any:
        leaked.append(x)
        return f(x)

    tj.make_jaxpr(leak)(X)
    with pytest.raises(LeakedTracerError):
        tj.make_jaxpr(lambda x: f(leaked[0]))(X)


def test_they_are_forgotten_with_the_rest() -> None:
    traces: list[int] = []

    @tj.jit
    def g(x: Any) -> Any:
        traces.append(1)
        return x + 1.0

    for _ in range(2):
        tj.make_jaxpr(lambda x: g(g(x)))(X)
    assert len(traces) == 1
    tj.clear_caches()
    tj.make_jaxpr(lambda x: g(g(x)))(X)
    assert len(traces) == 2


def test_threads() -> None:
    @tj.jit
    def g(x: Any) -> Any:
        return x * 2.0

    def run(n: int) -> list[float]:
        size = n % 12 + 1
        out = tj.eval_jaxpr(tj.make_jaxpr(lambda x: g(g(x)))(np.ones(size)), (), np.ones(size))[0]
        return [float(v) for v in np.asarray(out)]

    with ThreadPoolExecutor(8) as threads:
        for n, out in enumerate(threads.map(run, range(200))):
            assert out == [4.0] * (n % 12 + 1)


def test_transformed_programs_are_shared_too() -> None:
    closed = tj.make_jaxpr(tj.vmap(tj.grad(lambda x: f(f(x)))))(X)
    assert len({id(call) for call in calls(closed)}) < len(calls(closed))
    ir.typecheck(closed.jaxpr)
