"""`x.at[index].apply(f)`: repeated positions are applied to repeatedly, as in JAX and by NumPy's `ufunc.at`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.arrays.basic_indexing import Index


@pytest.mark.parametrize("index", [[1, 1, 3, 1], [-1, 3, 0], [], [2], [[0, 0], [0, 3]]])
def test_repeated_positions(index: list[int]) -> None:
    x, at = np.array([1.0, 2.0, 3.0, 4.0]), np.array(index, int)
    expected = x.copy()
    np.sqrt.at(expected, at)
    np.testing.assert_allclose(np.asarray(tnp.asarray(x).at[at].apply(tnp.sqrt)), expected, rtol=1e-12)
    applied = tj.jit(lambda x, at: x.at[at].apply(tnp.sqrt))
    np.testing.assert_allclose(np.asarray(applied(x, at)), expected, rtol=1e-12)


@pytest.mark.parametrize("index", [1, slice(1, 3), np.array([0, 2]), (slice(None), 0), np.array([True, False, True])])
def test_positions_that_differ_have_derivatives(index: Any) -> None:
    x = np.arange(1.0, 4.0) if not isinstance(index, tuple) else np.ones((2, 2))
    expected = np.ones_like(x)
    expected[index] = np.cos(x[index])
    slope = tj.grad(lambda x: x.at[index].apply(tnp.sin).sum())(x)
    np.testing.assert_allclose(np.asarray(slope), expected, rtol=1e-12)


def test_traced_positions_that_are_unique_have_derivatives() -> None:
    def total(x: Any, i: Index) -> tj.Array:
        return tnp.sum(x.at[i].apply(tnp.sin, unique_indices=True))

    slope = tj.jit(tj.grad(total))(np.ones(3), np.array([2, 0]))
    np.testing.assert_allclose(np.asarray(slope), [np.cos(1), 1, np.cos(1)], rtol=1e-12)


def test_arrays_that_numpy_has_broadcast_are_taken_without_warning() -> None:
    x, y = np.broadcast_arrays(np.ones((3, 1)), np.ones((1, 2)))
    assert (tnp.asarray(x) + y).tolist() == (tj.jit(tnp.add)(x, y)).tolist() == (x + y).tolist()
