"""Tangents of integers, which hold nothing: programs of JAX that choose among them, pass them on and return them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tinyjax as tj
from tinyjax.interop.jax import of_jax

NOTHING: Final = np.zeros((), jax.dtypes.float0)
P, X, I = np.array([True, False]), np.ones((2, 3), np.float32), np.arange(2, dtype=np.int32)


def derived(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, i: jax.jvp(f, (x, i), (x, NOTHING))


def branches(p: jax.Array, x: jax.Array, i: jax.Array) -> Any:
    return lax.cond(p, derived(lambda x, i: (x * 2, i + 1)), derived(lambda x, i: (jnp.sin(x), i)), x, i)


def outside(p: jax.Array, x: jax.Array, i: jax.Array) -> Any:
    return derived(lambda x, i: lax.cond(p, lambda: (x * 2, i + 1), lambda: (jnp.sin(x), i)))(x, i)


def loop(p: jax.Array, x: jax.Array, i: jax.Array) -> Any:
    def step(c: jax.Array, _: None) -> Any:
        return c + p, derived(lambda x, i: (x * c, i + 1))(x, i)

    return lax.scan(step, jnp.float32(1), None, length=2)


def chosen(p: jax.Array, x: jax.Array, i: jax.Array) -> Any:
    return derived(lambda x, i: (jnp.where(p, x, 2 * x), jnp.where(p, i, -i)[None]))(x, i)


def row(lib: Any, f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda p, x, i: f(p[0], x[0], i[0])


WAYS: Final[dict[str, Callable[[Any, Callable[..., Any]], Callable[..., Any]]]] = {
    "one": row,
    "compiled": lambda lib, f: lib.jit(row(lib, f)),
    "mapped": lambda lib, f: lib.vmap(f),
    "mapped and compiled": lambda lib, f: lib.jit(lib.vmap(f)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", [branches, outside, loop, chosen])
def test_programs_return_them(program: Callable[..., Any], way: str) -> None:
    around = WAYS[way]
    expected = jax.tree.leaves(around(jax, program)(P, X, I))
    for found in (around(tj, of_jax(program))(P, X, I), of_jax(around(jax, program))(P, X, I)):
        leaves = [np.asarray(x) for x in tj.tree.leaves(found)]
        assert [x.dtype for x in leaves] == [x.dtype for x in expected]
        assert [x.shape for x in leaves] == [x.shape for x in expected]
        for a, b in zip(leaves, expected, strict=True):
            if a.dtype != jax.dtypes.float0:
                np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3), 2)))
def test_broadcasting_in_any_order_of_axes(axes: tuple[int, int]) -> None:
    """JAX takes the axes in any order, and puts them there; but it has no cotangents then."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    shape = [4, 4, 4]
    shape[axes[0]], shape[axes[1]] = x.shape

    def f(x: Any) -> jax.Array:
        return lax.broadcast_in_dim(x, shape, axes) * np.arange(shape[2], dtype=np.float32)

    def ordered(x: Any) -> jax.Array:
        x = x if axes[0] < axes[1] else x.T
        return lax.broadcast_in_dim(x, shape, sorted(axes)) * np.arange(shape[2], dtype=np.float32)

    def total(numpy: Any, f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: numpy.sum(numpy.sin(f(x)))

    imported = of_jax(f)
    np.testing.assert_array_equal(np.asarray(imported(x)), f(x))
    np.testing.assert_array_equal(np.asarray(tj.vmap(imported)(x[None])), f(x)[None])
    found = tj.grad(total(tj.numpy, imported))(x)
    np.testing.assert_allclose(np.asarray(found), jax.grad(total(jnp, ordered))(x), rtol=1e-4, atol=1e-5)
