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
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    f = SMOOTH[name]
    expected = jax.grad(lambda x: jnp.sin(f(theirs, x)).sum())(A)
    np.testing.assert_allclose(tj.grad(lambda x: tj.numpy.sin(f(ours, x)).sum())(A), expected, 1e-7, 1e-8)


def test_polar() -> None:
    for side in ("right", "left"):
        u, p = ours.polar(C, side)
        np.testing.assert_allclose(u @ p if side == "right" else p @ u, C, 1e-9)
        np.testing.assert_allclose(u.conj().mT @ u, np.eye(3), atol=1e-12)


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda: ours.svd(A, lapack_driver="qr"), ChoiceError, "'gesdd' or 'gesvd'"),
        (lambda: ours.schur(A, "any"), ChoiceError, "either 'real' or 'complex'"),
        (lambda: ours.polar(A, "up"), ChoiceError, "either 'right' or 'left'"),
        (lambda: ours.solve_triangular(A, V, "H"), ChoiceError, "Invalid 'trans' value 'H'"),
        (lambda: ours.lu_solve((A, np.zeros(3, np.int32)), V, 3), ChoiceError, "must be 0, 1, or 2"),
        (lambda: ours.solve(A, V, assume_a="x"), ChoiceError, "Expected assume_a"),
        (lambda: ours.expm(A[:2]), ShapeError, "square matrix"),
        (lambda: ours.block_diag(B), ShapeError, "at most 2 dimensions"),
    ],
)
def test_errors(f: Callable[[], object], error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        f()
