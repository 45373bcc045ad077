"""LU and QR decompositions, of matrices of any shape."""

from __future__ import annotations

from typing import Literal, SupportsIndex, overload

from tinyjax.arrays.shaping import integer
from tinyjax.lax.binding import strict
from tinyjax.primitives import factorizations
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind


def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """The factors of matrices whose rows are exchanged, P A = L U.

    Returns both in one array of the shape of `x`, without the diagonal of L, which is ones; the row that each has been
    exchanged with, in turn, and the order of rows that this leads to, both of int32. A singular matrix has zeros on the
    diagonal of U.

    Raises:
      TypingError: the matrices aren't of float32, float64, complex64 or complex128.

    >>> import numpy as np
    >>> lu(np.array([[1.0, 2.0], [4.0, 4.0]]))
    (Array([[4.  , 4.  ],
           [0.25, 1.  ]], dtype=float64), Array([1, 1], dtype=int32), Array([1, 0], dtype=int32))
    """
    factors, pivots, order = bind(factorizations.lu, as_array(x))
    return factors, pivots, order


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: SupportsIndex) -> Array:
    """The order of so many rows that they have after exchanges: of each with the one that `pivots` says, in turn.

    >>> import numpy as np
    >>> lu_pivots_to_permutation(np.array([2, 2], np.int32), 3)
    Array([2, 0, 1], dtype=int32)
    """
    size = integer(permutation_size, "lu_pivots_to_permutation: permutation_size")
    return strict(factorizations.LuPivotsToPermutation(size), pivots)


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The first columns of the product of reflections, I - τ v vᴴ for each of `taus`.

    The vectors v are below the diagonal of `a`; on it their elements are 1, whatever is there, and above 0.

    >>> import numpy as np
    >>> householder_product(np.array([[0.0], [1.0]]), np.array([1.0]))
    Array([[ 0.],
           [-1.]], dtype=float64)
    """
    return strict(factorizations.HouseholderProduct(), a, taus)


def ormqr(a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False) -> Array:
    """The product Q C, or C Q if not `left`, for the whole product Q of reflections; see `householder_product`.

    If `transpose`, Q is conjugated and transposed.

    >>> import numpy as np
    >>> ormqr(np.array([[0.0], [1.0]]), np.array([1.0]), np.eye(2))
    Array([[ 0., -1.],
           [-1.,  0.]], dtype=float64)
    """
    return strict(factorizations.Ormqr(left, transpose), a, taus, c)


@overload
def qr(
    x: ArrayLike, *, pivoting: Literal[False] = False, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, Array]: ...


@overload
def qr(
    x: ArrayLike, *, pivoting: Literal[True], full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, Array, Array]: ...


@overload
def qr(
    x: ArrayLike, *, pivoting: bool, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, Array] | tuple[Array, Array, Array]: ...


def qr(
    x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """The QR decomposition of matrices: Q with orthonormal columns, and R, which is upper triangular.

    Q is square if `full_matrices`; else it has as many columns as the lesser of rows and columns. With `pivoting`
    columns are exchanged so that the diagonal of R descends, and a third result, of int32, is their order. `use_magma`
    is for GPUs, where JAX may use that library; here it says nothing.

    >>> import numpy as np
    >>> q, r = qr(np.array([[0.0, 1.0], [2.0, 0.0]]))
    >>> np.abs(r)
    array([[2., 0.],
           [0., 1.]])
    """
    q, r, *order = bind(factorizations.Qr(pivoting, full_matrices, use_magma), as_array(x))
    return (q, r, order[0]) if order else (q, r)
