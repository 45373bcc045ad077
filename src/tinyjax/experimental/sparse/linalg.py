"""Equations with sparse matrices, and eigenvectors: the names of `jax.experimental.sparse.linalg`."""

from __future__ import annotations

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.host_callbacks import pure_callback
from tinyjax.errors import ChoiceError, DtypeError, ShapeError
from tinyjax.experimental.sparse.bcsr import BCSR
from tinyjax.experimental.sparse.eigenvectors import lobpcg_standard
from tinyjax.experimental.sparse.matrices import product
from tinyjax.ir.dtypes import HostArray
from tinyjax.tracebacks import filter_package
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

__all__ = ["lobpcg_standard", "spsolve"]


def spsolve(
    data: ArrayLike, indices: ArrayLike, indptr: ArrayLike, b: ArrayLike, tol: float = 1e-6, reorder: int = 1
) -> Array:
    """The vector x for which A x = b, where A is a square matrix by rows: elements, their columns, and where each row
    begins. SciPy's solver finds it, on the host; `tol` and `reorder` are for others.

    Differentiable in `data` and b. Under `vmap`, equations are solved by turns.

    Raises:
      ShapeError: sizes don't fit.
      DtypeError: data and b aren't floats or complex numbers of one dtype.

    >>> from tinyjax.experimental.sparse import BCSR
    >>> mat = BCSR.fromdense(np.array([[2.0, 0.0], [1.0, 4.0]]))
    >>> spsolve(mat.data, mat.indices, mat.indptr, np.array([2.0, 9.0]))
    Array([1., 2.], dtype=float64)
    """
    del tol
    values, columns, begins, right = map(as_array, (data, indices, indptr, b))
    if values.dtype != right.dtype or not np.issubdtype(values.dtype, np.inexact):
        raise DtypeError(
            f"spsolve: data and b must be floats, or complex numbers, of one dtype, got {values.aval} and {right.aval}"
        )
    if any(x.ndim != 1 for x in (values, columns, begins, right)):
        raise ShapeError("spsolve takes vectors: data, indices, indptr and b")
    if begins.size != right.size + 1 or values.shape != columns.shape:
        raise ShapeError(
            f"spsolve: for {right.size} equations indptr must have {right.size + 1} numbers, and data and indices the "
            f"same; got {begins.aval}, {values.aval} and {columns.aval}"
        )
    if reorder not in (0, 1, 2, 3):
        raise ChoiceError(f"spsolve: reorder must be 0, 1, 2 or 3, got {reorder!r}")
    size = right.size

    def solve(transposed: bool, right: Array) -> Array:
        def by_scipy(data: HostArray, indices: HostArray, indptr: HostArray, b: HostArray) -> HostArray:
            from scipy.sparse import csr_matrix
            from scipy.sparse.linalg import spsolve as solver

            mat = csr_matrix((np.asarray(data), np.asarray(indices), np.asarray(indptr)), shape=(size, size))
            found: HostArray = np.asarray(solver(mat.T.tocsc() if transposed else mat.tocsc(), np.asarray(b)))
            return found.astype(b.dtype)

        fixed = lax.stop_gradient(values)
        found: Array = pure_callback(by_scipy, right.aval, fixed, columns, begins, right, vmap_method="sequential")
        return found

    mat = BCSR((values, columns, begins), shape=(size, size)).to_bcoo()
    found: Array = lax.custom_linear_solve(
        lambda x: product(mat, x, False),
        right,
        lambda _, b: solve(False, tnp.asarray(b)),
        lambda _, b: solve(True, tnp.asarray(b)),
    )
    return found


filter_package(__name__, __all__)
