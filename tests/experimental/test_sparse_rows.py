"""BCSR, COO, CSR and CSC, the solver and convolutions: what the same functions give for dense arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.experimental.sparse as theirs
import numpy as np
import pytest
import scipy.sparse

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import errors, lax
from tinyjax.experimental import sparse
from tinyjax.experimental.sparse import BCOO, BCSR

RNG = np.random.default_rng(0)


def some_zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.where(RNG.random(shape) < 0.5, 0.0, RNG.integers(1, 5, size=shape))


CASES = [((3, 4), 0, 0), ((2, 3, 4), 1, 0), ((3, 4, 2), 0, 1), ((2, 3, 4, 2), 1, 1), ((0, 3), 0, 0), ((3, 0), 0, 0)]


@pytest.mark.sweep
@pytest.mark.parametrize(("shape", "n_batch", "n_dense"), CASES)
def test_rows(shape: tuple[int, ...], n_batch: int, n_dense: int) -> None:
    dense = some_zeros(*shape)
    mat = BCSR.fromdense(dense, n_batch=n_batch, n_dense=n_dense)
    padded = BCSR.fromdense(dense, n_batch=n_batch, n_dense=n_dense, nse=mat.nse + 3)
    assert (mat.shape, mat.n_batch, mat.n_dense) == (shape, n_batch, n_dense)
    for x in (mat, padded):
        for found in (x, x.to_bcoo(), BCSR.from_bcoo(x.to_bcoo()), x.sum_duplicates(), tj.jit(lambda x: x)(x)):
            np.testing.assert_array_equal(found.todense(), dense)
        np.testing.assert_array_equal(sparse.bcsr_extract(x.indices, x.indptr, dense), x.data)
        doubled = sparse.bcsr_concatenate([x, mat], dimension=n_batch)
        np.testing.assert_array_equal(doubled.todense(), np.concatenate([dense, dense], n_batch))
    if n_batch:
        np.testing.assert_array_equal(tj.vmap(sparse.bcsr_todense)(padded), dense)
    if not dense.size:  # where JAX can store no padding
        return
    with jax.enable_x64(True):
        wanted = theirs.BCSR.fromdense(jax.numpy.asarray(dense), n_batch=n_batch, n_dense=n_dense, nse=mat.nse + 3)
        assert repr(padded) == repr(wanted)
        for part in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(padded, part), getattr(wanted, part))


def test_operations_of_rows() -> None:
    dense, v = some_zeros(3, 4), np.arange(4.0)
    mat = BCSR.fromdense(dense, nse=14)
    np.testing.assert_array_equal(mat @ v, dense @ v)
    np.testing.assert_array_equal(np.arange(3.0) @ mat, np.arange(3.0) @ dense)
    both = mat @ BCSR.fromdense(dense.T)
    assert isinstance(both, BCSR)
    np.testing.assert_array_equal(both.todense(), dense @ dense.T)
    np.testing.assert_array_equal(mat.T.todense(), dense.T)
    np.testing.assert_array_equal((-mat).todense(), -dense)
    np.testing.assert_array_equal(mat[1:].todense(), dense[1:])
    np.testing.assert_array_equal(mat[1].todense(), dense[1])
    for f in (tnp.sin, lambda m: m + m, lambda m: 2.0 * m * m, lambda m: lax.fori_loop(0, 2, lambda i, m: 2.0 * m, m)):
        found = sparse.sparsify(f)(mat)
        assert isinstance(found, BCSR)
        np.testing.assert_allclose(found.todense(), f(tnp.asarray(dense)))
    np.testing.assert_allclose(sparse.sparsify(lambda m, v: tnp.sin(m) @ v)(mat, v), np.sin(dense) @ v)
    unordered = BCSR((np.ones(3), np.array([3, 1, 1]), np.array([0, 2, 3])), shape=(2, 4))
    np.testing.assert_array_equal(sparse.sparsify(tnp.negative)(unordered).indices, unordered.indices)
    gradient = sparse.grad(lambda m: tnp.sum((m @ v) ** 2))(mat)
    np.testing.assert_allclose(gradient.todense(), np.where(dense != 0, np.outer(2 * dense @ v, v), 0))
    with pytest.raises(errors.ShapeError, match="indptr must have shape"):
        BCSR((mat.data, mat.indices, mat.indptr[1:]), shape=(3, 4))
    with pytest.raises(errors.UnsupportedError, match="two sparse"):
        BCSR.from_bcoo(BCOO.fromdense(np.ones(3)))


@pytest.mark.parametrize("name", ["COO", "CSR", "CSC"])
def test_matrices(name: str) -> None:
    dense, v = some_zeros(3, 4), np.arange(4.0)
    kind = getattr(sparse, name)
    for mat in (kind.fromdense(dense), kind.fromdense(dense, nse=14), tj.jit(lambda m: m)(kind.fromdense(dense))):
        np.testing.assert_array_equal(mat.todense(), dense)
        np.testing.assert_array_equal(mat.T.todense(), dense.T)
        np.testing.assert_array_equal(mat @ v, dense @ v)
        np.testing.assert_array_equal(mat.T @ dense, dense.T @ dense)
    lower = name.lower()
    np.testing.assert_array_equal(sparse.eye(3, 4, 1, sparse_format=lower).todense(), np.eye(3, 4, 1))
    np.testing.assert_array_equal(sparse.empty((3, 4), sparse_format=lower).todense(), np.zeros((3, 4)))
    if name != "CSC":
        matvec, matmat = getattr(sparse, f"{lower}_matvec"), getattr(sparse, f"{lower}_matmat")
        np.testing.assert_array_equal(matvec(mat, np.arange(3.0), transpose=True), np.arange(3.0) @ dense)
        np.testing.assert_array_equal(matmat(mat, dense.T), dense @ dense.T)
    with pytest.raises(errors.UnsupportedError, match="to_bcoo"):
        mat @ mat
    with pytest.raises(errors.ChoiceError, match="sparse_format"):
        sparse.eye(3, sparse_format="dia")


def test_matrices_of_scipy() -> None:
    dense = some_zeros(3, 4)
    for kind in (BCOO, BCSR):
        np.testing.assert_array_equal(kind.from_scipy_sparse(scipy.sparse.csc_matrix(dense)).todense(), dense)


@pytest.mark.sweep
def test_solver() -> None:
    """Values, derivatives in both modes and of second order, batches, compiled."""
    dense = some_zeros(4, 4) + 5 * np.eye(4)
    mat, b = BCSR.fromdense(dense), RNG.normal(size=4)

    def f(data: Any, b: Any) -> Any:
        return sparse.linalg.spsolve(data, mat.indices, mat.indptr, b)

    np.testing.assert_allclose(f(mat.data, b), np.linalg.solve(dense, b))
    np.testing.assert_allclose(tj.jit(f)(mat.data, b), np.linalg.solve(dense, b))
    several = np.stack([b, 2 * b])
    np.testing.assert_allclose(tj.vmap(f, (None, 0))(mat.data, several), np.linalg.solve(dense, several.T).T)
    tj.test_util.check_grads(f, (np.asarray(mat.data), b), order=2, modes=["fwd", "rev"])
    wide = f(mat.data.astype(np.complex128), b + 1j)
    np.testing.assert_allclose(wide, np.linalg.solve(dense, b + 1j))
    with pytest.raises(errors.DtypeError, match="one dtype"):
        f(mat.data, b.astype(np.float32))
    with pytest.raises(errors.ShapeError, match="indptr must have"):
        f(mat.data, b[1:])


@pytest.mark.parametrize("padding", ["SAME", "VALID", [(2, 1)], [(0, 3)]])
def test_convolution(padding: Any) -> None:
    x, y = some_zeros(1, 1, 7), some_zeros(1, 1, 3)
    wanted = lax.conv_general_dilated(x, y, (1,), padding)
    for one, other in ((BCOO.fromdense(x), BCOO.fromdense(y, nse=5)), (BCOO.fromdense(x, n_batch=2), y)):
        found = sparse.bcoo_conv_general_dilated(one, other, window_strides=(1,), padding=padding)
        np.testing.assert_array_equal(found.todense(), wanted)
    with pytest.raises(errors.UnsupportedError, match="window_strides"):
        sparse.bcoo_conv_general_dilated(x, y, window_strides=(2,), padding=padding)
