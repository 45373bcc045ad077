"""Loops that apply their function several times an iteration take and write the rows of an iteration together."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from benchmarks.library import our_sizes, their_sizes
from tinyjax.interop.jax import of_jax


def _step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.sin(carry * row), carry + row


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [2, 4])
def test_no_more_than_jax_computes(unroll: int, reverse: bool) -> None:
    rows = jnp.asarray(np.linspace(0.1, 1.0, 60).reshape(12, 5), "float32")

    def run(carry: jax.Array) -> jax.Array:
        carry, rest = jax.lax.scan(_step, carry, rows, reverse=reverse, unroll=unroll)
        return jnp.sum(carry) + jnp.sum(rest**2)

    x = np.full(5, 0.7, "float32")
    for ours, theirs in ((of_jax(run), run), (tj.grad(of_jax(run)), jax.grad(run))):
        mine, other = our_sizes(ours, x), their_sizes(theirs, x)
        assert mine.instructions <= other.instructions
        assert mine.temporary <= other.temporary
        np.testing.assert_allclose(np.asarray(tj.jit(ours)(x)), np.asarray(theirs(jnp.asarray(x))), rtol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 4, 5, 8, 11])
def test_what_is_left_over_is_taken_together(length: int, reverse: bool) -> None:
    rows = np.arange(2.0 * length).reshape(length, 2)

    def run(carry: tj.Array) -> tuple[tj.Array, tj.Array]:
        return tj.lax.scan(lambda c, x: (c * 0.5 + x, c - x), carry, rows, reverse=reverse, unroll=4)

    text = tj.jit(run).lower(tnp.ones(2)).as_text()
    blocks = (length > 4) + (length % 4 > 0 or length == 4)
    assert text.count("stablehlo.dynamic_slice ") == text.count("stablehlo.dynamic_update_slice ") == blocks
    for found, expected in zip(tj.jit(run)(tnp.ones(2)), run(tnp.ones(2)), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12)
