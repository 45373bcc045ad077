"""Cumulative sums, products, maxima, minima and log-sum-exps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from tests.primitives.array_catalog import Case, Reference, aval, case, cases
from tests.primitives.array_checks import check_all, check_batch, check_jvp, check_value, check_vjp, samples
from tinyjax.errors import ShapeError, TinyjaxError, TypingError
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives.cumulative import CumLogSumExp, CumMax, CumMin, CumProd, CumSum, Cumulative

ALL: list[tuple[type[Cumulative], Reference]] = [
    (CumSum, lax.cumsum),
    (CumProd, lax.cumprod),
    (CumMax, lax.cummax),
    (CumMin, lax.cummin),
    (CumLogSumExp, lax.cumlogsumexp),
]


@pytest.mark.sweep
@pytest.mark.parametrize("example", cases(*[cls.name for cls, _ in ALL]), ids=lambda example: example.name)
def test_catalog(example: Case) -> None:
    check_all(example)


@pytest.mark.sweep
@settings(max_examples=20, deadline=None)
@given(st.sampled_from(ALL), st.lists(st.integers(0, 4), min_size=1, max_size=4), st.booleans(), st.data())
def test_along_any_axis(
    which: tuple[type[Cumulative], Reference], shape: list[int], reverse: bool, data: st.DataObject
) -> None:
    cls, function = which
    axis = data.draw(st.integers(0, len(shape) - 1))
    types = f"float64[{','.join(map(str, shape))}]"
    example = case("", cls(axis, reverse), types, lambda x: function(x, axis, reverse))
    rng = np.random.default_rng(0)
    check_value(example, samples(example.avals, rng))
    check_batch(example.primitive, example.avals, rng)


@pytest.mark.parametrize("size", [2, 3, 4, 9])
@pytest.mark.parametrize("cls", [CumProd, CumMax, CumLogSumExp])
def test_derivatives_at_every_length(cls: type[Cumulative], size: int) -> None:
    function = dict(ALL)[cls]
    example = case("", cls(0), f"float64[{size}]", lambda x: function(x, 0, False))
    rng = np.random.default_rng(size)
    check_jvp(example, samples(example.avals, rng), rng)
    check_vjp(example, samples(example.avals, rng), rng)


@pytest.mark.parametrize(
    "numbers",
    [
        [math.nan, 1.0, 2.0],
        [1.0, math.nan, 2.0],
        [-math.inf, 1.0, -math.inf],
        [-math.inf, -math.inf, 1.0],
        [1.0, math.inf, 2.0],
        [0.0, -0.0, 0.0],
        [1000.0, 1001.0, -1000.0],
        [1.0, 1.0, 1.0],
    ],
)
@pytest.mark.parametrize("which", ALL, ids=lambda which: str(which[0].name))
def test_special_values(which: tuple[type[Cumulative], Reference], numbers: list[float]) -> None:
    cls, function = which
    example = case("", cls(0), "float64[3]", lambda x: function(x, 0, False))
    check_value(example, [np.array(numbers)])
    # Next to an infinity JAX gives finite numbers the weight that they have next to 0.
    if not (cls is CumLogSumExp and math.inf in numbers):
        check_jvp(example, [np.array(numbers)], np.random.default_rng(0))


@pytest.mark.parametrize(
    ("primitive", "types", "error", "message"),
    [
        (CumSum(1), "float32[3]", ShapeError, "not distinct axes of an array with 1"),
        (CumProd(-1), "float32[3]", ShapeError, "not distinct"),
        (CumMax(0), "float32[]", ShapeError, "not distinct"),
        (CumMax(0), "bool[3]", TypingError, "cummax does not accept bool"),
        (CumLogSumExp(0), "int32[3]", TypingError, "cumlogsumexp does not accept i32"),
        (CumSum(0), "float32[3] float32[3]", TypingError, "takes 1 operand, got 2"),
    ],
)
def test_errors(primitive: Primitive, types: str, error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        primitive.type_of(*map(aval, types.split()))
