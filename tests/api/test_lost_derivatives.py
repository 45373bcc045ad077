"""What NumPy computes has no derivative: values that are differentiated with respect to don't become its arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import TracerArrayConversionError

X = np.arange(1.0, 4.0)
USES: dict[str, Callable[[Any], Any]] = {
    "maximum": lambda x: np.maximum(x, 0.0),
    "sin": np.sin,
    "norm": np.linalg.norm,
    "dot": lambda x: np.dot(x, x),
    "where": lambda x: np.where(x > 0, x, 0.0),
    "stack": lambda x: np.stack([x, x]),
    "asarray": np.asarray,
    "array of elements": lambda x: np.array([x[0], x[1]]),
    "interp": lambda x: np.interp(x, X, X),
    "jax": lambda x: jax.numpy.sin(x.__jax_array__()),
    "dlpack": np.from_dlpack,
}
ROUTES: dict[str, Callable[[Callable[[Any], Any]], object]] = {
    "grad": lambda f: tj.grad(f)(X),
    "jvp": lambda f: tj.jvp(f, (X,), (X,)),
    "vjp": lambda f: tj.vjp(f, X),
    "linearize": lambda f: tj.linearize(f, X),
    "jacfwd": lambda f: tj.jacfwd(f)(X),
    "hessian": lambda f: tj.hessian(f)(X),
    "grad of a constant in vmap": lambda f: tj.grad(lambda x: tj.vmap(lambda _, x=x: f(x))(X).sum())(X),
    "watched": lambda f: tj.watch(tj.grad(f))(X),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("use", USES)
def test_it_is_an_error(use: str, route: str) -> None:
    def f(x: Any) -> Any:
        return tnp.sum(tnp.asarray(USES[use](x)))

    with pytest.raises(TracerArrayConversionError, match="the derivative would be lost"):
        ROUTES[route](f)


def test_what_is_said() -> None:
    with pytest.raises(TracerArrayConversionError) as error:
        tj.grad(lambda x: np.sin(x).sum())(X)
    assert "can't be converted to a NumPy array: grad of <lambda>" in str(error.value)
    assert "`tinyjax.numpy.sin(x)`" in str(error.value)
    assert "`tinyjax.lax.stop_gradient`" in str(error.value)


def test_what_carries_no_derivative_is_an_array() -> None:
    def f(x: Any, y: Any) -> Any:
        weights = np.maximum(lax.stop_gradient(x), 2.0) + np.sin(y) + np.asarray(tnp.round(x))
        return tnp.sum(weights * x)

    expected = np.maximum(X, 2.0) + np.sin(X) + X
    np.testing.assert_allclose(tj.grad(f)(X, X), expected)
    np.testing.assert_allclose(tj.jvp(lambda x: f(x, X), (X,), (np.ones(3),))[1], expected.sum())


def test_numbers_still_decide() -> None:
    """Python's own numbers and branches are known, as is usual; they are constants to the derivative."""
    assert float(tj.grad(lambda x: x * float(x) if x > 0 else -x)(3.0)) == 3.0
