"""What functions take elements by, they have computed within bounds: nothing wraps it or looks whether it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from benchmarks.library import kept_by_jax, kept_by_us, our_sizes
from tinyjax import Array
from tinyjax.scipy import linalg, signal, stats

X = np.random.default_rng(0).normal(size=(6, 6))
V = X[0]

#: Functions, their arguments, and how many selections there may be: those that a function makes itself.
CASES: dict[str, tuple[Callable[..., object], tuple[np.ndarray, ...], int]] = {
    "toeplitz": (linalg.toeplitz, (V,), 0),
    "hermitian svd": (lambda a: tnp.linalg.svd(a + a.T, hermitian=True, compute_uv=False), (X,), 0),
    "lu_solve": (lambda lu, b: linalg.lu_solve((lu, np.array([1, 1, 2, 3, 5, 5], "int32")), b), (X, V), 0),
    "choose": (lambda i, x: tnp.choose(i, x, mode="clip"), (np.array([0, 5, 2, 9, 1, 3]), X), 0),
    "delete": (lambda x: tnp.delete(x, np.array([1, 3])), (V,), 0),
    "stft": (lambda x: signal.stft(x, nperseg=4, boundary=None, padded=False)[2], (V,), 0),
    "rankdata": (stats.rankdata, (np.arange(6),), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_looks_whether_they_are_in_bounds(name: str) -> None:
    f, args, selections = CASES[name]
    text = str(tj.make_jaxpr(f)(*args))
    assert "FILL_OR_DROP" not in text
    assert "gather" in text
    assert text.count("select_n") <= selections
    expected = np.asarray(tj.tree.leaves(f(*args))[0])
    np.testing.assert_allclose(np.asarray(tj.tree.leaves(tj.jit(f)(*args))[0]), expected, atol=1e-12)


def test_segments_are_taken_by_where_they_start() -> None:
    """Derivatives keep these, and no position of each element."""
    x = np.arange(40.0)

    def theirs(x: jax.Array) -> Any:
        return jax.scipy.signal.stft(x, nperseg=8)[2]

    with jax.enable_x64(True):
        wanted, spectrum = kept_by_jax(theirs, jnp.asarray(x)), np.asarray(theirs(jnp.asarray(x)))
    assert kept_by_us(lambda x: signal.stft(x, nperseg=8)[2], tnp.asarray(x)) <= 1.05 * wanted
    np.testing.assert_allclose(np.asarray(signal.stft(x, nperseg=8)[2]), spectrum, atol=1e-12)


@pytest.mark.parametrize("kind", ["fft", "ifft", "rfft"])
@pytest.mark.parametrize("given", ["float64", "complex128"])
def test_norms_are_products_of_real_numbers(kind: str, given: str) -> None:
    """Products of complex numbers are written out in parts."""
    if kind == "rfft" and given == "complex128":
        return
    x = X.astype(given)

    def f(x: Array) -> Array:
        found: Array = getattr(tnp.fft, kind)(x, norm="ortho")
        return found

    np.testing.assert_allclose(np.asarray(f(tnp.asarray(x))), getattr(np.fft, kind)(x, norm="ortho"), rtol=1e-12)
    with jax.enable_x64(True):
        theirs = jax.jit(lambda x: getattr(jnp.fft, kind)(x, norm="ortho")).lower(jnp.asarray(x)).compile().as_text()
    assert theirs is not None
    assert our_sizes(f, tnp.asarray(x)).instructions <= theirs.count(" = ") + (0 if given == "float64" else 4)
