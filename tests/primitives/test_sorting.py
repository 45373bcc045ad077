"""Sorting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from tests.primitives.array_catalog import Case, aval, case, cases
from tests.primitives.array_checks import EVAL, check_all, check_batch, check_value, samples
from tinyjax.errors import ShapeError, TinyjaxError, TypingError
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.sorting import Sort, sort


@pytest.mark.sweep
@pytest.mark.parametrize("example", cases("sort"), ids=lambda example: example.name)
def test_catalog(example: Case) -> None:
    check_all(example)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sampled_from(["float32", "int8", "bool", "float16", "complex64"]), min_size=1, max_size=3),
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.data(),
)
def test_any_operands(dtypes: list[str], shape: list[int], data: st.DataObject) -> None:
    dimension = data.draw(st.integers(0, len(shape) - 1))
    num_keys = data.draw(st.integers(1, len(dtypes)))

    def reference(*xs: jax.Array) -> Sequence[jax.Array]:
        return lax.sort(xs, dimension=dimension, num_keys=num_keys)

    types = " ".join(f"{dtype}[{','.join(map(str, shape))}]" for dtype in dtypes)
    example = case("", Sort(dimension, True, num_keys), types, reference)
    rng = np.random.default_rng(0)
    check_value(example, samples(example.avals, rng))
    if len(dtypes) < 3:
        check_batch(example.primitive, example.avals, rng)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_order_of_special_values(dtype: str) -> None:
    numbers = np.array([0.0, -0.0, math.nan, -1.0, math.inf, -0.0, -math.inf, -math.nan, 0.0])

    def reference(x: jax.Array, i: jax.Array) -> Sequence[jax.Array]:
        return lax.sort((x, i))

    example = case("", Sort(0), f"{dtype}[9] int32[9]", reference)
    check_value(example, [numbers.astype(example.avals[0].dtype), np.arange(9, dtype=np.int32)])


def test_order_of_complex_numbers() -> None:
    numbers = np.array([complex(1, math.nan), 2, complex(math.nan, 1), 1 + 5j, complex(math.nan, 0), 1 - 5j])
    example = case("", Sort(0), "complex128[6]", lambda x: [lax.sort(x)])
    check_value(example, [numbers])


def test_vocabulary() -> None:
    keys, values = (ConcreteValue.of(np.array(x)) for x in ([2, 1, 2, 0], [1, 2, 3, 4]))
    assert [np.asarray(x).tolist() for x in sort(EVAL, keys, values, dimension=0)] == [[0, 1, 2, 2], [4, 2, 1, 3]]


@pytest.mark.parametrize(
    ("primitive", "types", "error", "message"),
    [
        (Sort(0), "", ShapeError, "at least one"),
        (Sort(0), "float32[]", ShapeError, "not distinct axes of an array with 0"),
        (Sort(1), "float32[3]", ShapeError, "not distinct"),
        (Sort(-1), "float32[3]", ShapeError, "not distinct"),
        (Sort(0), "float32[3] float32[4]", ShapeError, r"differ in shape: f32\[3\], f32\[4\]"),
        (Sort(0, True, 2), "float32[3]", ShapeError, "num_keys must be between 1 and 1"),
        (Sort(0, True, 0), "float32[3]", ShapeError, "num_keys must be between"),
    ],
)
def test_errors(primitive: Primitive, types: str, error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        primitive.type_of(*map(aval, types.split()))
    assert issubclass(error, TypingError)
