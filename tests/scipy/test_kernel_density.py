"""`gaussian_kde` against JAX's."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy import stats as theirs
from scipy import stats as oracle

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import ChoiceError, ShapeError, UnsupportedError
from tinyjax.scipy.stats import gaussian_kde

_RNG = np.random.default_rng(0)
DATA, WEIGHTS, POINTS = _RNG.normal(size=(3, 15)), _RNG.uniform(size=15), _RNG.normal(size=(3, 6))


@pytest.mark.parametrize("method", [None, "silverman", 0.4, lambda kde: kde.neff**-0.2])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_density(method: Any, weights: Any) -> None:
    ours = gaussian_kde(DATA, method, weights)
    expected: Any = oracle.gaussian_kde(DATA, method, weights)
    np.testing.assert_allclose(ours.evaluate(POINTS), expected.evaluate(POINTS), 1e-9)
    np.testing.assert_allclose(ours.logpdf(POINTS[:, 0]), expected.logpdf(POINTS[:, 0]), 1e-9)
    np.testing.assert_allclose(ours.logpdf(100 * POINTS), expected.logpdf(100 * POINTS), 1e-9)
    np.testing.assert_allclose(
        ours.integrate_gaussian(POINTS[:, 0], np.eye(3)), expected.integrate_gaussian(POINTS[:, 0], np.eye(3)), 1e-9
    )
    other: tuple[Any, Any] = gaussian_kde(POINTS), oracle.gaussian_kde(POINTS)
    np.testing.assert_allclose(ours.integrate_kde(other[0]), expected.integrate_kde(other[1]), 1e-9)
    line, expected = gaussian_kde(DATA[0], method, weights), oracle.gaussian_kde(DATA[0], method, weights)
    np.testing.assert_allclose(line.integrate_box_1d(-1.0, 0.5), expected.integrate_box_1d(-1.0, 0.5), 1e-9)


@pytest.mark.sweep
def test_derivatives_trees_and_samples() -> None:
    ours, jaxs = gaussian_kde(DATA, weights=WEIGHTS), theirs.gaussian_kde(DATA, weights=WEIGHTS)
    found = tj.jit(tj.grad(lambda kde: tnp.sin(kde.logpdf(POINTS)).sum()))(ours)
    expected = jax.grad(lambda kde: jnp.sin(kde.logpdf(POINTS)).sum())(jaxs)
    assert isinstance(found, gaussian_kde)
    for got, want in zip(tj.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(got, want, 1e-7, 1e-10)
    gradient = jax.grad(lambda x: theirs.gaussian_kde(x).evaluate(POINTS).sum())(DATA)
    np.testing.assert_allclose(tj.grad(lambda x: gaussian_kde(x).evaluate(POINTS).sum())(DATA), gradient, 1e-7, 1e-10)
    sample = ours.resample(tj.random.key(3), (5,))
    np.testing.assert_allclose(sample, jaxs.resample(jax.random.key(3), (5,)), 1e-6)


def test_wrong_arguments() -> None:
    with pytest.raises(ChoiceError, match="scott"):
        gaussian_kde(DATA, "wide")
    with pytest.raises(ShapeError, match="multiple elements"):
        gaussian_kde(np.ones(1))
    with pytest.raises(ShapeError, match="length 15"):
        gaussian_kde(DATA, weights=np.ones(3))
    with pytest.raises(UnsupportedError, match="complex"):
        gaussian_kde(DATA + 0j)
    with pytest.raises(ShapeError, match="points have dimension 2, dataset has dimension 3"):
        gaussian_kde(DATA)(np.ones((2, 4)))
    with pytest.raises(UnsupportedError, match="integrate_box_1d"):
        gaussian_kde(DATA).integrate_box(0, 1)
    with pytest.raises(ShapeError, match="only handles 1D"):
        gaussian_kde(DATA).integrate_box_1d(0.0, 1.0)
