"""The largest eigenvalues by products: NumPy's, also where they are repeated, negative or far apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import errors
from tinyjax.experimental.sparse import BCOO
from tinyjax.experimental.sparse.linalg import lobpcg_standard

N, K = 40, 3
SPECTRA = {
    "even": np.linspace(1, 100, N),
    "far apart": np.logspace(0, 5, N),
    "one": np.ones(N),
    "a cluster": np.r_[np.ones(N - K + 1), np.full(K - 1, 1000.0)],
    "negative": -np.linspace(1, 100, N),
    "both signs": np.linspace(-60, 50, N),
}
RNG = np.random.default_rng(0)
START = RNG.normal(size=(N, K))
ROTATION = np.linalg.qr(RNG.normal(size=(N, N)) + 1j * RNG.normal(size=(N, N)))[0]


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize(
    "dtype", ["float64", *(pytest.param(other, marks=pytest.mark.sweep) for other in ("float32", "complex128"))]
)
def test_eigenvalues_are_numpys(name: str, dtype: str) -> None:
    q = ROTATION if dtype == "complex128" else np.linalg.qr(ROTATION.real)[0]
    a: Any = (q * SPECTRA[name] @ q.conj().T).astype(dtype)
    values, vectors, steps = tj.jit(lobpcg_standard, static_argnums=2)(a, START.astype(dtype), 80)
    close = 1e-4 if dtype == "float32" else 1e-10
    assert vectors.dtype == a.dtype
    assert int(steps) < 80
    np.testing.assert_allclose(values, np.sort(SPECTRA[name])[::-1][:K], rtol=close)
    found = np.asarray(vectors)
    np.testing.assert_allclose(found.conj().T @ found, np.eye(K), atol=close)
    np.testing.assert_allclose(a @ found, found * np.asarray(values), atol=close * np.abs(values).max())


def test_a_function_is_enough_and_zero_takes_all_steps() -> None:
    sparse = BCOO.fromdense(np.diag(np.arange(float(N))))

    def product(x: Any) -> Any:
        return sparse @ x

    values, _, steps = lobpcg_standard(product, START, 30, tol=0.0)
    np.testing.assert_allclose(values, [N - 1, N - 2, N - 3])
    assert int(steps) == 30


def test_errors_say_what_does_not_fit() -> None:
    a = np.eye(N)
    with pytest.raises(errors.ShapeError, match="search dim > 0"):
        lobpcg_standard(a, START[:, :0])
    with pytest.raises(errors.ShapeError, match=r"search dim \* 5 < matrix dim, got 15 and 15"):
        lobpcg_standard(a[:15, :15], START[:15])
    with pytest.raises(errors.ShapeError, match=r"A must be \(40, 40\)"):
        lobpcg_standard(a[:20], START)
    with pytest.raises(errors.ShapeError, match=r"A must be \(40, 40\)"):
        lobpcg_standard(a[:, :20], START)
    with pytest.raises(errors.DtypeError, match="A, X must have same dtypes, got float64 and float32"):
        lobpcg_standard(a, START.astype("float32"))
    with pytest.raises(errors.InputError, match="X is a matrix"):
        lobpcg_standard(a, START[:, 0])
