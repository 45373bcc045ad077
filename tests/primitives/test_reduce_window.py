"""Sums, maxima and minima of windows, and what chooses elements of windows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax as jax_lax
from jax.extend.core import primitives as p

from tests.primitives.array_catalog import Case, cases
from tests.primitives.array_checks import check_all
from tinyjax import Array, jit, lax
from tinyjax.ir.dtypes import integer_limits
from tinyjax.tracing.array import ArrayLike

NAMES = (
    "reduce_window_sum",
    "reduce_window_max",
    "reduce_window_min",
    "select_and_gather_add",
    "select_and_scatter_add",
)


@pytest.mark.parametrize("example", cases(*NAMES), ids=lambda example: example.name)
@pytest.mark.sweep
def test_catalog(example: Case) -> None:
    check_all(example)


@pytest.mark.sweep
@settings(max_examples=10, deadline=None)
@given(st.data())
def test_choices_among_special_values(data: st.DataObject) -> None:
    """Equal numbers, nan and infinities, at all places of windows with padding and gaps, here and compiled."""
    values = st.sampled_from([0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
    x = np.array(data.draw(st.lists(values, min_size=5, max_size=5)))
    t = np.arange(1.0, 6.0)
    size, stride, base, hole, low, high = (
        data.draw(st.integers(*ends)) for ends in [(1, 3), (1, 2), (1, 2), (1, 2), (0, 2), (0, 2)]
    )
    choice = data.draw(st.sampled_from(["ge", "le"]))
    sizes = {"window_dimensions": (size,), "window_strides": (stride,), "padding": ((low, high),)}
    gaps = {"base_dilation": (base,), "window_dilation": (hole,)}
    by = p.ge_p if choice == "ge" else p.le_p
    expected = jax_lax.select_and_gather_add_p.bind(t, x, select_prim=by, **sizes, **gaps)

    def gather(t: ArrayLike, x: ArrayLike) -> Array:
        return lax.select_and_gather_add(t, x, choice, (size,), (stride,), ((low, high),), (base,), (hole,))

    np.testing.assert_array_equal(np.asarray(gather(t, x)), expected)
    np.testing.assert_array_equal(np.asarray(jit(gather)(t, x)), expected)
    count = lax.reduce_window_shape_tuple((5,), (size,), (stride,), ((low, high),))
    source = np.arange(1.0, count[0] + 1)
    scattered = jax_lax.select_and_scatter_add_p.bind(source, x, select_prim=by, **sizes)
    found = lax.select_and_scatter_add(source, x, choice, (size,), (stride,), ((low, high),))
    np.testing.assert_array_equal(np.asarray(found), scattered)


@pytest.mark.sweep
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_integers_and_booleans_are_scattered(data: st.DataObject) -> None:
    """Of every width, with the least and the greatest ones, and booleans, here and compiled."""
    dtype = np.dtype(data.draw(st.sampled_from(["bool", "int4", "uint4", "int8", "uint8", "int32", "uint64"])))
    choice = data.draw(st.sampled_from(["ge", "le"]))
    values = st.sampled_from([0, 1] if dtype == "bool" else [*integer_limits(dtype), 0, 1])
    x = np.array(data.draw(st.lists(values, min_size=5, max_size=5)), object).astype(dtype)
    size, stride, low, high = (data.draw(st.integers(*ends)) for ends in [(1, 3), (1, 2), (0, 2), (0, 2)])
    count = lax.reduce_window_shape_tuple((5,), (size,), (stride,), ((low, high),))[0]
    source = (np.arange(count) % 3 + 1).astype(dtype)
    by = p.ge_p if choice == "ge" else p.le_p
    sizes = {"window_dimensions": (size,), "window_strides": (stride,), "padding": ((low, high),)}
    expected = jax_lax.select_and_scatter_add_p.bind(source, x, select_prim=by, **sizes)

    def scatter(source: ArrayLike, x: ArrayLike) -> Array:
        return lax.select_and_scatter_add(source, x, choice, (size,), (stride,), ((low, high),))

    np.testing.assert_array_equal(np.asarray(scatter(source, x)), expected)
    np.testing.assert_array_equal(np.asarray(jit(scatter)(source, x)), expected)


@pytest.mark.parametrize("choice", ["ge", "le"])
@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4", "int8", "uint8"])
def test_padding_is_chosen_before_as_extreme_numbers(dtype: str, choice: str) -> None:
    """The padding of a window comes first, so what its source adds is lost, also where it has less than 8 bits."""
    limits = integer_limits(np.dtype(dtype))
    x = np.full(3, limits[choice == "le"], object).astype(dtype)

    def scatter(source: ArrayLike, x: ArrayLike) -> Array:
        return lax.select_and_scatter_add(source, x, choice, (2,), (1,), ((1, 0),))

    for found in (scatter, jit(scatter)):
        np.testing.assert_array_equal(np.asarray(found(np.ones(3, dtype), x)), np.array([1, 1, 0], dtype))
