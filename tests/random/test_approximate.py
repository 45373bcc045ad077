"""Samplers without loops: JAX 0.11's numbers, their distributions, and what transformations make of them."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

import tinyjax as tj
from tinyjax import random

KEY = random.key(5)
#: What jax 0.11.2 draws with this key.
DRAWN: list[tuple[str, tuple[Any, ...], str, list[float]]] = [
    ("gamma", (0.3,), "float64", [0.1984725, 0.2162083, 0.4424411]),
    ("gamma", (40.0,), "float32", [45.10071, 50.40522, 37.88394]),
    ("loggamma", (0.01,), "float64", [-23.27734, -62.06338, -51.88351]),
    ("beta", (0.5, 2.0), "float64", [0.0008762762, 0.08707838, 0.007790819]),
    ("chisquare", (3.0,), "float32", [8.110061, 10.86566, 4.427434]),
    ("poisson", (2.5,), "int32", [3, 0, 4]),
    ("poisson", (30.0,), "int64", [32, 21, 35]),
    ("poisson", (12345.0,), "int64", [12383, 12159, 12454]),
]


@pytest.mark.parametrize(("name", "parameters", "dtype", "expected"), DRAWN)
def test_numbers_are_those_of_jax(name: str, parameters: tuple[Any, ...], dtype: str, expected: list[float]) -> None:
    def draw(key: tj.Array) -> tj.Array:
        found: tj.Array = getattr(random, name)(key, *parameters, (3,), dtype, method="approximate")
        return found

    for found in (draw(KEY), tj.jit(draw)(KEY), tj.vmap(draw)(random.split(KEY, 1).at[0].set(KEY))[0]):
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4)


@pytest.mark.sweep
@pytest.mark.skipif("method" not in inspect.signature(jax.random.gamma).parameters, reason="jax 0.11 has them")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("a", [0.01, 0.5, 3.0, 200.0])
def test_numbers_are_those_of_the_jax_that_is_here(a: float, dtype: str) -> None:
    sampler: Any = jax.random.gamma
    with jax.enable_x64(True):
        theirs = sampler(jax.random.key(5), a, (50,), dtype, method="approximate")
    ours = random.gamma(KEY, a, (50,), dtype, method="approximate")
    np.testing.assert_allclose(np.asarray(ours).astype(float), np.asarray(theirs).astype(float), rtol=2e-2, atol=1e-37)


@pytest.mark.sweep
@pytest.mark.parametrize("a", [0.05, 0.7, 4.0, 90.0])
def test_gamma_numbers_are_distributed_as_such(a: float) -> None:
    found = np.asarray(random.gamma(KEY, a, (20_000,), "float64", method="approximate"))
    assert stats.kstest(found, stats.gamma(a).cdf).statistic < 0.012
    logs = np.asarray(random.loggamma(KEY, a, (20_000,), "float64", method="approximate"))
    np.testing.assert_allclose(np.exp(logs), found, rtol=1e-9)


@pytest.mark.parametrize("lam", [0.0, 0.3, 6.9, 7.1, 60.0, 1e9])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_poisson_numbers_are_distributed_as_such(lam: float, dtype: str) -> None:
    found = np.asarray(random.poisson(KEY, lam, (20_000,), dtype, method="approximate"))
    assert found.dtype == np.dtype(dtype)
    places = np.unique(found)
    below = np.searchsorted(np.sort(found), places, side="right") / found.size
    assert np.abs(below - stats.poisson(lam).cdf(places)).max() < 0.012


@pytest.mark.sweep
def test_slopes_are_those_of_the_numbers() -> None:
    def total(a: tj.Array) -> tj.Array:
        return random.gamma(KEY, a, (9,), "float64", method="approximate").sum()

    tj.test_util.check_grads(total, (np.float64(2.5),), 2)
    assert np.isfinite(np.asarray(tj.grad(total)(tj.numpy.asarray(0.01))))


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["gamma", "loggamma", "beta", "chisquare", "poisson"])
def test_methods_have_names(name: str) -> None:
    sampler: Any = getattr(random, name)
    parameters = (2.0, 3.0) if name == "beta" else (2.0,)
    assert sampler(KEY, *parameters, method="exact").tolist() == sampler(KEY, *parameters).tolist()
    with pytest.raises(tj.errors.ChoiceError, match=f"method argument to `{name}` must be 'exact' or 'approximate'"):
        sampler(KEY, *parameters, method="quick")
