"""`scipy.linalg` against jax's: values, and derivatives of some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as theirs
import numpy as np
import pytest

import tinyjax as tj
from tinyjax.errors import ChoiceError, ShapeError, TinyjaxError
from tinyjax.ir.dtypes import HostArray
from tinyjax.scipy import linalg as ours

_RNG = np.random.default_rng(0)
A = _RNG.normal(size=(3, 3))
C = A + 1j * _RNG.normal(size=(3, 3))
B, V = _RNG.normal(size=(2, 3, 3)), _RNG.normal(size=3)
H = A @ A.T + np.eye(3)
CASES: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda la: (la.cholesky(H), la.cholesky(H, lower=True)),
    "cho_solve": lambda la: (la.cho_solve(la.cho_factor(H), V), la.cho_solve((la.cholesky(H, True), True), A)),
    "lu": lambda la: (la.lu(C), la.lu(A[:2]), la.lu(A[:, :2], permute_l=True)),
    "lu_solve": lambda la: [la.lu_solve(la.lu_factor(C), C, trans) for trans in (0, 1, 2)],
    "svd": lambda la: (la.svd(A), la.svd(A[:2], compute_uv=False, lapack_driver="gesvd")),
    "schur": lambda la: (la.schur(A), la.schur(A, "complex")),
    "det": lambda la: (la.det(B), la.inv(B)),
    "solve": lambda la: (la.solve(A, V), la.solve(H, A, assume_a="pos", lower=True)),
    "solve_triangular": lambda la: [la.solve_triangular(C, C, t, lower=True) for t in ("N", "T", "C", 1)],
    "expm": lambda la: (la.expm(B), la.expm(40 * A), la.expm(C.astype("complex64")), la.expm(np.zeros((2, 2)))),
    "matrices": lambda la: (la.block_diag(A, 1.0, V), la.toeplitz(V, A[0]), la.toeplitz(C), la.hilbert(3)),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n == "cho_solve" else pytest.mark.sweep) for n in CASES])
def test_values(name: str) -> None:
    for got, want in zip(jax.tree.leaves(CASES[name](ours)), jax.tree.leaves(CASES[name](theirs)), strict=True):
        single = np.asarray(want).dtype in (np.float32, np.complex64)
        np.testing.assert_allclose(got, want, *((1e-3, 1e-4) if single else (1e-8, 1e-9)))


SMOOTH: dict[str, Callable[[Any, Any], Any]] = {
    "expm": lambda la, x: la.expm(x),
    "cho_solve": lambda la, x: la.cho_solve(la.cho_factor(x @ x.T), x),
    "lu": lambda la, x: la.lu(x)[1],
    "solve_triangular": lambda la, x: la.solve_triangular(x, x, 1),
    "block_diag": lambda la, x: la.block_diag(x, x),
}


@pytest.mark.sweep
def test_arrays_of_mixed_integers() -> None:
    """What is stacked of several numbers is strong, as an array is that is made of them."""
    x, y = np.array([5, 0, 6], "uint64"), np.array([5, -3, 1], "int8")
    for got, want in ((ours.hankel(x, y), theirs.hankel(x, y)), (tj.numpy.cross(x, y), jnp.cross(x, y))):
        assert (got.dtype, tj.typeof(got).weak_type) == (want.dtype, want.weak_type)


@pytest.mark.sweep
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    f = SMOOTH[name]
    expected = jax.grad(lambda x: jnp.sin(f(theirs, x)).sum())(A)
    np.testing.assert_allclose(tj.grad(lambda x: tj.numpy.sin(f(ours, x)).sum())(A), expected, 1e-7, 1e-8)


@pytest.mark.sweep
@pytest.mark.parametrize(("dtype", "limit"), [("float32", 3.925724783138660), ("float64", 5.371920351148152)])
def test_squarings(dtype: str, limit: float) -> None:
    """There is nan where JAX has it, and nowhere else, for a matrix that turns vectors by a large angle."""
    for most in (-2, -1, 0, 1, 3):
        for factor in (0.1, 0.9, 1.1, 1.9, 2.1, 3.9, 4.1, 15, 17):
            turn = (factor * limit * np.array([[0, 1], [-1, 0]])).astype(dtype)
            found = np.asarray(ours.expm(turn, max_squarings=most))
            assert np.isnan(found).any() == np.isnan(np.asarray(theirs.expm(turn, max_squarings=most))).any()
            if not np.isnan(found).any():
                angle = turn[0, 1]
                wanted = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
                np.testing.assert_allclose(found, wanted, 0, 1e-4 if dtype == "float32" else 1e-10)


def test_exponentials_that_are_nan_have_no_slope() -> None:
    """As in JAX, but for that of what isn't finite: nan."""
    for big, slope in ((1e200, 0.0), (np.inf, np.nan)):
        x = np.array([[big, 1.0], [1.0, 2.0]])
        np.testing.assert_array_equal(tj.grad(lambda x: ours.expm(x).sum())(x), np.full((2, 2), slope))
        np.testing.assert_array_equal(jax.grad(lambda x: theirs.expm(x).sum())(x), np.full((2, 2), slope))


