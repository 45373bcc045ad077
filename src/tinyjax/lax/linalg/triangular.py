"""Factors of positive definite matrices, and equations with triangular and tridiagonal ones."""

from __future__ import annotations

from tinyjax.arrays.shaping import expand_dims, squeeze
from tinyjax.errors import InputError
from tinyjax.ir.dtypes import COMPLEXES
from tinyjax.ir.result_types import made_once
from tinyjax.lax.binding import operands, strict
from tinyjax.lax.linalg.parts import lower_triangle, symmetrized
from tinyjax.prepared.functions import prepared
from tinyjax.primitives import triangular
from tinyjax.primitives.tridiagonal import TridiagonalSolve
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.transforms.arguments import flag


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular factor L of positive definite matrices, A = L Lᴴ; nan where they aren't positive definite.

    Of `x` the mean with its conjugate transpose is taken, or, if not `symmetrize_input`, the lower triangle alone.

    Raises:
      TypingError: the matrices aren't of float32, float64, complex64 or complex128.
      ShapeError: they aren't square.

    >>> import numpy as np
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 2.0]]))
    Array([[2., 0.],
           [1., 1.]], dtype=float64)
    """
    return _cholesky(as_array(x), flag("cholesky: symmetrize_input", symmetrize_input))


@prepared
def _cholesky(x: Array, symmetrize_input: bool) -> Array:
    return strict(triangular.cholesky, symmetrized(x) if symmetrize_input else x)


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """The upper triangular factor of `Rᵀ R + w wᵀ`, for such a factor R, in a time quadratic in its size.

    >>> import numpy as np
    >>> cholesky_update(np.eye(2) * 3.0, np.array([4.0, 0.0]))
    Array([[5., 0.],
           [0., 3.]], dtype=float64)
    """
    return strict(triangular.CholeskyUpdate(), r_matrix, w_vector)


def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """`alpha A Aᵀ + beta C`, for real A of shape (..., m, n) and symmetric C of shape (..., m, m).

    If `symmetrize_output`, what is above the diagonal is taken from below.

    >>> import numpy as np
    >>> symmetric_product(np.ones((2, 3)), np.eye(2), beta=2.0)
    Array([[5., 3.],
           [3., 5.]], dtype=float64)
    """
    factors = [as_array(x) for x in (alpha, beta)]
    if any(x.aval.ndim or x.aval.dtype in COMPLEXES for x in factors):
        raise InputError(f"symmetric_product: alpha and beta are real numbers, got {alpha!r} and {beta!r}")
    found = strict(triangular.SymmetricProduct(*map(float, factors)), a_matrix, c_matrix)
    return lower_triangle(found) + lower_triangle(found, -1).mT if symmetrize_output else found


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """The solution X of X A = B, or of A X = B if `left_side`, for triangular A.

    Of `a`, the lower triangle is read if `lower`, else the upper one; without its diagonal if `unit_diagonal`, which
    stands for ones. It is transposed if `transpose_a`, and conjugated if `conjugate_a`. `b` may have one axis less,
    and then holds vectors. What divides by zero is infinite or nan.

    Raises:
      TypingError: the dtypes differ, or aren't float32, float64, complex64 or complex128.
      ShapeError: `a` isn't square, or doesn't fit `b`.

    >>> import numpy as np
    >>> triangular_solve(
    ...     np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([4.0, 3.0]), left_side=True, lower=True
    ... )
    Array([2., 1.], dtype=float64)
    """
    matrix, right = operands(a, b)
    given = {"left_side": left_side, "lower": lower, "transpose_a": transpose_a, "conjugate_a": conjugate_a}
    left, low, transpose, conjugate = [flag(f"triangular_solve: {name}", value) for name, value in given.items()]
    conjugate = conjugate and matrix.aval.dtype in COMPLEXES
    unit = flag("triangular_solve: unit_diagonal", unit_diagonal)
    solving = made_once(triangular.TriangularSolve, left, low, transpose, conjugate, unit)
    if right.aval.ndim != matrix.aval.ndim - 1:
        return strict(solving, matrix, right)
    axis = -1 if left_side else -2
    return squeeze(strict(solving, matrix, expand_dims(right, axis)), axis)


def tridiagonal_solve(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False
) -> Array:
    """The solution X of A X = B for tridiagonal A, given by its diagonals below, on and above the main one.

    Each has an element for every row, so that the first of `dl` and the last of `du` are outside of A. The unknowns are
    along the axis before the last one of `b`. nan where A is singular; or, with `perturb_singular`, the finite solution
    of an equation next to it, whose pivots aren't less than about the dtype's precision times the largest.

    >>> import numpy as np
    >>> one = np.ones(3)
    >>> tridiagonal_solve(one, 2 * one, one, np.array([[3.0], [4.0], [3.0]]))
    Array([[1.],
           [1.],
           [1.]], dtype=float64)
    """
    return strict(TridiagonalSolve(perturb_singular), dl, d, du, b)
