"""Functions of matrices, forms and named matrices of `scipy.linalg`: against jax's, SciPy's and their equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.scipy.linalg as theirs
import numpy as np
import pytest
import scipy.linalg

import tinyjax as tj
from tinyjax import Array
from tinyjax.errors import ChoiceError, ShapeError, TinyjaxError, TypingError, UnsupportedError
from tinyjax.scipy import linalg as ours

_RNG = np.random.default_rng(3)
A = _RNG.normal(size=(2, 4, 4))
C = A + 1j * _RNG.normal(size=A.shape)
B, D = _RNG.normal(size=(3, 3)), _RNG.normal(size=(2, 4, 3))
V = _RNG.normal(size=(2, 5))
CASES: dict[str, Callable[[Any], Any]] = {
    "patterns": lambda la: [f(V) for f in (la.circulant, la.companion, la.fiedler, la.fiedler_companion, la.hankel)],
    "short": lambda la: [
        (la.fiedler_companion(V[0, :n]), la.circulant(V[0, :n]), la.hankel(V[0, :n], V)) for n in (1, 2)
    ],
    "leslie": lambda la: (la.leslie(V, V[:, 1:]), la.leslie(np.arange(3), V[:, :2])),
    "convolution": lambda la: [
        la.convolution_matrix(V, n, mode) for n in (1, 3, 7) for mode in ("full", "same", "valid")
    ],
    "named": lambda la: [
        (la.invhilbert(n), la.invpascal(n, "lower"), la.invpascal(n), la.helmert(n, True), la.dft(n, "sqrtn"))
        for n in (1, 2, 5)
    ],
    "hadamard": lambda la: (la.hadamard(8), la.hadamard(1, dtype=np.float32), la.dft(3, dtype=np.complex64)),
    "eigh": lambda la: (la.eigh(A @ A.mT)[0], la.eigh(C, eigvals_only=True, lower=False)),
    "qr": lambda la: [la.qr(x, mode=m, pivoting=p) for x in (D, C) for m in ("full", "r", "economic") for p in (0, 1)],
    "qr_multiply": lambda la: [
        (la.qr_multiply(D[0], C[0], "right", p, c), la.qr_multiply(D.mT, C[0, 0, :3], "left", p, c))
        for p in (False, True)
        for c in (False, True)
    ],
    "hessenberg": lambda la: (la.hessenberg(A), la.hessenberg(C, calc_q=True), la.hessenberg(A[:, :1, :1])),
    "rsf2csf": lambda la: la.rsf2csf(*theirs.schur(A[0])),
    "sqrtm": lambda la: (la.sqrtm(A[0]), la.sqrtm(C[0])),
    "funm": lambda la: (la.funm(A[0], np.exp, disp=False), la.funm(C[0], lambda x: x * x * x)),
    "expm_frechet": lambda la: (la.expm_frechet(A[0], A[1]), la.expm_frechet(C[0], C[1], compute_expm=False)),
    "sylvester": lambda la: [
        la.solve_sylvester(a, B, D, method=m) for a in (A, C, A[0]) for m in ("schur", "eigen")
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n == "hadamard" else pytest.mark.sweep) for n in CASES])
def test_values(name: str) -> None:
    expected = CASES[name](theirs) if name != "funm" else None
    if expected is None:
        expected = (theirs.funm(A[0], jax.numpy.exp, disp=False), theirs.funm(C[0], lambda x: x * x * x))
        found = (ours.funm(A[0], tj.numpy.exp, disp=False), ours.funm(C[0], lambda x: x * x * x))
    else:
        found = CASES[name](ours)
    for got, want in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert got.dtype == want.dtype
        single = want.dtype in (np.float32, np.complex64)
        np.testing.assert_allclose(got, want, *((1e-3, 1e-4) if single else (1e-7, 1e-8)))


@pytest.mark.sweep
def test_pascals_matrices_are_exact() -> None:
    for kind in ("symmetric", "lower", "upper"):
        np.testing.assert_array_equal(ours.pascal(20, kind), scipy.linalg.pascal(20, kind))
        np.testing.assert_array_equal(ours.invpascal(20, kind), scipy.linalg.invpascal(20, kind).astype(float))


@pytest.mark.parametrize("size", [1, 2, pytest.param(7, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("kind", ["float64", pytest.param("complex128", marks=pytest.mark.sweep)])
def test_tridiagonal(size: int, kind: str) -> None:
    d, e = (_RNG.normal(size=n).astype(kind) for n in (size, size - 1))
    e = e * (1 + 2j) if kind == "complex128" else e
    matrix = np.diag(d.real) + np.diag(e, 1) + np.diag(e.conj(), -1)
    values, vectors = ours.eigh_tridiagonal(d, e)
    assert values.dtype == np.float64
    assert vectors.dtype == kind
    np.testing.assert_allclose(matrix @ np.asarray(vectors), vectors * values, 1e-9, 1e-9)
    if size > 1:
        picked = ours.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(1, size - 1))
        np.testing.assert_allclose(picked, values[1:], 1e-9, 1e-12)


ROOT_OF = A[0] @ A[0].T + np.eye(4)
SMOOTH: dict[str, Callable[[Any], Any]] = {
    "sqrtm": ours.sqrtm,
    "funm": lambda x: ours.funm(x @ A[0], lambda z: z * tj.numpy.sin(z)),
    "sylvester": lambda x: ours.solve_sylvester(x, B @ B.T, D[0]),
    "sylvester_right": lambda x: ours.solve_sylvester(B @ B.T, x, D[0].T, method="eigen"),
    "qr_multiply": lambda x: ours.qr_multiply(x[:, :3], x)[0],
    "tridiagonal": lambda x: ours.eigh_tridiagonal(tj.numpy.diag(x), tj.numpy.diag(x, 1), eigvals_only=True),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_to_second_order(name: str) -> None:
    f, x, t = SMOOTH[name], ROOT_OF, _RNG.normal(size=(4, 4))

    def along(y: Any) -> Any:
        return tj.jvp(f, (y,), (t,))[1]

    for g in (f, along):
        step = 1e-6
        expected = (np.asarray(g(x + step * t)) - np.asarray(g(x - step * t))) / (2 * step)
        value, tangent = tj.jvp(g, (x,), (t,))
        scale = np.max(np.abs(expected))
        np.testing.assert_allclose(tangent, expected, 1e-5, 1e-6 * scale)
        seed = _RNG.normal(size=value.shape).astype(value.dtype)
        (pulled,) = tj.vjp(g, x)[1](seed)
        np.testing.assert_allclose((pulled * t).sum(), (seed * tangent).sum().real, 1e-7, 1e-9 * scale)
    both = tj.vmap(tj.jit(f))(np.stack([x, x + np.eye(4)]))
    np.testing.assert_allclose(both[1], f(x + np.eye(4)), 1e-8, 1e-9)


def test_no_solution_is_nan() -> None:
    assert np.isnan(ours.solve_sylvester(np.eye(1), -np.eye(1), np.ones((1, 1)))).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ours.eigh(ROOT_OF, ROOT_OF), UnsupportedError, "generalised"),
        (lambda: ours.eigh_tridiagonal(V[0], V[0, 1:].astype("float32")), TypingError, "same dtype"),
        (lambda: ours.eigh_tridiagonal(V[0], V[0, 1:], select="v"), NotImplementedError, "select='v'"),
        (lambda: ours.eigh_tridiagonal(V[0], V[0, 1:], select="i"), ValueError, "must be specified"),
        (lambda: ours.eigh_tridiagonal(V[0], V[0, 1:], select="i", select_range=(2, 1)), ValueError, "empty"),
        (lambda: ours.qr(ROOT_OF, mode="all"), ChoiceError, "Unsupported QR decomposition mode"),
        (lambda: ours.qr_multiply(ROOT_OF, V), ShapeError, "c @ Q"),
        (lambda: ours.qr_multiply(ROOT_OF, V, "left"), ShapeError, "Q @ c"),
        (lambda: ours.rsf2csf(ROOT_OF, V), ShapeError, "'Z' must be square"),
        (lambda: ours.sqrtm(ROOT_OF, 2), UnsupportedError, "blocksize=1"),
        (lambda: ours.funm(V, tj.numpy.exp), ShapeError, "square"),
        (lambda: ours.solve_sylvester(A, B, B), ShapeError, "Incompatible shapes"),
        (lambda: ours.expm_frechet(A, B), ShapeError, "same shape"),
        (lambda: ours.hadamard(6), ValueError, "power of 2"),
        (lambda: ours.hadamard(2**40), MemoryError, "Check their sizes"),
        (lambda: ours.dft(2, "n", dtype=float), TypeError, "complex"),
        (lambda: ours.companion(np.ones(1)), ValueError, "at least 2"),
        (lambda: ours.leslie(V, V), ValueError, "one less"),
        (lambda: ours.convolution_matrix(V, 0), ValueError, "positive"),
        (lambda: ours.polar(V, method="newton"), ValueError, "Unknown polar"),
    ],
)
def test_wrong_arguments(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        call()
    assert isinstance(raised.value, TinyjaxError)


@pytest.mark.sweep
def test_functions_of_real_matrices_know_on_what_side_of_a_cut_real_eigenvalues_lie() -> None:
    x = np.random.default_rng(0).normal(size=(6, 12, 12))
    assert ((np.linalg.eigvals(x).imag == 0) & (np.linalg.eigvals(x).real < 0)).sum() > 6

    def power(x: Array) -> Array:
        found = ours.funm(x, lambda z: z**-1.5)
        assert not isinstance(found, tuple)
        return found

    expected = np.stack([scipy.linalg.funm(each, lambda z: z**-1.5, disp=False)[0] for each in x])
    for mapped in (tj.vmap(power), tj.jit(tj.vmap(power))):
        np.testing.assert_allclose(mapped(tj.numpy.asarray(x)), expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())
    t, step = np.random.default_rng(1).normal(size=(12, 12)), 1e-6
    by_steps = np.subtract(*(np.asarray(power(tj.numpy.asarray(x[0] + s * t))) for s in (step, -step))) / (2 * step)
    np.testing.assert_allclose(tj.jvp(power, (x[0],), (t,))[1], by_steps, atol=1e-4 * np.abs(by_steps).max())
