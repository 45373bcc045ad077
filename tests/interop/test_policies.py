"""What checkpoints of JAX keep by policies that are functions: the same here, as far as a program says it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

import tinyjax as tj
from tinyjax.interop.jax import from_jax, of_jax

X = np.random.default_rng(0).standard_normal((3, 3)).astype(np.float32) / 2
_POLICIES = jax.checkpoint_policies
_MEMORIES = {"offload_src": "device", "offload_dst": "pinned_host"}


def products(primitive: Any, *avals: Any, **params: Any) -> bool:
    """A policy of a user's, which asks what JAX tells it."""
    return primitive.name == "dot_general" and len(avals) == 2 and "precision" in params


def whatever(*_: object, **__: object) -> bool:
    return True


POLICIES: dict[str, Callable[..., Any]] = {
    "products": products,
    "whatever": whatever,
    "both": _POLICIES.save_from_both_policies(_POLICIES.dots_saveable, _POLICIES.save_only_these_names("h")),
    "other names": _POLICIES.save_anything_except_these_names("h"),
    "offloaded products": _POLICIES.offload_dot_with_no_batch_dims("device", "pinned_host"),
    "offloaded names": _POLICIES.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["h"], **_MEMORIES
    ),
}


def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.nn.relu(jnp.sin(carry) @ carry) * x, jnp.sin(carry)


@jax.jit
def inner(x: jax.Array) -> jax.Array:
    return jnp.cos(x) @ x


def program(x: jax.Array) -> jax.Array:
    """Products and names in a loop, in a call and in a branch."""
    looped, _ = jax.lax.scan(step, x, jnp.arange(1.0, 4.0, dtype=jnp.float32))
    count = jax.lax.while_loop(lambda n: n < 3, lambda n: n + 1, 0)
    named: jax.Array = checkpoint_name(jnp.cos(looped), "h")
    chosen: jax.Array = jax.lax.cond(x.sum() > 0, lambda y: inner(y) * count, lambda y: y, named)
    total: jax.Array = chosen.sum()
    return total


def count(program: object) -> list[int]:
    """How often a program has what is dear."""
    return [len(re.findall(rf"= {name}\b", str(program))) for name in ("dot_general", "sin", "cos")]


@pytest.mark.sweep
@pytest.mark.parametrize("name", POLICIES)
def test_what_is_kept_is_what_jax_keeps(name: str) -> None:
    kept = jax.checkpoint(program, policy=POLICIES[name])
    ours, expected = tj.grad(of_jax(kept)), jax.grad(kept)
    assert count(tj.make_jaxpr(ours)(X)) == count(jax.make_jaxpr(expected)(X))
    np.testing.assert_allclose(tj.jit(ours)(X), expected(X), rtol=1e-5)
    rows = np.stack([X, -X])
    np.testing.assert_allclose(tj.jit(tj.vmap(ours))(rows), jax.vmap(expected)(rows), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", POLICIES)
def test_gradients_that_jax_has_traced_are_read(name: str) -> None:
    gradient = jax.grad(jax.checkpoint(program, policy=POLICIES[name]))
    np.testing.assert_allclose(tj.jit(of_jax(gradient))(X), gradient(X), rtol=1e-5)


def test_checkpoints_within_others_are_asked_by_their_own_policy() -> None:
    def f(x: jax.Array, policy: Callable[..., Any]) -> jax.Array:
        within = jax.checkpoint(lambda y: jnp.sin(y @ y), policy=policy)
        around = jax.checkpoint(lambda y: within(jnp.cos(y) @ y).sum(), policy=products)
        return jnp.asarray(around(x))

    for policy in (products, _POLICIES.save_anything_except_these_names("h"), _POLICIES.nothing_saveable):
        gradient = tj.jit(tj.grad(of_jax(lambda x, policy=policy: f(x, policy))))
        np.testing.assert_allclose(gradient(X), jax.grad(f)(X, policy), rtol=1e-5)


def test_a_transfer_to_another_memory_is_a_copy() -> None:
    space = jax.memory.Space

    def there_and_back(x: jax.Array) -> jax.Array:
        return jnp.sin(jax.device_put(jax.device_put(x, space.Host), space.Device))

    assert [eqn.primitive.name for eqn in from_jax(there_and_back, X).jaxpr.eqns] == ["copy", "copy", "sin"]
    np.testing.assert_array_equal(tj.jit(of_jax(there_and_back))(X), jax.jit(there_and_back)(X))
