"""Decompositions under SciPy's names. Nothing is overwritten, and nothing is asked of the elements: `overwrite_a` and
`check_finite` are taken, and say nothing."""

from __future__ import annotations

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.ir.dtypes import real_dtype
from tinyjax.numpy.linalg.intake import inexact
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array, ArrayLike


@prepared
def cholesky(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The factor U of positive definite matrices, A = Uᴴ U, of which the upper triangle is read; if `lower`, L with
    A = L Lᴴ, of which the lower one is. nan where a matrix isn't positive definite.

    >>> import numpy as np
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 2.0]]))
    Array([[2., 1.],
           [0., 1.]], dtype=float64)
    """
    x = inexact(a)
    found = lax.linalg.cholesky(x if lower else x.mT.conj(), symmetrize_input=False)
    return found if lower else found.mT.conj()


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """`cholesky`, and whether the factor is the lower one, as `cho_solve` takes them.

    >>> import numpy as np
    >>> from tinyjax.scipy.linalg import cho_solve
    >>> cho_solve(cho_factor(np.array([[4.0, 0.0], [0.0, 2.0]])), np.ones(2))
    Array([0.25, 0.5 ], dtype=float64)
    """
    return cholesky(a, lower), lower


@prepared
def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """The factors of matrices whose rows are exchanged, in one array, and the row that each is exchanged with.

    >>> import numpy as np
    >>> from tinyjax.scipy.linalg import lu_solve
    >>> lu_solve(lu_factor(np.array([[0.0, 2.0], [4.0, 0.0]])), np.ones(2))
    Array([0.25, 0.5 ], dtype=float64)
    """
    factors, pivots, _ = lax.linalg.lu(inexact(a))
    return factors, pivots


@prepared
def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """The factors of A = P L U: a permutation, a lower triangular matrix with ones on its diagonal, and an upper one.

    If `permute_l`, the product P L and U.

    >>> import numpy as np
    >>> [x.tolist() for x in lu(np.array([[0.0, 2.0], [4.0, 0.0]]))]
    [[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[4.0, 0.0], [0.0, 2.0]]]
    """
    x = inexact(a)
    factors, _, order = lax.linalg.lu(x)
    m, n = x.shape[-2:]
    k = min(m, n)
    real = real_dtype(x.dtype)
    permutation = (tnp.arange(m)[:, None] == order[..., None, :]).astype(real)
    lower = tnp.tril(factors, -1)[..., :k] + tnp.eye(m, k, dtype=x.dtype)
    upper = tnp.triu(factors)[..., :k, :]
    return (permutation.astype(x.dtype) @ lower, upper) if permute_l else (permutation, lower, upper)


@prepared
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Array | tuple[Array, Array, Array]:
    """The factors of A = U diag(s) Vᴴ: U, the singular values s, and Vᴴ; or s alone. See `numpy.linalg.svd`.

    Raises:
      ChoiceError: the driver is neither "gesdd" nor "gesvd".

    >>> import numpy as np
    >>> svd(np.array([[3.0, 0.0], [0.0, -4.0]]), compute_uv=False)
    Array([4., 3.], dtype=float64)
    """
    algorithms = {"gesdd": None, "gesvd": lax.linalg.SvdAlgorithm.QR}
    given: object = lapack_driver
    if not isinstance(given, str) or given not in algorithms:
        raise ChoiceError(f"svd: lapack_driver is 'gesdd' or 'gesvd', got {lapack_driver!r}")
    return lax.linalg.svd(
        inexact(a), full_matrices=full_matrices, compute_uv=compute_uv, algorithm=algorithms[lapack_driver]
    )


@prepared
def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array] | tuple[Array, Array] | tuple[Array, Array, Array]:
    """The factors of A = Q R: orthonormal columns, and an upper triangular matrix.

    Q is square in mode "full", and has as many columns as the lesser of rows and columns in mode "economic"; in mode
    "r" it is left out. With `pivoting`, columns are exchanged so that the diagonal of R descends, and their order comes
    last. `lwork` says nothing.

    Raises:
      ChoiceError: there is no such mode.

    >>> import numpy as np
    >>> q, r = qr(np.array([[3.0], [4.0]]), mode="economic")
    >>> np.abs(r)
    array([[5.]])
    """
    if mode not in ("full", "r", "economic"):
        raise ChoiceError(f"Unsupported QR decomposition mode '{mode}': it is 'full', 'r' or 'economic'")
    found = lax.linalg.qr(inexact(a), pivoting=pivoting, full_matrices=mode != "economic")
    return found[1:] if mode == "r" else found


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """The product `c @ Q`, or `Q @ c` in mode "left", for the first factor of A = Q R, with as many columns as the
    lesser of rows and columns; and R. If `conjugate`, of the conjugate of Q. With `pivoting` the order of columns comes
    last, as `qr` has it. A vector `c` is a row, or on the "right" side of Q a column, and so is the product.

    Raises:
      ChoiceError: there is no such mode.
      ShapeError: `c` doesn't fit.

    >>> import numpy as np
    >>> product, r = qr_multiply(np.array([[3.0], [4.0]]), np.array([3.0, 4.0]))
    >>> product / r[0]
    Array([1.], dtype=float64)
    """
    if mode not in ("right", "left"):
        raise ChoiceError(f"qr_multiply: mode must be 'right' or 'left', got {mode!r}")
    x, y = inexact(a), inexact(c)
    kind = tnp.result_type(x, y)
    vector = y.ndim == 1
    factor = y if not vector else y[:, None] if mode == "left" else y[None, :]
    if x.ndim < 2 or factor.ndim < 2:
        raise ShapeError(f"qr_multiply takes a matrix, and another one or a vector; got {x.aval} and {y.aval}")
    q, r, *order = lax.linalg.qr(x.astype(kind), pivoting=pivoting, full_matrices=False)
    rows, columns = q.shape[-2:]
    if mode == "left" and factor.shape[-2] != columns:
        raise ShapeError(
            f"Array shapes are not compatible for Q @ c operation: Q has {columns} columns, as a is {x.aval}, but c is "
            f"{y.aval}"
        )
    if mode == "right" and factor.shape[-1] != rows:
        raise ShapeError(
            f"Array shapes are not compatible for c @ Q operation: Q has {rows} rows, as a is {x.aval}, but c is "
            f"{y.aval}"
        )
    q, factor = q.conj() if conjugate else q, factor.astype(kind)
    product = q @ factor if mode == "left" else factor @ q
    batch = product.shape[:-2]
    r = tnp.broadcast_to(r, (*batch, *r.shape[-2:]))
    product = tnp.ravel(product) if vector else product
    return (product, r, tnp.broadcast_to(order[0], (*batch, order[0].shape[-1]))) if order else (product, r)
