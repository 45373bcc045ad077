"""The polar decomposition by iteration, against singular values."""

from __future__ import annotations

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import lax
from tinyjax.errors import ShapeError
from tinyjax.ir.dtypes import HostArray


def matrix(dtype: str, rows: int, columns: int) -> HostArray:
    rng = np.random.default_rng(rows)
    parts = rng.normal(size=(2, rows, columns))
    return np.asarray(parts[0] + (1j * parts[1] if dtype[0] == "c" else 0), dtype)


def check(a: HostArray, u: HostArray, h: HostArray) -> None:
    left, values, right = np.linalg.svd(a, full_matrices=False)
    bound = 2**12 * float(np.finfo(a.dtype).eps)
    np.testing.assert_allclose(u, left @ right, atol=bound)
    np.testing.assert_allclose(h, right.conj().T @ (values[:, None] * right), atol=bound * values[0])


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (7, 3)])
def test_values(dtype: str, shape: tuple[int, int]) -> None:
    a = matrix(dtype, *shape)
    for function in (lax.linalg.qdwh, tj.jit(lax.linalg.qdwh)):
        u, h, iterations, converged = function(a)
        check(a, np.asarray(u), np.asarray(h))
        assert 0 < int(iterations) < 10
        assert bool(converged)


def test_a_part_of_a_matrix() -> None:
    a = matrix("float64", 5, 4)
    u, h, _, _ = tj.jit(lambda a, m, n: lax.linalg.qdwh(a, dynamic_shape=(m, n)))(a, 4, 2)
    check(a[:4, :2], np.asarray(u)[:4, :2], np.asarray(h)[:2, :2])


def test_too_few_iterations_and_rows() -> None:
    a = matrix("float64", 3, 3)
    _, _, iterations, converged = lax.linalg.qdwh(a, max_iterations=2)
    assert int(iterations) == 2
    assert not bool(converged)
    with pytest.raises(ShapeError, match=r"as many rows as columns is needed, got f64\[2,3"):
        lax.linalg.qdwh(np.ones((2, 3)))
