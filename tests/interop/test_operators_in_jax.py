"""Operators between our arrays and values that JAX traces: whichever side the array is on, JAX computes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp

FLOATS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lt", "le", "gt", "ge", "eq", "ne")
INTEGERS = ("and_", "or_", "xor", "lshift", "rshift")


@pytest.mark.parametrize("name", FLOATS + INTEGERS)
def test_both_sides(name: str) -> None:
    apply: Callable[[Any, Any], Any] = getattr(operator, name)
    dtype = "int32" if name in INTEGERS else "float32"
    held, given = np.arange(1, 4, dtype=dtype), np.array([2, 2, 1], dtype)
    array = tnp.asarray(held)
    np.testing.assert_allclose(jax.jit(lambda x: apply(array, x))(given), apply(held, given), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda x: apply(x, array))(given), apply(given, held), rtol=1e-6)


def test_what_jax_does_with_the_function() -> None:
    weights = tnp.asarray(np.arange(3.0, dtype="float32"))
    on_device = tj.jit(lambda w: w + 0.0)(weights)
    x = np.ones(3, "float32")
    for held in (weights, on_device):
        np.testing.assert_array_equal(jax.grad(lambda x, w=held: (w * x).sum())(x), [0.0, 1.0, 2.0])
        np.testing.assert_array_equal(jax.vmap(lambda x, w=held: w * x)(x), np.outer(x, weights))
        np.testing.assert_array_equal(jax.jvp(lambda x, w=held: w - x, (x,), (x,))[1], -x)


def test_what_we_trace_is_no_array_of_jax() -> None:
    x = np.ones(3, "float32")
    with pytest.raises(tj.errors.TracerArrayConversionError, match=r"can't be converted to a jax\.Array"):
        tj.jit(lambda w: jax.jit(lambda x: w * x)(x))(x)


def test_other_objects_with_operators_of_their_own_are_still_converted() -> None:
    class Parameter:
        def __jax_array__(self) -> jax.Array:
            return jax.numpy.arange(3)

        def __radd__(self, other: object) -> str:
            return "its own"

    assert isinstance(tnp.ones(3) + Parameter(), tj.Array)
