"""`tinyjax.ops` against `jax.ops`: values, types, derivatives, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import ops
from tinyjax.errors import ChoiceError, ConcretizationError, InputError, ShapeError
from tinyjax.ir.dtypes import HostArray

NAMES = ("segment_sum", "segment_prod", "segment_max", "segment_min")
#: Segments out of range, negative ones, one that is empty, and one with several entries.
IDS = np.array([0, 3, 3, -1, 9, 1, 0], np.int32)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"num_segments": 5},
    {"num_segments": 0},
    {"num_segments": 4, "bucket_size": 3},
    {"num_segments": 4, "mode": "clip"},
)


def numbers(shape: tuple[int, ...], dtype: str) -> HostArray:
    found: HostArray = (np.random.default_rng(3).normal(size=shape) * 3).astype(dtype)
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sweep
def test_values(name: str) -> None:
    ours, theirs = getattr(ops, name), getattr(jax.ops, name)
    for dtype, shape, ids in (("float32", (7, 2), IDS), ("uint8", (7,), IDS), ("complex64", (2, 3), np.array([1, 1]))):
        x = numbers(shape, dtype)
        for given in OPTIONS:
            found, expected = ours(x, ids, **given), theirs(x, ids, **given)
            assert (found.dtype, found.shape, found.aval.weak_type) == (expected.dtype, expected.shape, False)
            np.testing.assert_array_equal(found, expected)
            if "bucket_size" in given:
                staged = tj.jit(lambda x, ids, given=given: ours(x, ids, **given))(x, ids)
                np.testing.assert_array_equal(staged, expected)


@pytest.mark.parametrize("name", ["segment_sum", "segment_max", "segment_min"])
@pytest.mark.sweep
def test_derivatives_and_batches(name: str) -> None:
    ours: Callable[..., Any] = getattr(ops, name)
    theirs: Callable[..., Any] = getattr(jax.ops, name)
    x = numbers((3, 7), "float64")
    weights = np.arange(1.0, 5.0)
    found = tj.vmap(tj.grad(lambda x: (ours(x, IDS, 4) * weights)[0:4:2].sum()))(x)
    expected = jax.vmap(jax.grad(lambda x: (theirs(x, IDS, 4) * weights)[0:4:2].sum()))(x)
    np.testing.assert_allclose(found, expected, 1e-12)


def test_what_is_refused() -> None:
    x = np.ones(3)
    with pytest.raises(InputError, match=r"segment_sum: segment_ids must be integers, got f64\[3\]"):
        ops.segment_sum(x, x)
    with pytest.raises(ChoiceError, match="segment_max: num_segments must be at least 0, got -1"):
        ops.segment_max(x, np.zeros(3, int), -1)
    with pytest.raises(ChoiceError, match="segment_min: bucket_size must be at least 1, got 0"):
        ops.segment_min(x, np.zeros(3, int), 1, bucket_size=0)
    with pytest.raises(ShapeError):
        ops.segment_prod(x, np.zeros(2, int), 1)
    with pytest.raises(ConcretizationError, match=r"segment_sum: segment_ids, of type .* Give num_segments"):
        tj.jit(ops.segment_sum)(x, np.zeros(3, int))
