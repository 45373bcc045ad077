"""`tinyjax.scipy.optimize` against SciPy, on functions that are known to be difficult."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from jax.scipy.optimize import minimize as jax_minimize

import tinyjax.numpy as tnp
from tinyjax import jit, vmap
from tinyjax.errors import ChoiceError, InputError, ShapeError
from tinyjax.scipy.optimize import minimize

LIMITED = "l-bfgs-experimental-do-not-rely-on-this"
NO_TUPLE: Any = 45


def rosenbrock(library: Any, x: Any) -> Any:
    return library.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def himmelblau(library: Any, x: Any) -> Any:
    return (x[0] ** 2 + x[1] - 11.0) ** 2 + (x[0] + x[1] ** 2 - 7.0) ** 2


def matyas(library: Any, x: Any) -> Any:
    return 0.26 * (x[0] ** 2 + x[1] ** 2) - 0.48 * x[0] * x[1]


def beale(library: Any, x: Any) -> Any:
    return sum((c - x[0] + x[0] * x[1] ** n) ** 2 for n, c in ((1, 1.5), (2, 2.25), (3, 2.625)))


@pytest.mark.parametrize("method", ["BFGS", LIMITED])
@pytest.mark.parametrize(
    ("function", "start"),
    [
        (rosenbrock, [-1.2, 1.0, 0.5]),
        (himmelblau, [1.0, 1.0]),
        pytest.param(matyas, [6.0, 6.0], marks=pytest.mark.sweep),
        pytest.param(beale, [1.0, 1.0], marks=pytest.mark.sweep),
    ],
)
def test_minima(function: Callable[[Any, Any], Any], start: list[float], method: str) -> None:
    x0 = np.array(start)

    def objective(x: Any) -> Any:
        return function(np, x)

    expected = scipy.optimize.minimize(objective, x0, tol=1e-8)
    found = jit(lambda x: minimize(lambda x: function(tnp, x), x, method=method, options={"gtol": 1e-8, "norm": 2}))(x0)
    np.testing.assert_allclose(found.x, expected.x, atol=2e-4)
    np.testing.assert_allclose(found.fun, function(np, np.asarray(found.x)), atol=1e-12)
    assert found.nfev >= found.nit > 2


def test_what_is_learnt_is_the_inverse_hessian() -> None:
    hessian = np.array([[4.0, 1.0], [1.0, 3.0]])
    found = minimize(lambda x: x @ (hessian @ x) / 2, np.array([3.0, -2.0]), method="BFGS", tol=1e-9)
    np.testing.assert_allclose(found.x, [0, 0], atol=1e-9)
    np.testing.assert_allclose(np.asarray(found.hess_inv), np.linalg.inv(hessian), atol=1e-3)
    assert (bool(found.success), int(found.status)) == (True, 0)


def test_complex_vectors() -> None:
    goal = np.array([1.0, 2.0 - 3.0j, -5.0j])
    found = minimize(lambda z: tnp.sum(tnp.abs(z - goal) ** 2), np.zeros(3, "complex128"), method=LIMITED)
    np.testing.assert_allclose(np.asarray(found.x), goal, atol=1e-4)
    with pytest.raises(InputError, match="BFGS is for real vectors, got complex128; use method='l-bfgs"):
        minimize(lambda z: tnp.sum(tnp.abs(z) ** 2), goal, method="BFGS")


@pytest.mark.sweep
def test_batches_and_types() -> None:
    goals = np.array([1.0, 2.0, 3.0], "float32")
    found = vmap(lambda c: minimize(lambda x: ((x - c) ** 2).sum(), np.zeros(2, "float32"), method="BFGS").x)(goals)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.stack([goals, goals], 1), atol=1e-4)


@pytest.mark.sweep
@pytest.mark.parametrize("method", ["BFGS", LIMITED])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_results_have_the_dtypes_that_jax_gives_them(dtype: str, method: str) -> None:
    found = minimize(lambda x: (x**4).sum(), tnp.ones(2, dtype), method=method)
    with jax.enable_x64(True):
        expected = jax_minimize(lambda x: (x**4).sum(), jnp.ones(2, dtype), method=method)
    for name in expected._fields:
        theirs = getattr(expected, name)
        assert theirs is None or np.asarray(getattr(found, name)).dtype == theirs.dtype, name


@pytest.mark.sweep
def test_how_it_ends() -> None:
    few = minimize(lambda x: rosenbrock(tnp, x), np.array([-1.2, 1.0]), method="BFGS", options={"maxiter": 3})
    assert (int(few.status), int(few.nit), bool(few.success)) == (1, 3, False)
    counted = minimize(lambda x: rosenbrock(tnp, x), np.array([-1.2, 1.0]), method=LIMITED, options={"maxfun": 4})
    assert int(counted.status) == 2
    downhill = minimize(lambda x: x.sum(), np.array([0.0]), method="BFGS")  # no step is good enough
    assert (int(downhill.status), bool(downhill.success)) == (5, False)
    there = minimize(lambda x: (x**2).sum(), np.array([0.0]), method="BFGS")
    assert (int(there.nit), int(there.nfev), bool(there.success)) == (0, 1, True)


@pytest.mark.parametrize(
    ("run", "error", "said"),
    [
        (
            lambda f, x: minimize(f, x, NO_TUPLE, method="BFGS"),
            InputError,
            r"args .* must be a tuple, got 45. Did you mean",
        ),
        (lambda f, x: minimize(f, x, method="simplex"), ChoiceError, "method is 'BFGS' or"),
        (lambda f, x: minimize(f, x, method="BFGS", options={"maxls": 2}), ChoiceError, "BFGS has no option 'maxls'"),
        (lambda f, x: minimize(f, x[None], method="BFGS"), ShapeError, "x0 must be a vector, got shape"),
    ],
)
def test_bad_input(run: Callable[..., object], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        run(lambda x: (x**2).sum(), np.ones(2))
