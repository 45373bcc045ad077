"""`tinyjax.scipy.sparse.linalg` against SciPy step by step, against direct solutions, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import ChoiceError, InputError, ShapeError, TreeError
from tinyjax.ir.dtypes import HostArray
from tinyjax.scipy.sparse import linalg

METHODS = ("cg", "bicgstab", "gmres")
WRONG: Any = 3
LIST: Any = [[1.0]]


def problem(n: int, complex_: bool, hermitian: bool) -> tuple[HostArray, HostArray]:
    rng = np.random.default_rng(n)
    a: HostArray = rng.normal(size=(n, n)) + 1j * complex_ * rng.normal(size=(n, n))
    b: HostArray = rng.normal(size=n) + 1j * complex_ * rng.normal(size=n)
    a, b = (a, b) if complex_ else (a.real, b.real)
    root: HostArray = a + np.eye(n)
    return (root @ root.conj().T if hermitian else a + 3 * np.eye(n)), b


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("n", "complex_"), [(4, True), *(pytest.param(n, c, marks=pytest.mark.sweep) for n, c in ((4, False), (7, True)))]
)
def test_against_scipy(n: int, complex_: bool, method: str) -> None:
    a, b = problem(n, complex_, method == "cg")
    root = np.random.default_rng(0).normal(size=(n, n))
    for m in (None, np.linalg.inv(np.eye(n) + root @ root.T)):
        if method != "gmres":  # which makes several steps before it has a solution
            for steps in (1, 3):
                expected = getattr(scipy.sparse.linalg, method)(a, b, maxiter=steps, M=m)[0]
                found, info = getattr(linalg, method)(a, b, maxiter=steps, M=m)
                np.testing.assert_allclose(np.asarray(found), expected, 1e-9, 1e-9)
                assert info is None
        solved = getattr(linalg, method)(a, b, M=m, tol=1e-12, maxiter=500)[0]
        np.testing.assert_allclose(np.asarray(solved), np.linalg.solve(a, b), 1e-7, 1e-7)


@pytest.mark.sweep
@pytest.mark.parametrize("method", METHODS)
def test_derivatives_are_those_of_the_equation(method: str) -> None:
    a, b = problem(5, False, method == "cg")

    def squares(a: Any, b: Any) -> tj.Array:
        x = getattr(linalg, method)(lambda x: a @ x, b, tol=1e-13)[0]
        return tnp.sum(x**2)

    x = np.linalg.solve(a, b)
    back = np.linalg.solve(a.T, 2 * x)
    for run in (tj.grad(squares, (0, 1)), tj.jit(tj.grad(squares, (0, 1)))):
        found = run(a, b)
        np.testing.assert_allclose(np.asarray(found[1]), back, 1e-6, 1e-6)
        np.testing.assert_allclose(np.asarray(found[0]), -np.outer(back, x), 1e-6, 1e-6)


@pytest.mark.sweep
def test_restarts_and_starts() -> None:
    a, b = problem(9, False, False)
    exact = np.linalg.solve(a + np.eye(9), b)
    for restart in (2, 3, 20):
        found = linalg.gmres(a + np.eye(9), b, restart=restart, tol=1e-10, maxiter=300, solve_method="incremental")[0]
        np.testing.assert_allclose(np.asarray(found), exact, 1e-7, 1e-7)
    for method in METHODS:
        x = getattr(linalg, method)(a + np.eye(9), b, x0=exact, maxiter=0)[0]
        np.testing.assert_allclose(np.asarray(x), exact, 1e-12)


@pytest.mark.sweep
def test_trees_batches_and_other_matrices() -> None:
    right = {"a": np.ones(3, "float32"), "b": [np.ones((2, 2), "float32")]}
    found = linalg.cg(lambda t: tj.tree.map(lambda x: 2 * x, t), right)[0]
    for leaf in tj.tree.leaves(found):
        assert leaf.dtype == np.float32
        np.testing.assert_allclose(np.asarray(leaf), 0.5)

    class Twice:
        shape = (3, 3)

        def __matmul__(self, x: Any) -> Any:
            return 2 * x

    for method in METHODS:
        np.testing.assert_allclose(np.asarray(getattr(linalg, method)(Twice(), np.ones(3))[0]), 0.5)
        np.testing.assert_array_equal(np.asarray(getattr(linalg, method)(np.eye(3), np.zeros(3))[0]), 0)
    batch = tj.vmap(lambda b: linalg.cg(np.diag([1.0, 2.0, 4.0]), b)[0])(np.array([[1.0, 1, 1], [2, 2, 2]]))
    np.testing.assert_allclose(np.asarray(batch), [[1, 0.5, 0.25], [2, 1, 0.5]], 1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_several_right_sides_are_columns(method: str) -> None:
    a, b = problem(3, False, hermitian=True)
    sides = np.stack([b, 2 * b], 1)
    found = getattr(linalg, method)(a, sides, tol=1e-12)[0]
    np.testing.assert_allclose(found, np.linalg.solve(a, sides), 1e-7, 1e-7)


def test_a_singular_operator_is_no_disaster() -> None:
    assert np.isfinite(np.asarray(linalg.gmres(np.zeros((3, 3)), np.ones(3))[0])).all()


@pytest.mark.sweep
@pytest.mark.parametrize("method", METHODS)
def test_weak_types_stay_weak(method: str) -> None:
    """Where the right side is, and what is made of it."""
    solve = getattr(linalg, method)
    for run in (solve, tj.jit(solve, static_argnums=0)):
        assert run(lambda x: 2.0 * x, 1.0)[0].aval.weak_type
        assert not run(lambda x: np.float64(2.0) * x, 1.0)[0].aval.weak_type
        assert not run(lambda x: 2.0 * x, np.float32(1.0))[0].aval.weak_type
        found = run(lambda x: {"a": 2 * x["a"], "b": x["b"]}, {"a": 1.0, "b": np.ones(2, np.float32)})[0]
        assert [str(x.aval) for x in tj.tree.leaves(found)] == ["~f64[]", "f32[2]"]


@pytest.mark.parametrize(
    ("run", "error", "said"),
    [
        (lambda b: linalg.cg(np.ones((2, 3)), b), ShapeError, r"cg: A must be a square matrix .* 3 rows"),
        (lambda b: linalg.cg(np.ones((2, 2)), b), ShapeError, r"cg: A must be a square matrix .* got shape \(2, 2\)"),
        (lambda b: linalg.cg(np.eye(3), b, M=np.ones(3)), ShapeError, "cg: M must be a square matrix"),
        (lambda b: linalg.bicgstab(WRONG, b), InputError, "either a function or ndarray, got 3"),
        (lambda b: linalg.gmres(lambda x: x[:2], b), ShapeError, "gmres: A must return 3 elements, as b has, got 2"),
        (lambda b: linalg.gmres(lambda x: (x, x), b), TreeError, "gmres: A: b and what A returns"),
        (lambda b: linalg.cg(np.eye(3), b, x0=b[:2]), ShapeError, "x0 and b must have matching shape"),
        (lambda b: linalg.cg(lambda x: x, b, x0=b[:, None]), ShapeError, "x0 and b must have matching shape"),
        (lambda b: linalg.cg(lambda x: x, {"x": b}, x0={"y": b}), ValueError, "matching tree structure"),
        (lambda b: linalg.cg(LIST, b), TypeError, "either a function or ndarray"),
        (lambda b: linalg.gmres(np.eye(3), b, solve_method=WRONG), ChoiceError, "'batched' or 'incremental', got 3"),
    ],
)
def test_bad_input(run: Callable[[HostArray], object], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        run(np.ones(3))