def test_polar() -> None:
    for side in ("right", "left"):
        u, p = ours.polar(C, side)
        np.testing.assert_allclose(u @ p if side == "right" else p @ u, C, 1e-9)
        np.testing.assert_allclose(u.conj().mT @ u, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("a", [np.eye(3), C, C[:2], A[:, :2]], ids=["equal", "complex", "wide", "tall"])
def test_derivatives_of_polar(a: HostArray, side: str) -> None:
    """Also where singular values are equal; the second ones against differences of the first."""
    t = (C if np.iscomplexobj(a) else A)[: a.shape[0], : a.shape[1]] * 0.3

    def tangent(x: Any) -> Any:
        return tj.jvp(lambda x: ours.polar(x, side), (x,), (t,))[1]

    if (a.shape[0] >= a.shape[1]) == (side == "right"):  # JAX has no others
        _, expected = jax.jvp(lambda x: theirs.polar(x, side), (a,), (t,))
        for got, want in zip(tangent(a), expected, strict=True):
            np.testing.assert_allclose(got, want, 1e-9, 1e-12)
    h = 1e-5
    near = zip(tj.jvp(tangent, (a,), (t,))[1], tangent(a + h * t), tangent(a - h * t), strict=True)
    for second, after, before in near:
        np.testing.assert_allclose(second, (after - before) / (2 * h), 1e-5, 1e-7)


def test_tangents_of_factors_of_what_has_none() -> None:
    """nan below the diagonal, and zeros above it, as in JAX."""
    x, t = np.diag([1.0, -1.0, 2.0]), np.ones((3, 3))
    _, expected = jax.jvp(theirs.cholesky, (x,), (t,))
    np.testing.assert_array_equal(tj.jvp(ours.cholesky, (x,), (t,))[1], expected)


def test_what_is_not_finite_has_no_polar_decomposition() -> None:
    """As in JAX, also where LAPACK's singular vectors of such a matrix are finite."""
    for bad in (np.inf, -np.inf, np.nan):
        x = np.diag([1.0, bad, 2.0])
        expected = theirs.polar(x)
        for found in (ours.polar(x), tj.jit(ours.polar)(x)):
            for got, want in zip(found, expected, strict=True):
                np.testing.assert_array_equal(got, want)


@pytest.mark.sweep
@pytest.mark.parametrize("right", [(3,), (3, 2), (1, 3, 2), (2, 3, 1)])
@pytest.mark.parametrize("left", [(3, 3), (2, 3, 3), (2, 2, 3, 3), (2, 1, 3, 3)])
def test_axes_before_those_of_matrices_are_broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """Vectors have one axis, as in NumPy and SciPy."""
    rng = np.random.default_rng(0)
    a: HostArray = rng.normal(size=left) + 1j * rng.normal(size=left)
    b: HostArray = rng.normal(size=right)
    h, lower, unit = a @ a.conj().swapaxes(-1, -2), np.tril(a), np.tril(a, -1) + np.eye(3)

    def solution(matrix: HostArray) -> HostArray:
        columns = b[:, None] if b.ndim == 1 else b
        found: HostArray = np.linalg.solve(matrix, columns)
        return found[..., 0] if b.ndim == 1 else found

    for trans, matrix in enumerate((a, a.swapaxes(-1, -2), a.conj().swapaxes(-1, -2))):
        for solve in (ours.lu_solve, tj.jit(ours.lu_solve, static_argnums=2)):
            np.testing.assert_allclose(solve(ours.lu_factor(a), b, trans), solution(matrix), 1e-8, 1e-9)
    for low in (True, False):
        np.testing.assert_allclose(ours.cho_solve(ours.cho_factor(h, low), b), solution(h), 1e-8, 1e-9)
    for triangle, one in ((lower, False), (unit, True)):
        found = ours.solve_triangular(triangle, b, lower=True, unit_diagonal=one)
        np.testing.assert_allclose(found, solution(triangle), 1e-8, 1e-9)
    for how, matrix in (("gen", a), ("pos", h)):
        np.testing.assert_allclose(ours.solve(matrix, b, assume_a=how), solution(matrix), 1e-8, 1e-9)


@pytest.mark.parametrize("lower", [False, True])
def test_derivatives_of_equations_with_definite_matrices(lower: bool) -> None:
    """They are those of the equation with any matrix, not of the triangle that is read; also for complex numbers, and
    the second ones, in both of which jax's differ from its own for `assume_a="gen"`."""

    def norm(how: str) -> Callable[..., tj.Array]:
        return lambda a, b: (abs(ours.solve(a, b, lower=lower, assume_a=how)) ** 2).sum()

    for a, b in ((H, V), (H, A), (C @ C.conj().T + np.eye(3), C), (np.stack([H, 2.0 * H]), B)):
        for mine, other in zip(
            tj.jit(tj.grad(norm("pos"), (0, 1)))(a, b), tj.grad(norm("gen"), (0, 1))(a, b), strict=True
        ):
            np.testing.assert_allclose(mine, other, 1e-9, 1e-11)
    for mine, other in zip(tj.hessian(norm("pos"))(H, V), tj.hessian(norm("gen"))(H, V), strict=True):
        np.testing.assert_allclose(mine, other, 1e-9, 1e-11)
    gradient = jax.grad(lambda a: (theirs.solve(a, V, lower=lower, assume_a="pos") ** 2).sum())(H)
    np.testing.assert_allclose(tj.grad(norm("pos"))(H, V), gradient, 1e-9, 1e-11)


def test_the_complex_schur_form_of_infinite_matrices() -> None:
    x = np.array([[1.0, 0.0], [0.0, -np.inf]])
    for mine, other in zip(ours.schur(x, "complex"), theirs.schur(x, "complex"), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(other))


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda: ours.svd(A, lapack_driver="qr"), ChoiceError, "'gesdd' or 'gesvd'"),
        (lambda: ours.schur(A, "any"), ChoiceError, "either 'real' or 'complex'"),
        (lambda: ours.polar(A, "up"), ChoiceError, "either 'right' or 'left'"),
        (lambda: ours.solve_triangular(A, V, "H"), ChoiceError, "Invalid 'trans' value 'H'"),
        (lambda: ours.lu_solve((A, np.zeros(3, np.int32)), V, 3), ChoiceError, "must be 0, 1, or 2"),
        (
            lambda: ours.lu_solve((B, np.zeros((2, 3), np.int32)), np.ones((2, 2))),
            ShapeError,
            r"3 unknowns .*b\[\.\.\., None\]",
        ),
        (lambda: ours.solve(A, V, assume_a="x"), ChoiceError, "Expected assume_a"),
        (lambda: ours.expm(A[:2]), ShapeError, "square matrix"),
        (lambda: ours.block_diag(B), ShapeError, "at most 2 dimensions"),
    ],
)
def test_errors(f: Callable[[], object], error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        f()
