"""`numpy.linalg` against jax's: values, dtypes, derivatives, batches and compiled code; and errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import ChoiceError, InputError, ShapeError, TinyjaxError, UnsupportedError
from tinyjax.ir.dtypes import HostArray

#: A function of a module `linalg`, ours or jax's, and of arrays.
Case: TypeAlias = Callable[..., Any]


def general(*shape: int, dtype: str = "float64", seed: int = 0) -> HostArray:
    rng = np.random.default_rng(seed + len(shape))
    x = rng.normal(size=shape)
    return np.asarray(x + 1j * rng.normal(size=shape) if dtype.startswith("c") else x).astype(dtype)


def definite(n: int, dtype: str = "float64") -> HostArray:
    x = general(n, n, dtype=dtype)
    return np.asarray(x @ x.conj().T + np.diag(np.arange(1, n + 1))).astype(dtype)


A, C, W, T = general(3, 3), general(3, 3, dtype="complex128"), general(2, 3), general(3, 2)
H, V, B = definite(3), general(3), general(2, 3, 3)
#: With infinities at one place each, and zeros.
INFINITE = np.where(np.arange(36).reshape(4, 3, 3) % 10 == 4, np.inf, general(4, 3, 3))
INFINITE[3] = 0.0
#: The operands, and what is asked of them. Of those that are named so, derivatives are compared too.
SMOOTH: dict[str, tuple[Case, tuple[HostArray, ...]]] = {
    "cholesky": (lambda la, x: la.cholesky(x), (H,)),
    "cholesky upper": (lambda la, x: la.cholesky(x, upper=True), (definite(3, "complex128"),)),
    "qr": (lambda la, x: la.qr(x), (T,)),
    "qr complete": (lambda la, x: la.qr(x, "complete"), (A,)),
    "qr r": (lambda la, x: la.qr(x, mode="r"), (W,)),
    "svd": (lambda la, x: la.svd(x, full_matrices=False), (W,)),
    "svd hermitian": (lambda la, x: la.svd(x, hermitian=True), (H,)),
    "svdvals": (lambda la, x: la.svdvals(x), (B,)),
    "eigvals": (lambda la, x: la.eigvals(x), (A,)),
    "eigh": (lambda la, x: la.eigh(x), (H,)),
    "eigvalsh": (lambda la, x: la.eigvalsh(x), (definite(3, "complex128"),)),
    "solve vector": (lambda la, a, b: la.solve(a, b), (A, V)),
    "solve matrix": (lambda la, a, b: la.solve(a, b), (C, C[:, :2])),
    "solve many": (lambda la, a, b: la.solve(a, b), (A, general(2, 2, 3, 1))),
    "solve batches": (lambda la, a, b: la.solve(a, b), (B, general(2, 3, 2))),
    "inv": (lambda la, x: la.inv(x), (B,)),
    "det": (lambda la, x: la.det(x), (general(2, 4, 4),)),
    "det complex": (lambda la, x: la.det(x), (C,)),
    "slogdet": (lambda la, x: la.slogdet(x), (B,)),
    "slogdet complex": (lambda la, x: la.slogdet(x), (C,)),
    "pinv": (lambda la, x: la.pinv(x), (W,)),
    "pinv tall": (lambda la, x: la.pinv(x), (general(2, 3, 2),)),
    "pinv hermitian": (lambda la, x: la.pinv(x, hermitian=True), (H,)),
    "lstsq": (lambda la, a, b: la.lstsq(a, b)[:2], (T, V)),
    "lstsq matrix": (lambda la, a, b: la.lstsq(a, b)[0], (T, T)),
    "norm": (lambda la, x: la.norm(x), (B,)),
    "norm complex": (lambda la, x: la.norm(x, axis=1, keepdims=True), (C,)),
    "nuclear": (lambda la, x: la.norm(x, "nuc", axis=(0, 2), keepdims=True), (B,)),
    "spectral": (lambda la, x: la.matrix_norm(x, ord=2), (A,)),
    "norm 3": (lambda la, x: la.vector_norm(x, ord=3, axis=-1), (A,)),
    "cond": (lambda la, x: la.cond(x), (A,)),
    "cond 1": (lambda la, x: la.cond(x, 1), (A,)),
    "power": (lambda la, x: la.matrix_power(x, 5), (A,)),
    "inverse power": (lambda la, x: la.matrix_power(x, -2), (A,)),
    "multi_dot": (lambda la, x, y, z: la.multi_dot([x, y, z]), (V, T, W)),
    "tensorinv": (lambda la, x: la.tensorinv(x.reshape(2, 2, 4)), (general(4, 4),)),
    "tensorsolve": (lambda la, a, b: la.tensorsolve(a.reshape(2, 2, 4), b.reshape(2, 2)), (general(4, 4), general(4))),
    "cross": (lambda la, x, y: la.cross(x, y, axis=0), (A, B[0])),
    "vecdot": (lambda la, x, y: la.vecdot(x, y, axis=0), (C, C.T)),
    "tensordot": (lambda la, x, y: la.tensordot(x, y, axes=((0,), (1,))), (A, W)),
    "matmul": (lambda la, x, y: la.matmul(x, y), (B, T)),
    "outer": (lambda la, x: la.outer(x, x), (V,)),
    "diagonal": (lambda la, x: la.diagonal(x, offset=1), (B,)),
    "trace": (lambda la, x: la.trace(x, offset=-1), (B,)),
    "transpose": (lambda la, x: la.matrix_transpose(x), (B,)),
}  # fmt: skip
OTHERS: dict[str, tuple[Case, tuple[HostArray, ...]]] = {
    "eig": (lambda la, x: la.eig(x), (A,)),
    "qr raw": (lambda la, x: la.qr(x, mode="raw"), (T,)),
    "svd full": (lambda la, x: la.svd(x), (W,)),
    "svd values": (lambda la, x: la.svd(x, compute_uv=False, hermitian=True), (H - 4 * np.eye(3),)),
    "eigh upper": (lambda la, x: la.eigh(x, UPLO="U", symmetrize_input=False), (A,)),
    "rank": (lambda la, x: la.matrix_rank(x), (np.stack([A, np.ones((3, 3))]),)),
    "rank of a vector": (lambda la, x: la.matrix_rank(x), (V,)),
    "rank with a tolerance": (lambda la, x: la.matrix_rank(x, rtol=2.0), (B,)),
    "lstsq of less rank": (lambda la, a, b: la.lstsq(a, b), (np.ones((4, 2)), general(4))),
    "lstsq with a tolerance": (lambda la, a, b: la.lstsq(a, b, 0.5), (T, V)),
    "lstsq without rows": (lambda la, a, b: la.lstsq(a, b), (np.ones((0, 2)), np.ones(0))),
    "pinv of less rank": (lambda la, x: la.pinv(x, rtol=0.3), (np.stack([A, np.ones((3, 3))]),)),
    "singular": (lambda la, x: (la.det(x), la.slogdet(x), la.cond(x, 1)), (np.ones((3, 3)),)),
    "not finite": (lambda la, x: (la.slogdet(x), la.solve(x, x), la.svdvals(x)), (np.where(A > 0, np.nan, A),)),
    "nan before zero": (lambda la, x: (la.slogdet(x), la.slogdet(x[:1, :1])), (np.array([[np.nan, 2.0], [2.0, 4.0]]),)),
    "infinite": (lambda la, x: (la.det(x), la.det(x[:, 1:, 1:]), la.cond(x, -2), la.cond(x)), (INFINITE,)),
    "infinite by eigenvalues": (lambda la, x: la.pinv(x, hermitian=True), (np.diag([1.0, np.inf, 2.0]),)),
    "power 0": (lambda la, x: la.matrix_power(x, 0), (B,)),
    "integers": (lambda la, x: (la.inv(x), la.det(x), la.norm(x)), (np.array([[1, 2], [3, 5]]),)),
    "power of integers": (lambda la, x: la.matrix_power(x, 3), (np.array([[1, 2], [3, 5]]),)),
    "float32": (lambda la, x: (la.inv(x), la.det(x), la.svdvals(x), la.pinv(x)), (A.astype("float32"),)),
    "complex64": (lambda la, x: (la.inv(x), la.slogdet(x), la.eigvals(x)), (C.astype("complex64"),)),
    "empty": (lambda la, x: (la.det(x), la.slogdet(x), la.inv(x), la.norm(x)), (np.zeros((2, 0, 0)),)),
    **{
        f"matrix norm {order}": (lambda la, x, order=order: la.matrix_norm(x, ord=order, keepdims=True), (B,))
        for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    },
    **{
        f"norm {order} along {axes}": (lambda la, x, order=order, axes=axes: la.norm(x, order, axes), (B,))
        for order in (None, "nuc", 1, -1, 2, -2, np.inf, -np.inf)
        for axes in ((0, 2), (2, 0), (-1, 1), (1, -3))
    },
    **{
        f"vector norm {order}": (lambda la, x, order=order: la.vector_norm(x, ord=order, axis=(0, 2)), (B,))
        for order in (0, 1, 2, -1, 0.5, np.inf, -np.inf)
    },
}  # fmt: skip


def close(found: object, expected: object) -> None:
    for got, want in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        ours, theirs = np.asarray(got), np.asarray(want)
        assert ours.dtype == theirs.dtype
        single = ours.dtype in (np.float32, np.complex64)
        np.testing.assert_allclose(ours, theirs, *((2e-4, 1e-4) if single else (1e-8, 1e-9)))


#: The others take long, all together.
FEW = (
    "cholesky",
    "infinite",
    "infinite by eigenvalues",
    "svd hermitian",
    "solve many",
    "pinv of less rank",
    "not finite",
    "lstsq with a tolerance",
    "integers",
)


@pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=pytest.mark.sweep) for name in (*SMOOTH, *OTHERS)]
)
def test_values(name: str) -> None:
    f, args = {**SMOOTH, **OTHERS}[name]
    close(f(tnp.linalg, *args), f(jnp.linalg, *args))


@pytest.mark.sweep
@pytest.mark.parametrize("name", [*SMOOTH, *OTHERS])
def test_compiled_and_mapped(name: str) -> None:
    f, args = {**SMOOTH, **OTHERS}[name]
    expected = f(jnp.linalg, *args)
    close(tj.jit(lambda *xs: f(tnp.linalg, *xs))(*args), expected)
    stacked = [np.stack([x, x]) for x in args]
    close(tj.vmap(lambda *xs: f(tnp.linalg, *xs))(*stacked), jax.vmap(lambda *xs: f(jnp.linalg, *xs))(*stacked))


@pytest.mark.sweep
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    """Those of a sum of squares, to second order, in both modes."""
    f, args = SMOOTH[name]
    positions = tuple(range(len(args)))

    def total(la: Any, np_: Any, tree: Any) -> Callable[..., Any]:
        return lambda *xs: sum((np_.abs(leaf) ** 2 * 0.5).sum() for leaf in tree.leaves(f(la, *xs)))

    ours, theirs = total(tnp.linalg, tnp, tj.tree), total(jnp.linalg, jnp, jax.tree)
    close(tj.grad(ours, positions)(*args), jax.grad(theirs, positions)(*args))
    along = tuple(general(*x.shape, dtype=x.dtype.name, seed=7) for x in args)
    close(tj.jvp(lambda *xs: f(tnp.linalg, *xs), args, along)[1],
          jax.jit(lambda x, t: jax.jvp(lambda *xs: f(jnp.linalg, *xs), x, t)[1])(args, along))  # fmt: skip
    if name in ("eigvals", "lstsq", "lstsq matrix", "multi_dot", "slogdet", "slogdet complex", "svd hermitian"):
        return  # jax's aren't finite, or say less
    second = [
        module.jvp(module.grad(g, positions), args, along)[1] for module, g in ((tj, ours), (jax, theirs))
    ]  # fmt: skip
    close(*second)


def test_derivatives_where_factors_have_none() -> None:
    """Of a singular matrix, and of one whose singular values are equal."""
    x = general(4, 4)
    x[3] = x[0] + x[1]
    np.testing.assert_allclose(tj.grad(tnp.linalg.det)(x), jax.grad(jnp.linalg.det)(x), 1e-6, 1e-8)
    np.testing.assert_allclose(tj.grad(lambda x: tnp.linalg.pinv(x).sum())(np.eye(3)), -np.ones((3, 3)), atol=1e-12)
    singular = np.stack([np.ones((3, 3)), np.diag([1.0, 0.0, 2.0]), np.zeros((3, 3)), np.where(A > 1, np.nan, A), A])
    small = np.reshape([1, 2, 2, 4, 1, 2, -2, -4, 0, 0, 0, 1, np.inf, 1, 1, 2, 2, 1, 1, 3], (5, 2, 2))
    for x, t in (
        (singular, np.ones_like(singular)),
        (singular * (1 + 2j), singular[::-1] * 1j),
        (small, np.ones_like(small)),
        (np.array([[[0.0]], [[-2.0]]]), np.ones((2, 1, 1))),
        (np.array([[[0j]], [[-2j]]]), np.full((2, 1, 1), 1 - 1j)),
        (small[:2] * (1 + 0j), np.ones((2, 2, 2), "complex128")),
    ):
        found, wanted = (
            (j.vjp(f, x)[1](f(x)), j.jvp(f, (x,), (t,))[1])
            for j, f in ((tj, tnp.linalg.slogdet), (jax, jnp.linalg.slogdet))
        )
        for one, other in zip(jax.tree.leaves(wanted), tj.tree.leaves(found), strict=True):
            np.testing.assert_allclose(other, one, 1e-9)


@pytest.mark.parametrize("hermitian", [False, True])
def test_derivatives_of_truncated_pseudoinverses(hermitian: bool) -> None:
    """Against differences, to second order and in both modes; some values kept, and some cut off, are equal."""
    factor, along, across = (general(4, 4, dtype="complex128", seed=seed) for seed in range(3))
    u, v = np.linalg.qr(factor)[0], np.linalg.qr(along)[0][:, :3]
    x = u * [3, -3, 0.5, 0.5] @ u.conj().T if hermitian else u[:, :3] * [3, 0.5, 0.5] @ v.conj().T
    t, w = along[:, : x.shape[1]], across[: x.shape[1]]

    def f(x: Any) -> Any:
        return tnp.linalg.pinv(x, rtol=0.3, hermitian=hermitian)

    def slopes(x: Any) -> Any:
        return tj.jvp(f, (x,), (t,))[1], tj.vjp(f, x)[1](w)[0]

    def difference(f: Callable[[Any], Any], step: float = 1e-5) -> Any:
        above, below = (tj.tree.leaves(f(x + sign * step * t)) for sign in (1, -1))
        return [np.subtract(one, other) / (2 * step) for one, other in zip(above, below, strict=True)]

    forward, backward = map(np.asarray, slopes(x))
    np.testing.assert_allclose(forward, difference(f)[0], 1e-6, 1e-8)
    np.testing.assert_allclose((w * forward).sum().real, (backward * t).sum().real)
    for found, wanted in zip(tj.jvp(slopes, (x,), (t,))[1], difference(slopes), strict=True):
        np.testing.assert_allclose(found, wanted, 1e-6, 1e-7)


def cofactors(x: HostArray) -> HostArray:
    """Of determinants of what is left of a matrix without a row and a column."""
    places = np.ndindex(x.shape)
    left = [np.delete(np.delete(x, i, 0), j, 1) for i, j in places]
    signs = (-1.0) ** np.add.outer(np.arange(len(x)), np.arange(len(x)))
    found: HostArray = signs * np.reshape([np.linalg.det(part) for part in left], x.shape)
    return found


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_determinants_of_narrow_floats(dtype: str, size: int) -> None:
    x = general(2, size, size).astype(jnp.dtype(dtype))
    for f in (tnp.linalg.det, tj.jit(tnp.linalg.det)):
        found = f(x)
        assert found.dtype == jnp.linalg.det(x).dtype
        np.testing.assert_allclose(found, np.linalg.det(x.astype("float64")), 0.02, 0.02)
    slopes = tj.grad(lambda x: tnp.linalg.det(x).sum())(x)
    assert slopes.dtype == dtype


@pytest.mark.sweep
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("imaginary", [False, True])
def test_determinants_have_derivatives_at_any_rank(size: int, imaginary: bool) -> None:
    """Whichever pivot is zero, and if several are."""
    rng = np.random.default_rng(size)
    cases: list[HostArray] = [np.zeros((size, size))]
    for i in range(size):
        product = rng.integers(-3, 4, size=(size, i)) @ rng.integers(-3, 4, size=(i, size))
        without_row, without_column = rng.normal(size=(2, size, size))
        without_row[i], without_column[:, i] = 0, 0
        cases += [product.astype(float), without_row, without_column]
    for zeros in itertools.product([False, True], repeat=size):
        upper = np.triu(rng.integers(-3, 4, (size, size)), 1) + np.diag(np.where(zeros, 0, rng.integers(1, 4, size)))
        cases.append(upper[rng.permutation(size)].astype(float))
    x = np.stack([np.eye(size, k=1), *cases]) * (1 + 2j if imaginary else 1)
    expected = np.stack([cofactors(case) for case in x])
    for f in (tnp.linalg.det, tj.jit(tnp.linalg.det), tj.vmap(tnp.linalg.det)):
        (found,) = tj.vjp(f, x)[1](np.ones(len(x), x.dtype))
        scales = np.maximum(1, np.max(np.abs(expected), (1, 2), keepdims=True))
        np.testing.assert_allclose(found / scales, expected / scales, 1e-7, 1e-9)


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda: tnp.linalg.inv(W), ShapeError, r"Argument to inv must have shape \[..., n, n\], got f64\[2,3\]"),
        (lambda: tnp.linalg.solve(V, V), ShapeError, "must be at least two dimensional"),
        (lambda: tnp.linalg.solve(A, V[:2]), ShapeError, r"f64\[3,3\] has 3 rows, but f64\[2\] has not\n"),
        (lambda: tnp.linalg.solve(B, general(2, 4)), ShapeError, r"solve\(a, b\[..., None\]\)\[..., 0\]"),
        (lambda: tnp.linalg.cholesky(W), ShapeError, "square matrices are needed"),
        (lambda: tnp.linalg.qr(A, "economic"), ChoiceError, "the modes are 'reduced'"),
        (lambda: tnp.linalg.eigh(A, "l"), ChoiceError, "UPLO must be one of None, 'L', or 'U'"),
        (lambda: tnp.linalg.svd(A, subset_by_index=(0, 1)), UnsupportedError, "Slice the result"),
        (lambda: tnp.linalg.norm(B, axis=(0, 1, 2)), ShapeError, "Improper number of axes"),
        (lambda: tnp.linalg.norm(A, 3), ChoiceError, "Invalid order 3 for matrix norm"),
        (lambda: tnp.linalg.vector_norm(V, ord="inf"), ChoiceError, "Use numpy.inf instead"),
        (lambda: tnp.linalg.slogdet(A, method="svd"), ChoiceError, "the methods are"),
        (lambda: tnp.linalg.pinv(A, rtol=1.0, rcond=1.0), ChoiceError, "only one of"),
        (lambda: tnp.linalg.matrix_rank(A, 1.0, tol=1.0), ChoiceError, "only one of"),
        (lambda: tnp.linalg.lstsq(A, V[:2]), ShapeError, "Leading dimensions"),
        (lambda: tnp.linalg.cond(V), ShapeError, "at least 2D"),
        (lambda: tnp.linalg.multi_dot([A]), InputError, "at least two arrays"),
        (lambda: tnp.linalg.multi_dot([A, W]), ShapeError, "must match first dimension"),
        (lambda: tnp.linalg.tensorinv(A, 0), ShapeError, "a positive integer"),
        (lambda: tnp.linalg.tensorinv(B, 1), ShapeError, "only possible when"),
        (lambda: tnp.linalg.tensorsolve(A, W), ShapeError, "must match shape of b"),
        (lambda: tnp.linalg.cross(W[:, :2], W[:, :2]), ShapeError, "3-dimensional vectors"),
        (lambda: tnp.linalg.outer(A, V), ShapeError, "one-dimensional"),
    ],
)
def test_errors(f: Callable[[], object], error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        f()
