"""A choice between x and a number by their order is the greater or the lesser one, and part of what makes x in XLA."""

from __future__ import annotations

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array, lax, nn

NAN = float("nan")
VALUES = np.array([np.nan, -0.0, 0.0, 1.0, -1.0, 2.0, 6.0, 7.0, np.inf, -np.inf])


def written(f: Callable[[Array], Array], x: Array) -> list[str]:
    """Which of these operations there are, and in which order."""
    return re.findall(r"stablehlo\.(select|maximum|minimum)", tj.jit(f).lower(x).as_text())


CASES: dict[str, tuple[Callable[[Array], Array], list[str]]] = {
    "relu": (nn.relu, ["maximum"]),
    "relu6": (nn.relu6, ["minimum", "maximum"]),
    "from below": (lambda x: tnp.where(x <= -3, -3, x), ["maximum"]),
    "from above": (lambda x: tnp.where(x >= 2, 2, x), ["minimum"]),
    "nan is lost": (lambda x: tnp.where(x > 0, x, 0), ["select"]),
    "zeros stay": (lambda x: tnp.where(x < 0, 0, x), ["select"]),
    "zero from above": (lambda x: tnp.where(x >= 0, 0, x), ["select"]),
    "negative zero": (lambda x: tnp.where(x <= -0.0, -0.0, x), ["select"]),
    "another number": (lambda x: tnp.where(x <= 0, 1, x), ["select"]),
    "another array": (lambda x: tnp.where(x <= 0, 0, x + 1), ["select"]),
    "bounds cross": (lambda x: tnp.where(x <= 7, 7, tnp.where(x >= 6, 6, x)), ["minimum", "select"]),
    "of another array": (lambda x: tnp.where(x <= 0, 0, tnp.where((y := x + 1) >= 6, 6, y)), ["minimum", "select"]),
    "nan": (lambda x: tnp.where(x <= NAN, NAN, x), ["select"]),
    "one for all": (lambda x: lax.select(x[0] <= 0, tnp.zeros_like(x), x), ["select"]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float64", "float32", ml_dtypes.bfloat16])
def test_values_are_those_of_the_choice(name: str, dtype: str) -> None:
    f, operations = CASES[name]
    x = tnp.asarray(VALUES.astype(dtype))
    with np.errstate(invalid="ignore"):
        expected = np.asarray(f(x)).astype("float64")  # on the host, the choice itself
    found = np.asarray(tj.jit(f)(x)).astype("float64")
    np.testing.assert_array_equal(found, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(expected)[number])
    assert written(f, x) == operations


def test_integers() -> None:
    x = tnp.asarray([-2, 0, 3, 9], "int32")
    np.testing.assert_array_equal(np.asarray(tj.jit(nn.relu)(x)), [0, 0, 3, 9])
    assert written(nn.relu, x) == ["maximum"]


def test_derivatives_at_the_edge_are_zero() -> None:
    x = tnp.asarray([-1.0, 0.0, 2.0, 6.0, 7.0])
    gradient = tj.jit(tj.grad(lambda x: tnp.sum(nn.relu6(x) + nn.relu(x))))(x)
    np.testing.assert_array_equal(np.asarray(gradient), [0, 0, 2, 1, 1])


def test_a_convolution_and_what_follows_are_one_call_as_in_jax() -> None:
    x, k = np.ones((3, 2, 16, 16, 3), "float32"), np.ones((3, 3, 3, 3, 8), "float32")
    layout, window = ("NHWC", "HWIO", "NHWC"), (1, 2, 2, 1)

    def ours(x: Array, k: Array) -> Array:
        y = nn.relu(lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=layout))
        return lax.reduce_window(y, -np.inf, lax.max, window, window, "VALID")

    def theirs(x: jax.Array, k: jax.Array) -> object:
        y = jax.nn.relu(jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=layout))
        return jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, window, window, "VALID")

    found = tj.jit(tj.vmap(ours)).lower(tnp.asarray(x), tnp.asarray(k)).compile().memory_analysis()
    wanted = jax.jit(jax.vmap(theirs)).lower(x, k).compile().memory_analysis()
    assert wanted is not None
    assert found.temp_size_in_bytes <= 1.05 * wanted.temp_size_in_bytes
