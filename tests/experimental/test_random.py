"""`experimental.random`: a generator that counts by itself draws what JAX's draws, wherever it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import random as jax_random

import tinyjax as tj
from tinyjax import errors
from tinyjax.experimental.random import StatefulPRNG, stateful_rng

DRAWS: list[Callable[[Any], Any]] = [
    lambda rng: rng.random((3,)),
    lambda rng: rng.random(2, "float32"),
    lambda rng: rng.uniform(),
    lambda rng: rng.uniform(2.0, np.array([3.0, 5.0])),
    lambda rng: rng.normal(np.arange(2.0), 3.0),
    lambda rng: rng.normal(size=(2, 2), dtype="float32"),
    lambda rng: rng.integers(10),
    lambda rng: rng.integers(3, np.array([5, 90])),
    lambda rng: rng.integers(0, 100, 4, dtype="int8"),
    lambda rng: [child.integers(0, 1000, 2) for child in rng.spawn(2)],
]


@pytest.mark.sweep
@pytest.mark.parametrize("impl", [None, "rbg"])
def test_the_numbers_are_those_of_jax(impl: str | None) -> None:
    theirs = jax_random.stateful_rng(42, impl=impl)
    ours = stateful_rng(42, impl=impl)
    for draw in DRAWS:
        for found, right in zip(tj.tree.leaves(draw(ours)), jax.tree.leaves(draw(theirs)), strict=True):
            assert found.dtype == right.dtype
            np.testing.assert_allclose(found, right, rtol=1e-6)
    keys = [jax.random.key_data(theirs.key((2,))), jax.random.key_data(theirs.key())]
    for found, right in zip([ours.key((2,)), ours.key()], keys, strict=True):
        np.testing.assert_array_equal(tj.random.key_data(found), right)


@pytest.mark.sweep
def test_it_counts_within_functions() -> None:
    theirs, ours = jax_random.stateful_rng(7), stateful_rng(7)

    def run(rng: Any, jit: Any, lax: Any) -> list[Any]:
        argument = jit(lambda rng: rng.uniform() + lax.fori_loop(0, 3, lambda i, x: x + rng.normal(), 0.0))
        closed = jit(rng.normal)
        return [argument(rng), argument(rng), closed(), closed(), rng.uniform()]

    np.testing.assert_allclose(run(ours, tj.jit, tj.lax), run(theirs, jax.jit, jax.lax), rtol=1e-12)
    mapped = tj.vmap(lambda rng, x: x + rng.uniform())(ours.split(3), np.arange(3.0))
    right = jax.vmap(lambda rng, x: x + rng.uniform())(theirs.split(3), np.arange(3.0))
    np.testing.assert_allclose(mapped, right, rtol=1e-12)
    value, slope = tj.value_and_grad(lambda x: x * ours.uniform())(2.0)  # JAX's can't be used here
    np.testing.assert_allclose([value / 2.0, slope], [theirs.uniform()] * 2, rtol=1e-12)
    np.testing.assert_allclose(ours.uniform(), theirs.uniform(), rtol=1e-12)


def test_without_a_seed() -> None:
    assert float(stateful_rng().uniform()) != float(stateful_rng().uniform())
    with pytest.raises(errors.InputError, match="would draw the same numbers"):
        tj.jit(lambda: stateful_rng().uniform())()
    tj.grad(lambda x: x * stateful_rng().uniform())(1.0)  # it runs in Python, so nothing is kept


def test_bad_input() -> None:
    with pytest.raises(errors.ShapeError, match=r"was split, here into \(2,\)"):
        stateful_rng(0).split(2).uniform()
    with pytest.raises(errors.InputError, match="counter is a int, no Ref"):
        StatefulPRNG(tj.random.key(0), 0).key()  # type: ignore[arg-type]
    with pytest.raises(errors.InputError):
        StatefulPRNG(tj.numpy.zeros(()), tj.new_ref(0)).key()
