"""Rules of JAX's functions are traced once for all calls alike; calls that only look alike keep rules of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
from tinyjax.interop.jax import from_jax, of_jax

X = np.linspace(-1, 1, 4, dtype=np.float32)
Made = tuple[Callable[..., Any], list[str]]  # a function of JAX, and the rules that have been asked so far


def forward() -> Made:
    asked: list[str] = []

    @jax.custom_jvp
    def f(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    def rule(primals: Any, tangents: Any) -> Any:
        asked.append("jvp")
        return f(*primals), 2 * jnp.cos(primals[0]) * tangents[0]

    f.defjvp(rule)
    return f, asked


def backward() -> Made:
    asked: list[str] = []

    @jax.custom_vjp
    def f(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    def fwd(x: jax.Array) -> Any:
        asked.append("fwd")
        return f(x), x

    def bwd(x: jax.Array, ct: jax.Array) -> Any:
        asked.append("bwd")
        return (2 * jnp.cos(x) * ct,)

    f.defvjp(fwd, bwd)
    return f, asked


def powers() -> Made:
    """Of which an argument is a number of Python's."""
    asked: list[str] = []

    @partial(jax.custom_vjp, nondiff_argnums=(0,))
    def f(n: float, x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    def fwd(n: float, x: jax.Array) -> Any:
        asked.append("fwd")
        return f(n, x), x

    def bwd(n: float, x: jax.Array, ct: jax.Array) -> Any:
        asked.append("bwd")
        return (np.float32(2 if isinstance(n, int) else np.copysign(3, n)) * jnp.cos(x) * ct,)

    f.defvjp(fwd, bwd)
    return f, asked


def layers(f: Callable[..., Any], n: int) -> Callable[..., Any]:
    def run(x: jax.Array) -> jax.Array:
        for _ in range(n):
            x = f(x) + 0.1
        return x

    return run


def in_loops(f: Callable[..., Any], n: int) -> Callable[..., Any]:
    """Each call in a program of its own."""

    def run(x: jax.Array) -> jax.Array:
        for i in range(n):
            x = jax.lax.fori_loop(0, 2, partial(step, i), x)
        return x

    def step(i: int, _: Any, x: jax.Array) -> Any:
        return f(x) + 0.1 * i

    return run


def agree(run: Callable[..., Any], x: Any = X) -> None:
    imported = of_jax(run)
    grads = [lib.grad(lambda x, g=g: g(x).sum()) for lib, g in ((jax, run), (tj, imported))]
    np.testing.assert_allclose(np.asarray(imported(x)), run(x), rtol=1e-4)
    np.testing.assert_allclose(np.asarray(grads[1](x)), grads[0](x), rtol=1e-4)


@pytest.mark.parametrize("make", [forward, backward])
@pytest.mark.parametrize("around", [lambda f: f, jax.vmap, jax.jit, lambda f: jax.vmap(jax.jit(f))])
@pytest.mark.parametrize("repeat", [layers, in_loops])
def test_equal_calls_ask_once(make: Callable[[], Made], around: Callable[..., Any], repeat: Callable[..., Any]) -> None:
    counts = []
    for n in (2, 7):
        f, asked = make()
        closed = jax.make_jaxpr(around(repeat(f, n)))(X)
        asked.clear()
        from_jax(closed)
        counts.append(len(asked))
    assert counts[0] == counts[1] > 0
    agree(around(repeat(make()[0], 3)))


@pytest.mark.parametrize("make", [forward, backward])
def test_other_types_ask_again(make: Callable[[], Made]) -> None:
    f, asked = make()
    closed = jax.make_jaxpr(lambda x, y: (f(x), f(y), f(x)))(X, X[:2])
    asked.clear()
    from_jax(closed)
    alone, few = make()
    one = jax.make_jaxpr(alone)(X)
    few.clear()
    from_jax(one)
    assert len(asked) == 2 * len(few)
    agree(lambda x: f(x).sum() * f(x[:2]).sum() * f(x))


def test_static_arguments_that_look_equal() -> None:
    """1 isn't 1.0, nor 0.0 -0.0, though Python says so."""
    f, asked = powers()
    agree(lambda x: f(0.0, x) + 5 * f(-0.0, x))
    agree(lambda x: f(1, x) + 5 * f(1.0, x))
    closed = jax.make_jaxpr(lambda x: f(2, f(2, f(2.0, x))))(X)
    asked.clear()
    from_jax(closed)
    assert asked.count("bwd") == 2


def test_other_functions_of_equal_programs() -> None:
    def made(factor: float) -> Any:
        @jax.custom_jvp
        def f(x: jax.Array) -> jax.Array:
            return jnp.sin(x)

        f.defjvp(lambda primals, tangents: (f(*primals), factor * tangents[0]))
        return f

    agree(lambda x: made(2.0)(x) * made(3.0)(x) * made(2.0)(x))


def test_rules_that_close_over_what_is_around_them() -> None:
    """The values are others in each program, or of each call."""

    def one(x: jax.Array, w: jax.Array) -> jax.Array:
        f = jax.custom_jvp(jnp.sin)
        f.defjvp(lambda primals, tangents: (f(*primals), w * tangents[0]))
        return f(x) * f(x + 1)

    def run(x: Any, w: Any) -> Any:
        return one(x, w) * one(x, jnp.exp(w))

    np.testing.assert_allclose(np.asarray(of_jax(run)(X, X)), run(X, X), rtol=1e-4)
    expected = jax.jvp(lambda x: run(x, X), (X,), (X,))[1]
    np.testing.assert_allclose(np.asarray(tj.jvp(lambda x: of_jax(run)(x, X), (X,), (X,))[1]), expected, rtol=1e-4)


def test_rules_that_raise() -> None:
    f = jax.custom_jvp(jnp.sin)

    def rule(primals: Any, tangents: Any) -> Any:
        raise ValueError("not this way")

    f.defjvp(rule)
    run = of_jax(lambda x: f(f(x)))
    np.testing.assert_allclose(np.asarray(run(X)), np.sin(np.sin(X)), rtol=1e-5)
    with pytest.raises(ValueError, match="not this way"):
        tj.jvp(run, (X,), (X,))


def test_rules_within_rules() -> None:
    f, _ = forward()
    g = jax.custom_jvp(lambda x: f(f(x)))
    g.defjvp(lambda primals, tangents: (g(*primals), f(f(primals[0])) * tangents[0]))
    run = layers(g, 3)
    agree(run)
    second = [lib.grad(lib.grad(lambda x, h=h: h(x))) for lib, h in ((jax, run), (tj, of_jax(run)))]
    np.testing.assert_allclose(np.asarray(second[1](X[0])), second[0](X[0]), rtol=1e-4)


def test_functions_within_rules_of_many_are_asked_once() -> None:
    """Rules that are open already make no difference to functions that aren't these, though all are made by one
    decorator: each rule applies all the functions before it."""
    asked: list[str] = []

    def derived(slope: Callable[[jax.Array], Any]) -> Callable[..., Any]:
        def rule(primals: Any, tangents: Any) -> Any:
            asked.append(slope.__name__)
            return f(*primals), slope(primals[0]) * tangents[0]

        f = jax.custom_jvp(jnp.sin)
        f.defjvp(rule)
        return f

    @derived
    def first(x: jax.Array) -> Any:
        return jnp.cos(x)

    @derived
    def second(x: jax.Array) -> Any:
        return first(x) + x

    @derived
    def third(x: jax.Array) -> Any:
        return first(second(x)) + second(x)

    @derived
    def fourth(x: jax.Array) -> Any:
        return third(second(first(x))) + third(x)

    closed = jax.make_jaxpr(fourth)(X)
    asked.clear()
    from_jax(closed)
    assert sorted(asked) == ["first", "fourth", "second", "third"]
    twice = [lib.jit(lib.grad(lib.grad(f)))(X[0]) for lib, f in ((jax, fourth), (tj, of_jax(fourth)))]
    np.testing.assert_allclose(np.asarray(twice[1]), twice[0], rtol=1e-4)


def test_rules_that_apply_their_function_to_ever_more() -> None:
    """As `odeint`'s does: rules are imported two deep, and asked for when more are needed."""
    asked: list[int] = []

    @jax.custom_vjp
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(x))

    def bwd(x: jax.Array, ct: jax.Array) -> Any:
        asked.append(x.size)
        return (ct * (jnp.cos(x) + f(jnp.append(x, 2.0))),)

    f.defvjp(lambda x: (f(x), x), bwd)
    closed = jax.make_jaxpr(f)(X)
    asked.clear()
    from_jax(closed)
    assert set(asked) == {4, 5}

    def third(lib: Any, g: Callable[..., Any]) -> Any:
        for _ in range(3):
            g = lib.grad(lambda x, g=g: g(x).sum())
        return lib.jit(g)(X)

    np.testing.assert_allclose(np.asarray(third(tj, of_jax(f))), third(jax, f), rtol=1e-4)


def test_rules_that_apply_a_loop_of_their_function_to_more() -> None:
    """As solvers do: what is large is imported one deep, and has all derivatives, as JAX's."""
    asked: list[int] = []

    @jax.custom_jvp
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(jax.lax.fori_loop(0, 2, lambda _, y: jnp.sin(y), x))

    @f.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        asked.append(primals[0].size)
        return f(*primals), f(jnp.append(primals[0], 2.0)) * jnp.sum(tangents[0])

    closed = jax.make_jaxpr(f)(X)
    asked.clear()
    from_jax(closed)
    assert asked == [4]

    g = of_jax(f)
    once = lambda x: tj.jvp(g, (x,), (np.ones_like(X),))[1]  # noqa: E731
    found = tj.jvp(once, (X,), (np.ones_like(X),))[1]
    more = np.append(X, [2, 2])
    np.testing.assert_allclose(np.asarray(found), np.sum(np.sin(np.sin(more))) * 4 * 4, rtol=1e-4)
