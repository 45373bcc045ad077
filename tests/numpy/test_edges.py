"""Where functions of `tinyjax.numpy` have few elements, or are at the edge of their domain."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp


@pytest.mark.parametrize(("rowvar", "shape"), [(True, (2, 0)), (False, (0, 2)), (True, (1,)), (True, (0,))])
def test_covariances_of_too_few_observations_are_nan(rowvar: bool, shape: tuple[int, ...]) -> None:
    x = np.ones(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = np.cov(x, rowvar=rowvar)
    np.testing.assert_array_equal(np.asarray(tnp.cov(x, rowvar=rowvar)), expected)


@pytest.mark.parametrize(
    ("function", "slopes"), [(tnp.i0, (0.0, 0.5)), (tj.scipy.special.i0, (0.0, 0.5)), (tj.scipy.special.i1, (0.5, 0.0))]
)
def test_derivatives_of_bessel_functions_at_zero(function: Callable[[Any], Any], slopes: tuple[float, float]) -> None:
    first, second = tj.grad(function)(0.0), tj.grad(tj.grad(function))(0.0)
    assert (first.tolist(), second.tolist()) == slopes
