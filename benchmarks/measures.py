"""The measures: the same work for tinyjax and for jax."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

import tinyjax as tj
import tinyjax.numpy as tnp
from benchmarks.timing import Comparison, compare


def our_chain(n: int) -> Callable[[tj.Array], tj.Array]:
    def f(x: tj.Array) -> tj.Array:
        for _ in range(n // 3):
            x = tnp.sin(x) * 2.0 + x
        return x

    return f


def their_chain(n: int) -> Callable[[jax.Array], jax.Array]:
    def f(x: jax.Array) -> jax.Array:
        for _ in range(n // 3):
            x = jax.lax.sin(x) * 2.0 + x
        return x

    return f


def check(ours: object, theirs: object) -> None:
    """Both must agree, or the times mean nothing."""
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-9)


def staging(n: int, rounds: int) -> Iterator[Comparison]:
    """Tracing, transforming and lowering programs of n equations."""
    point = np.linspace(0.1, 0.9, 3)
    x, y = tnp.asarray(point), jnp.asarray(point)

    # A new function each time: jax remembers what it has traced.
    def ours(transform: Callable[[Callable[[tj.Array], tj.Array]], Callable[[tj.Array], object]]) -> object:
        return tj.make_jaxpr(transform(our_chain(n)))(x)

    def theirs(transform: Callable[[Callable[[jax.Array], jax.Array]], Callable[[jax.Array], object]]) -> object:
        return jax.make_jaxpr(transform(their_chain(n)))(y)

    def total(f: Callable[[tj.Array], tj.Array]) -> Callable[[tj.Array], tj.Array]:
        return lambda x: tnp.sum(f(x))

    def their_total(f: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
        return lambda x: jnp.sum(f(x))

    check(our_chain(n)(x), their_chain(n)(y))
    check(tj.grad(total(our_chain(n)))(x), jax.grad(their_total(their_chain(n)))(y))
    yield compare("trace", lambda: ours(lambda f: f), lambda: theirs(lambda f: f), units=n, rounds=rounds)
    yield compare(
        "trace and jvp",
        lambda: ours(lambda f: lambda x: tj.jvp(f, (x,), (x,))),
        lambda: theirs(lambda f: lambda x: jax.jvp(f, (x,), (x,))),
        units=n,
        rounds=rounds,
    )
    yield compare("trace and vmap", lambda: ours(tj.vmap), lambda: theirs(jax.vmap), units=n, rounds=rounds)
    yield compare(
        "trace and grad",
        lambda: ours(lambda f: tj.grad(total(f))),
        lambda: theirs(lambda f: jax.grad(their_total(f))),
        units=n,
        rounds=rounds,
    )
    yield compare(
        "trace and lower",
        lambda: tj.jit(our_chain(n)).lower(x).as_text(),
        lambda: jax.jit(their_chain(n)).lower(y).as_text(),
        units=n,
        rounds=rounds,
    )


def running(rounds: int) -> Iterator[Comparison]:
    """Eager operations, eager gradients, and calls of compiled functions, on small arrays."""
    point = np.linspace(0.1, 0.9, 3)
    x, y = tnp.asarray(point), jnp.asarray(point)
    n = 300
    yield compare("eager operation", lambda: our_chain(n)(x), lambda: their_chain(n)(y), units=n, rounds=rounds)
    yield compare(
        "eager grad",
        lambda: tj.grad(lambda x: tnp.sum(our_chain(n)(x)))(x),
        lambda: jax.grad(lambda y: jnp.sum(their_chain(n)(y)))(y),
        units=n,
        rounds=rounds,
    )
    ours, theirs = tj.jit(our_chain(3)), jax.jit(their_chain(3))
    on_device = ours(x)
    calls = 200

    def call_ours() -> None:
        for _ in range(calls):
            ours(on_device)

    def call_theirs() -> None:
        for _ in range(calls):
            theirs(y)

    yield compare("call of a compiled function", call_ours, call_theirs, units=calls, rounds=rounds)


def importing(rounds: int) -> Iterator[Comparison]:
    """A new process that imports the library, less one that imports nothing."""

    def run(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    yield compare("import, whole process", run("import tinyjax"), run("import jax"), units=1, rounds=rounds)
