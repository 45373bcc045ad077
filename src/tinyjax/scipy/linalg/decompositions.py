"""Decompositions under SciPy's names. Nothing is overwritten, and nothing is asked of the elements: `overwrite_a` and
`check_finite` are taken, and say nothing."""

from __future__ import annotations

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import ChoiceError
from tinyjax.numpy.linalg.intake import inexact
from tinyjax.tracing.array import Array, ArrayLike


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


def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """The factors of matrices whose rows are exchanged, in one array, and the row that each is exchanged with.

    >>> import numpy as np
    >>> from tinyjax.scipy.linalg import lu_solve
    >>> lu_solve(lu_factor(np.array([[0.0, 2.0], [4.0, 0.0]])), np.ones(2))
    Array([0.25, 0.5 ], dtype=float64)
    """
    factors, pivots, _ = lax.linalg.lu(inexact(a))
    return factors, pivots


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
    real = tnp.abs(factors).dtype
    permutation = (tnp.arange(m)[:, None] == order[..., None, :]).astype(real)
    lower = tnp.tril(factors, -1)[..., :k] + tnp.eye(m, k, dtype=x.dtype)
    upper = tnp.triu(factors)[..., :k, :]
    return (permutation.astype(x.dtype) @ lower, upper) if permute_l else (permutation, lower, upper)


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
    if lapack_driver not in algorithms:
        raise ChoiceError(f"svd: lapack_driver is 'gesdd' or 'gesvd', got {lapack_driver!r}")
    return lax.linalg.svd(
        inexact(a), full_matrices=full_matrices, compute_uv=compute_uv, algorithm=algorithms[lapack_driver]
    )


def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """The Schur form T of square matrices, A = Z T Zᴴ, and Z. `output` "complex" makes T triangular in any case.

    Raises:
      ChoiceError: `output` is neither "real" nor "complex".

    >>> import numpy as np
    >>> schur(np.array([[1.0, 2.0], [0.0, 3.0]]))[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float64)
    """
    if output not in ("real", "complex"):
        raise ChoiceError(f"Expected 'output' to be either 'real' or 'complex', got {output!r}")
    x = inexact(a)
    if output == "complex" and not tnp.iscomplexobj(x):
        x = x + 0j * x
    form, vectors = lax.linalg.schur(x)
    return form, vectors


def polar(a: ArrayLike, side: str = "right") -> tuple[Array, Array]:
    """The polar decomposition A = U P, or P U on the "left", of a matrix: orthonormal rows or columns, and a positive
    semidefinite matrix. By singular values.

    Raises:
      ChoiceError: `side` is neither "right" nor "left".

    >>> import numpy as np
    >>> polar(np.array([[0.0, -2.0], [1.0, 0.0]]))[1]
    Array([[1., 0.],
           [0., 2.]], dtype=float64)
    """
    if side not in ("right", "left"):
        raise ChoiceError(f"The argument `side` must be either 'right' or 'left', got {side!r}")
    u, s, vh = tnp.linalg.svd(inexact(a), full_matrices=False)
    scaled = s[..., :, None]
    if side == "right":
        return u @ vh, vh.mT.conj() @ (scaled * vh)
    return u @ vh, u @ (scaled * u.mT.conj())
