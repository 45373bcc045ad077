"""What jax.numpy has from 0.11 on, `top_k` and `minmax`: against NumPy, and against that jax where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.numpy.oracle import agree, numbers
from tinyjax.errors import ChoiceError, ShapeError, TypingError
from tinyjax.ir.dtypes import HostArray

MODES: tuple[Literal["largest", "smallest"], ...] = ("largest", "smallest")
Pair = tuple[tj.Array, tj.Array]


def by_numpy(x: HostArray, k: int, axis: int, mode: str) -> tuple[HostArray, HostArray]:
    """By a stable sort: ascending, or with all that is equal the other way round."""
    if mode == "smallest":
        places = np.argsort(x, axis, stable=True)
    else:
        places = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, stable=True), axis)
    places = np.take(places, np.arange(k), axis)
    return np.take_along_axis(x, places, axis), places


@pytest.mark.parametrize("mode", MODES)
@given(st.data())
def test_top_k_is_the_first_of_a_stable_sort(mode: Literal["largest", "smallest"], data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["bool", "int8", "uint8", "int64", "float32", "float64"]))
    x = data.draw(arrays(dtype, array_shapes(max_dims=3, max_side=5)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    k = data.draw(st.integers(0, x.shape[axis]))
    values, places = tnp.top_k(x, k, axis=axis, mode=mode)
    expected_values, expected_places = by_numpy(x, k, axis, mode)
    np.testing.assert_array_equal(np.asarray(places), expected_places, strict=True)
    np.testing.assert_array_equal(np.asarray(values), expected_values, strict=True)


@pytest.mark.skipif(not hasattr(jnp, "top_k"), reason="jax has it from 0.11 on")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "bfloat16", "float32", "float64"])
def test_top_k_is_that_of_jax(dtype: str, mode: Literal["largest", "smallest"]) -> None:
    theirs: Callable[..., Pair] = getattr(jnp, "top_k")  # noqa: B009
    x = numbers(dtype, 3, 4, 2)
    for axis in (0, 1, -1):
        (ours, places), (expected, at) = tnp.top_k(x, 2, axis=axis, mode=mode), theirs(x, 2, axis=axis, mode=mode)
        agree(ours, expected)
        # jax counts places in int32; here they are what `argsort` gives, as NumPy has it.
        np.testing.assert_array_equal(np.asarray(places), np.asarray(at))


def test_nan_is_largest_and_the_least_integer_is_smallest() -> None:
    """Where jax negates what it sorts, the least integer is largest."""
    x = np.array([1.0, np.nan, -np.inf, np.inf])
    assert tnp.top_k(x, 2)[1].tolist() == [1, 3]
    assert tnp.top_k(x, 4, mode="smallest")[1].tolist() == [2, 0, 3, 1]
    assert tnp.top_k(np.array([0, -128, 127], np.int8), 1, mode="smallest")[0].tolist() == [-128]


@pytest.mark.parametrize("mode", MODES)
def test_top_k_under_transformations(mode: Literal["largest", "smallest"]) -> None:
    x = np.array([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])

    def values(x: tj.ArrayLike) -> tj.Array:
        return tnp.top_k(x, 2, mode=mode)[0]

    expected = values(x).tolist()
    assert tj.jit(values)(x).tolist() == tj.vmap(values)(x).tolist() == expected
    chosen = tj.grad(lambda x: tnp.sum(values(x) * np.array([1.0, 10.0])))(x)
    first, second = np.argsort(-x if mode == "largest" else x, axis=-1)[:, :2].T
    weights = np.zeros_like(x)
    weights[[0, 1], first], weights[[0, 1], second] = 1, 10
    np.testing.assert_array_equal(np.asarray(chosen), weights)


def test_what_top_k_refuses() -> None:
    x = np.arange(3.0)
    with pytest.raises(ShapeError, match=r"top_k: k is between 0 and the size of axis 0 of f64\[3\], got 4"):
        tnp.top_k(x, 4)
    untyped: Callable[..., Pair] = tnp.top_k
    with pytest.raises(ChoiceError, match="mode is 'largest' or 'smallest', not 'middle'"):
        untyped(x, 1, mode="middle")
    with pytest.raises(TypingError, match=r"top_k does not accept complex operands, got c128\[3\]"):
        tnp.top_k(x * 1j, 1)
    with pytest.raises(ShapeError, match="top_k"):
        tnp.top_k(1.0, 1)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("axis", [None, 1, (0, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_minmax_is_min_and_max(dtype: str, axis: int | tuple[int, ...] | None, keepdims: bool) -> None:
    x = numbers(dtype, 2, 3, 2)
    found = tnp.minmax(x, axis, keepdims=keepdims)
    agree(found[0], jnp.min(x, axis, keepdims=keepdims))
    agree(found[1], jnp.max(x, axis, keepdims=keepdims))
    if hasattr(jnp, "minmax"):
        agree(found, jnp.minmax(x, axis, keepdims=keepdims))


@pytest.mark.parametrize("initial", [1.5, (2.5, -1.0)])
def test_minmax_of_some_elements(initial: float | tuple[float, float]) -> None:
    x, mask = np.array([[1.0, 5.0], [2.0, -7.0]]), np.array([[True, False], [True, False]])
    least, greatest = initial if isinstance(initial, tuple) else (initial, initial)
    found = tj.jit(lambda x: tnp.minmax(x, 0, initial=initial, where=mask))(x)
    np.testing.assert_array_equal(found[0], np.min(x, 0, initial=least, where=mask))
    np.testing.assert_array_equal(found[1], np.max(x, 0, initial=greatest, where=mask))
    with pytest.raises(ShapeError, match="min with where needs initial"):
        tnp.minmax(x, where=mask)
