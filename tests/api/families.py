"""Functions of one scalar, written once for tinyjax and once for jax, and the transformations to compose over them.

Each transformation takes a function from scalars to scalars and returns another one, so they compose in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import jax
import jax.numpy as jnp

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array, lax

Ours: TypeAlias = Callable[[Array], Array]
Theirs: TypeAlias = Callable[[jax.Array], jax.Array]


def ours_polynomial(x: Array) -> Array:
    return 3.0 * x * x * x - x / 2.0 + 1.0


def theirs_polynomial(x: jax.Array) -> jax.Array:
    return 3.0 * x * x * x - x / 2.0 + 1.0


def ours_mixed(x: Array) -> Array:
    y = tnp.sin(x) * 2.0
    return -y + x * tnp.exp(-x * x) + tnp.log(x * x + 1.5)


def theirs_mixed(x: jax.Array) -> jax.Array:
    y = jnp.sin(x) * 2.0
    return -y + x * jnp.exp(-x * x) + jnp.log(x * x + 1.5)


def ours_vector(x: Array) -> Array:
    v = x * tnp.arange(1.0, 4.0)
    m = tnp.outer(v, tnp.cos(v))
    return tnp.sum(tnp.tanh(m @ v)) + tnp.max(v) - tnp.sum(m * m, axis=0)[1]


def theirs_vector(x: jax.Array) -> jax.Array:
    v = x * jnp.arange(1.0, 4.0)
    m = jnp.outer(v, jnp.cos(v))
    return jnp.sum(jnp.tanh(m @ v)) + jnp.max(v) - jnp.sum(m * m, axis=0)[1]


def ours_nested(x: Array) -> Array:
    @tj.jit
    def inner(y: Array) -> Array:
        def wave(w: Array) -> Array:
            return tnp.sin(w) * x

        return tj.jit(wave)(y) + y * x

    def scaled(z: Array) -> Array:
        return inner(z) * x

    return inner(x * 2.0) + tj.jvp(scaled, (x,), (1.0,))[1]


def theirs_nested(x: jax.Array) -> jax.Array:
    @jax.jit
    def inner(y: jax.Array) -> jax.Array:
        def wave(w: jax.Array) -> jax.Array:
            return jnp.asarray(jnp.sin(w) * x)

        return jnp.asarray(jax.jit(wave)(y) + y * x)

    def scaled(z: jax.Array) -> jax.Array:
        return jnp.asarray(inner(z) * x)

    tangent: jax.Array = jax.jvp(scaled, (x,), (1.0,))[1]
    return jnp.asarray(inner(x * 2.0) + tangent)


def ours_branches(x: Array) -> Array:
    return tnp.where(x > 1.0, x**3, tnp.abs(x) * tnp.sqrt(x + 4.0)) * tnp.minimum(x, 2.0)


def theirs_branches(x: jax.Array) -> jax.Array:
    return jnp.where(x > 1.0, x**3, jnp.abs(x) * jnp.sqrt(x + 4.0)) * jnp.minimum(x, 2.0)


def ours_conditional(x: Array) -> Array:
    def deeper(y: Array) -> Array:
        return lax.cond(y > x, tnp.sin, lambda z: z * z * x, y)

    chosen = lax.cond(x > 0.8, deeper, lambda y: 3.0 * tnp.cos(y) + x, x * 1.5 - 0.3)
    index = tnp.floor(x * 2.0).astype("int32")
    switched: Array = lax.switch(index, [tnp.exp, lambda y: y * x * chosen, lambda _: x**3], x - 0.5)
    return switched + lax.cond(True, lambda: x * chosen, lambda: 2.0 * x)


def theirs_conditional(x: jax.Array) -> jax.Array:
    def deeper(y: jax.Array) -> jax.Array:
        return jnp.asarray(jax.lax.cond(y > x, jnp.sin, lambda z: z * z * x, y))

    chosen = jax.lax.cond(x > 0.8, deeper, lambda y: 3.0 * jnp.cos(y) + x, x * 1.5 - 0.3)
    index = jnp.floor(x * 2.0).astype("int32")
    switched = jax.lax.switch(index, [jnp.exp, lambda y: y * x * chosen, lambda _: x**3], x - 0.5)
    return jnp.asarray(switched + jax.lax.cond(True, lambda: x * chosen, lambda: 2.0 * x))


FUNCTIONS: Final[dict[str, tuple[Ours, Theirs]]] = {
    "polynomial": (ours_polynomial, theirs_polynomial),
    "mixed": (ours_mixed, theirs_mixed),
    "vector": (ours_vector, theirs_vector),
    "nested": (ours_nested, theirs_nested),
    "branches": (ours_branches, theirs_branches),
    "conditional": (ours_conditional, theirs_conditional),
}


def ours_jvp(f: Ours) -> Ours:
    return lambda x: tj.jvp(f, (x,), (1.0,))[1]


def ours_vmap(f: Ours) -> Ours:
    return lambda x: tnp.sum(tj.vmap(f)(x + tnp.arange(3.0) / 4.0))


def ours_linearize(f: Ours) -> Ours:
    return lambda x: tj.linearize(f, x)[1](2.0)


def theirs_jvp(f: Theirs) -> Theirs:
    return lambda x: jax.jvp(f, (x,), (1.0,))[1]


def theirs_vmap(f: Theirs) -> Theirs:
    return lambda x: jnp.sum(jax.vmap(f)(x + jnp.arange(3.0) / 4.0))


def theirs_linearize(f: Theirs) -> Theirs:
    def g(x: jax.Array) -> jax.Array:
        out: jax.Array = jax.linearize(f, x)[1](jnp.asarray(2.0))
        return out

    return g


TRANSFORMATIONS: Final[dict[str, tuple[Callable[[Ours], Ours], Callable[[Theirs], Theirs]]]] = {
    "jit": (tj.jit, jax.jit),
    "jvp": (ours_jvp, theirs_jvp),
    "vmap": (ours_vmap, theirs_vmap),
    "grad": (tj.grad, jax.grad),
    "linearize": (ours_linearize, theirs_linearize),
}
