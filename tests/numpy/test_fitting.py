"""`polyfit` and `roots` against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax.numpy as tnp
from tinyjax import grad, jit
from tinyjax.errors import ConcretizationError, InputError, ShapeError

RNG = np.random.default_rng(0)
X, Y, COLUMNS, WEIGHTS = RNG.normal(size=12), RNG.normal(size=12), RNG.normal(size=(12, 3)), RNG.uniform(0.5, 2, 12)


@pytest.mark.parametrize("w", [None, WEIGHTS])
@pytest.mark.parametrize("y", [Y, COLUMNS])
def test_polyfit(y: Any, w: Any) -> None:
    for degree in (0, 1, 3):
        np.testing.assert_allclose(tnp.polyfit(X, y, degree, w=w), np.polyfit(X, y, degree, w=w), atol=1e-9)
        found: Any = tnp.polyfit(X, y, degree, w=w, full=True)
        expected: Any = np.polyfit(X, y, degree, w=w, full=True)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(one), other, atol=1e-9)
        cov: Any
        for cov in (True, "unscaled"):
            pairs = zip(tnp.polyfit(X, y, degree, w=w, cov=cov), np.polyfit(X, y, degree, w=w, cov=cov), strict=True)
            for one, other in pairs:
                np.testing.assert_allclose(np.asarray(one), other, atol=1e-9)


def test_a_fit_is_linear_in_the_points() -> None:
    slopes = grad(lambda y: tnp.polyfit(X, y, 1)[0])(Y)
    np.testing.assert_allclose(float(slopes @ Y), np.polyfit(X, Y, 1)[0], rtol=1e-9)


@pytest.mark.parametrize(
    "p", [[1.0, -3, 2], [0, 0, 1, -3, 2, 0, 0], [2.0], [0.0], [1, 0], [1 + 1j, 2, 3], list(RNG.normal(size=7))], ids=str
)
def test_roots(p: Any) -> None:
    found = tnp.roots(p)
    assert found.dtype == np.complex128
    np.testing.assert_allclose(np.sort_complex(np.asarray(found)), np.sort_complex(np.roots(p)), atol=1e-8)


@pytest.mark.sweep
def test_roots_of_traced_coefficients() -> None:
    run = jit(lambda p: tnp.roots(p, strip_zeros=False))
    np.testing.assert_allclose(np.sort(np.asarray(run(np.array([1.0, -3.0, 2.0]))).real), [1, 2])
    for p in (
        [0.0, 1.0, 2.0],
        [0.0, 0.0, 1.0, -3.0, 2.0],
        [0.0, 1.0, -3.0, 2.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        [0.0, 3.0],
    ):
        for found in (run(np.array(p)), tnp.roots(np.array(p), strip_zeros=False)):
            expected = np.asarray(jax.numpy.roots(jax.numpy.array(p), strip_zeros=False))
            np.testing.assert_allclose(np.sort_complex(np.asarray(found)), np.sort_complex(expected), atol=1e-8)
    with pytest.raises(ConcretizationError, match="Pass strip_zeros=False"):
        jit(tnp.roots)(np.array([1.0, 2.0]))


@pytest.mark.parametrize(
    ("run", "error", "said"),
    [
        (lambda: tnp.polyfit(X, Y, -1), InputError, "the degree must not be negative"),
        (lambda: tnp.polyfit(X, Y[:3], 1), ShapeError, "y of the same length"),
        (lambda: tnp.polyfit(X, Y, 1, w=X[:2]), ShapeError, "the weights must be like x"),
        (lambda: tnp.polyfit(X[:2], Y[:2], 1, cov=True), InputError, "pass more points, or cov='unscaled'"),
        (lambda: tnp.roots(COLUMNS), ShapeError, "a vector of coefficients"),
    ],
)
def test_bad_input(run: Callable[[], object], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        run()
