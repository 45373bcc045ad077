"""`tinyjax.scipy.interpolate` and `integrate` against SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate

from tinyjax import grad, jit, vmap
from tinyjax.errors import ChoiceError, ShapeError, UnsupportedError
from tinyjax.scipy.integrate import trapezoid
from tinyjax.scipy.interpolate import RegularGridInterpolator

GRID = (np.array([0.0, 1.0, 3.0]), np.array([5.0, 4.0, 2.0, 1.0]))  # the second one descends
VALUES = np.random.default_rng(0).normal(size=(3, 4, 2))
POINTS = np.random.default_rng(1).uniform([-1, 0], [4, 6], (5, 3, 2))


@pytest.mark.parametrize("fill", [np.nan, 7.5, None])
@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_against_scipy(method: Any, fill: Any) -> None:
    theirs = scipy.interpolate.RegularGridInterpolator(GRID, VALUES, method, bounds_error=False, fill_value=fill)
    ours = RegularGridInterpolator(GRID, VALUES, method, fill_value=fill)
    expected = theirs(POINTS)
    np.testing.assert_allclose(np.asarray(ours(POINTS)), expected, 1e-12)
    compiled = jit(lambda interpolator, x: interpolator(x))  # an interpolator is a tree
    np.testing.assert_allclose(np.asarray(compiled(ours, POINTS)), expected, 1e-12)
    np.testing.assert_allclose(np.asarray(ours((POINTS[..., 0], POINTS[..., 1]))), expected, 1e-12)
    np.testing.assert_allclose(np.asarray(vmap(ours)(POINTS)), expected, 1e-12)


def test_derivatives_and_single_axes() -> None:
    line = RegularGridInterpolator((np.array([0.0, 1.0, 3.0]),), np.array([0.0, 2.0, 8.0]))
    np.testing.assert_allclose(np.asarray(line(np.array([0.5, 2.0]))), [1.0, 5.0])
    slope = grad(lambda x: line((x,)))
    assert [float(slope(0.5)), float(slope(2.0))] == [2.0, 3.0]
    by_values = grad(lambda v: RegularGridInterpolator((np.array([0.0, 1.0]),), v)((0.25,)))
    np.testing.assert_allclose(np.asarray(by_values(np.ones(2))), [0.75, 0.25])


def test_integrals() -> None:
    y, x = np.random.default_rng(0).normal(size=(3, 5)), np.array([0.0, 1.0, 1.5, 4.0, 5.0])
    np.testing.assert_allclose(np.asarray(trapezoid(y, x)), scipy.integrate.trapezoid(y, x))
    np.testing.assert_allclose(np.asarray(trapezoid(y, dx=0.5, axis=0)), scipy.integrate.trapezoid(y, dx=0.5, axis=0))


@pytest.mark.parametrize(
    ("run", "error", "said"),
    [
        (lambda: RegularGridInterpolator(GRID, VALUES[:2]), ShapeError, "one for each axis of the values"),
        (lambda: RegularGridInterpolator((np.zeros(1),), np.zeros(1)), ShapeError, "at least two coordinates"),
        (lambda: RegularGridInterpolator(GRID, VALUES, "cubic"), ChoiceError, "'linear' or 'nearest', got 'cubic'"),
        (lambda: RegularGridInterpolator(GRID, VALUES, bounds_error=True), UnsupportedError, "use fill_value"),
        (lambda: RegularGridInterpolator(GRID, VALUES)(np.zeros((4, 3))), ShapeError, "2 coordinates each, got 3"),
    ],
)
def test_bad_input(run: Callable[[], object], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        run()
