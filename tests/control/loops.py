"""Functions of one scalar with loops in them, written once for tinyjax and once for jax: `tests/api/families.py` has
the transformations."""

from __future__ import annotations

from typing import Final

import jax
import jax.numpy as jnp
from jax import lax as jlax

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.families import Ours, Theirs
from tinyjax import Array, lax


def ours_rnn(x: Array) -> Array:
    weights = tnp.arange(4.0).reshape((2, 2)) / 3.0 * x

    def step(carry: tuple[Array, Array], row: Array) -> tuple[tuple[Array, Array], Array]:
        h, n = carry
        h = tnp.tanh(weights @ h + row * x)
        return (h, n + 1), tnp.sum(h) * tnp.sin(x)

    (h, n), ys = lax.scan(step, (tnp.ones(2), 0), tnp.arange(6.0).reshape((3, 2)) / 5.0)
    return tnp.sum(h) * n + tnp.sum(ys * ys)


def theirs_rnn(x: jax.Array) -> jax.Array:
    weights = jnp.arange(4.0).reshape((2, 2)) / 3.0 * x

    def step(carry: tuple[jax.Array, jax.Array], row: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        h, n = carry
        h = jnp.tanh(weights @ h + row * x)
        return (h, n + 1), jnp.sum(h) * jnp.sin(x)

    (h, n), ys = jlax.scan(step, (jnp.ones(2), jnp.asarray(0)), jnp.arange(6.0).reshape((3, 2)) / 5.0)
    return jnp.asarray(jnp.sum(h) * n + jnp.sum(ys * ys))


def ours_reversed(x: Array) -> Array:
    """Two carries, of which one never sees x; scanned over values that depend on x; unrolled; an inner scan."""

    def inner(total: Array, y: Array) -> tuple[Array, None]:
        return total * 0.5 + tnp.cos(y) * x, None

    def step(carry: dict[str, Array], y: Array) -> tuple[dict[str, Array], Array]:
        total, _ = lax.scan(inner, carry["moving"], tnp.stack([y, carry["fixed"]]))
        return {"fixed": carry["fixed"] * 1.5, "moving": total}, total * y

    start = {"fixed": tnp.asarray(0.1), "moving": tnp.asarray(0.2)}
    last, ys = lax.scan(step, start, x * tnp.arange(1.0, 6.0), reverse=True, unroll=2)
    return last["moving"] * last["fixed"] + tnp.sum(ys * tnp.arange(5.0))


def theirs_reversed(x: jax.Array) -> jax.Array:
    def inner(total: jax.Array, y: jax.Array) -> tuple[jax.Array, None]:
        return total * 0.5 + jnp.cos(y) * x, None

    def step(carry: dict[str, jax.Array], y: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
        total, _ = jlax.scan(inner, carry["moving"], jnp.stack([y, carry["fixed"]]))
        return {"fixed": carry["fixed"] * 1.5, "moving": total}, total * y

    start = {"fixed": jnp.asarray(0.1), "moving": jnp.asarray(0.2)}
    last, ys = jlax.scan(step, start, x * jnp.arange(1.0, 6.0), reverse=True, unroll=2)
    return jnp.asarray(last["moving"] * last["fixed"] + jnp.sum(ys * jnp.arange(5.0)))


def ours_power(x: Array) -> Array:
    out: Array = lax.fori_loop(1, 5, lambda i, y: y * x + tnp.sin(y) / i, x + 1.0)
    return out


def theirs_power(x: jax.Array) -> jax.Array:
    out: jax.Array = jlax.fori_loop(1, 5, lambda i, y: y * x + jnp.sin(y) / i, x + 1.0)
    return out


def ours_mapped(x: Array) -> Array:
    ys = lax.map(lambda y: tnp.exp(y * x) + tj.jit(tnp.sin)(y), tnp.arange(5.0) / 4.0, batch_size=2)
    zs = lax.associative_scan(lambda u, v: u * v, ys * x)
    return tnp.sum(ys) + tnp.sum(zs[1:])


def theirs_mapped(x: jax.Array) -> jax.Array:
    ys = jlax.map(lambda y: jnp.exp(y * x) + jax.jit(jnp.sin)(y), jnp.arange(5.0) / 4.0, batch_size=2)
    zs = jlax.associative_scan(lambda u, v: u * v, ys * x)
    return jnp.asarray(jnp.sum(ys) + jnp.sum(zs[1:]))


def ours_while(x: Array) -> Array:
    """Runs for a number of iterations that depends on x; one carry counts, one never sees x."""

    def running(carry: tuple[Array, Array, Array]) -> Array:
        return (carry[0] < 30.0 * x) & (carry[1] < 20)

    def step(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        y, n, z = carry
        return y * 2.0 + tnp.sin(y) * x, n + 1, z * 0.5

    y, n, z = lax.while_loop(running, step, (x, 0, 1.0))
    return y * n + z


def theirs_while(x: jax.Array) -> jax.Array:
    def running(carry: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        return (carry[0] < 30.0 * x) & (carry[1] < 20)

    def step(carry: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        y, n, z = carry
        return y * 2.0 + jnp.sin(y) * x, n + 1, z * 0.5

    y, n, z = jlax.while_loop(running, step, (x, jnp.asarray(0), jnp.asarray(1.0)))
    return jnp.asarray(y * n + z)


def ours_counted(x: Array) -> Array:
    """A number of iterations that is known only when the program runs."""
    n = tnp.astype(tnp.floor(x * 4.0), "int64")
    out: Array = lax.fori_loop(0, n, lambda i, y: y * x + tnp.cos(y * i), x)
    return out


def theirs_counted(x: jax.Array) -> jax.Array:
    n = jnp.floor(x * 4.0).astype("int64")
    out: jax.Array = jlax.fori_loop(0, n, lambda i, y: y * x + jnp.cos(y * i), x)
    return out


#: Differentiable in both modes.
SCANS: Final[dict[str, tuple[Ours, Theirs]]] = {
    "rnn": (ours_rnn, theirs_rnn),
    "reversed": (ours_reversed, theirs_reversed),
    "power": (ours_power, theirs_power),
    "mapped": (ours_mapped, theirs_mapped),
}
#: Differentiable in forward mode.
WHILES: Final[dict[str, tuple[Ours, Theirs]]] = {
    "while": (ours_while, theirs_while),
    "counted": (ours_counted, theirs_counted),
}
