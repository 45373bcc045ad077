"""Arrays that NumPy broadcasts get axes first, and are widened then: so XLA finds as much as in JAX's programs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.closing_programs import Function, Numpy
from tinyjax import ShapedArray, lax


@pytest.mark.parametrize(
    ("shape", "out", "dims", "steps"),
    [
        ((3,), (2, 4, 3), (2,), 2),
        ((4, 3), (2, 4, 3), (1, 2), 2),
        ((1, 3), (2, 4, 3), (1, 2), 2),
        ((3,), (1, 3), (1,), 1),  # nothing to widen
        ((3,), (3, 4), (0,), 1),  # not as NumPy broadcasts
        ((1, 3), (2, 3), (0, 1), 1),
        ((), (2, 3), (), 1),
    ],
)
def test_axes_are_added_before_they_are_widened(
    shape: tuple[int, ...], out: tuple[int, ...], dims: tuple[int, ...], steps: int
) -> None:
    f = tj.jit(lambda x: lax.broadcast_in_dim(x, out, dims))
    x = np.arange(float(np.prod(shape))).reshape(shape)
    assert f.lower(ShapedArray(shape, "float64")).as_text().count("broadcast_in_dim") == steps
    expected = jax.lax.broadcast_in_dim(jnp.asarray(x), out, dims)
    np.testing.assert_array_equal(np.asarray(f(tnp.asarray(x))), np.asarray(expected))


def of_distances(m: Numpy) -> Function:
    """A kernel of differences, divided by scales."""

    def kernel(x: Any, scale: Any) -> Any:
        d = (x[:, None] - x[None]) / m.exp(scale)
        return m.sum(m.exp(-0.5 * m.sum(d * d, -1)))

    return kernel


def test_a_kernel_divided_by_scales_takes_no_more_memory_than_in_jax() -> None:
    """XLA multiplies by exp(-scale), and keeps no array of all differences."""
    x, scale = np.random.default_rng(0).normal(size=(25, 3)).astype("float32"), np.ones(3, "float32")
    ours = tj.jit(tj.grad(of_distances(tnp), (0, 1))).lower(x, scale).compile()
    theirs = jax.jit(jax.grad(of_distances(jnp), (0, 1))).lower(x, scale).compile().memory_analysis()
    assert theirs is not None
    assert ours.memory_analysis().temp_size_in_bytes <= 1.05 * theirs.temp_size_in_bytes
