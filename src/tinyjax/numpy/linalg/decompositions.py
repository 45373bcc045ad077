"""Decompositions of matrices. Integers are taken as floats; the elements become float32, float64 or complex."""

from __future__ import annotations

from typing import Literal, overload

from tinyjax.arrays.along_axis import argsort
from tinyjax.arrays.arithmetic import absolute
from tinyjax.errors import ChoiceError
from tinyjax.lax import linalg as strict
from tinyjax.lax.linalg.parts import adjoint
from tinyjax.numpy.arithmetic import sign
from tinyjax.numpy.indexing import take_along_axis
from tinyjax.numpy.linalg.intake import inexact
from tinyjax.numpy.linalg.results import EighResult, EigResult, QRResult, SVDResult
from tinyjax.prepared.functions import prepared
from tinyjax.primitives.factorizations import geqrf
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.core import bind


@prepared
def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The lower triangular factor L of positive definite matrices, A = L Lᴴ; with `upper` its conjugate transpose.

    Of `a` the mean with its conjugate transpose is taken, or, if not `symmetrize_input`, the lower triangle alone. nan
    where a matrix isn't positive definite.

    Raises:
      ShapeError: the matrices aren't square.

    >>> import numpy as np
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 2.0]]))
    Array([[2., 0.],
           [1., 1.]], dtype=float64)
    """
    found = strict.cholesky(inexact(a), symmetrize_input=symmetrize_input)
    return adjoint(found) if upper else found


@overload
def qr(a: ArrayLike, mode: Literal["reduced", "complete", "raw", "full"] = "reduced") -> QRResult: ...


@overload
def qr(a: ArrayLike, mode: Literal["r"]) -> Array: ...


@overload
def qr(a: ArrayLike, mode: str) -> Array | QRResult: ...


@prepared
def qr(a: ArrayLike, mode: str = "reduced") -> Array | QRResult:
    """The QR decomposition of matrices: Q with orthonormal columns, and R, which is upper triangular.

    The modes are "reduced", in which Q has as many columns as the lesser of rows and columns; "complete", in which it
    is square; "r", in which only R is returned; and "raw", which returns LAPACK's reflections, transposed, and their
    factors.

    Raises:
      ChoiceError: there is no such mode.

    >>> import numpy as np
    >>> q, r = qr(np.array([[3.0], [4.0]]))
    >>> np.abs(r)
    array([[5.]])
    """
    x = inexact(a)
    if mode == "raw":
        reflections, taus = bind(geqrf, x)
        return QRResult(reflections.mT, taus)
    if mode not in ("reduced", "r", "full", "complete"):
        raise ChoiceError(f"qr: the modes are 'reduced', 'complete', 'r' and 'raw', got {mode!r}")
    q, r = strict.qr(x, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> SVDResult: ...


@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    *,
    compute_uv: Literal[False],
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Array: ...


@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Array | SVDResult: ...


@prepared
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Array | SVDResult:
    """The factors of A = U diag(S) Vᴴ, with the singular values S in descending order; or S alone.

    U and Vᴴ are square if `full_matrices`; else they have as many columns and rows as there are values. `hermitian`
    says that the matrices are, so that they have eigenvalues instead. nan where they can't be computed.

    Raises:
      UnsupportedError: `subset_by_index` asks for a part.

    >>> import numpy as np
    >>> svd(np.array([[3.0, 0.0], [0.0, -4.0]])).S
    Array([4., 3.], dtype=float64)
    """
    x = inexact(a)
    if not hermitian:
        found = strict.svd(
            x, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index
        )  # fmt: skip
        return SVDResult(*found) if isinstance(found, tuple) else found
    vectors, values = strict.eigh(x, subset_by_index=subset_by_index)
    order = argsort(-absolute(values), axis=-1)
    ordered = take_along_axis(values, order, -1, "promise_in_bounds", wrap_negative_indices=False)
    if not compute_uv:
        return absolute(ordered)
    u = take_along_axis(vectors, order[..., None, :], -1, "promise_in_bounds", wrap_negative_indices=False)
    return SVDResult(u, absolute(ordered), adjoint(u * sign(ordered)[..., None, :]))


@prepared
def svdvals(x: ArrayLike, /) -> Array:
    """The singular values of matrices, in descending order.

    >>> import numpy as np
    >>> svdvals(np.array([[3.0, 0.0], [0.0, -4.0]]))
    Array([4., 3.], dtype=float64)
    """
    return svd(x, compute_uv=False)


@prepared
def eig(a: ArrayLike) -> EigResult:
    """The eigenvalues of square matrices, and their right eigenvectors as columns, of length 1: both are complex.

    Only the values have derivatives; `lax.linalg.eig` has those of vectors.

    >>> import numpy as np
    >>> eig(np.array([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues
    Array([0.+1.j, 0.-1.j], dtype=complex128)
    """
    values, vectors = strict.eig(inexact(a), compute_left_eigenvectors=False)
    return EigResult(values, vectors)


@prepared
def eigvals(a: ArrayLike) -> Array:
    """The eigenvalues of square matrices: complex numbers, in no order.

    >>> import numpy as np
    >>> eigvals(np.array([[0.0, 1.0], [-1.0, 0.0]]))
    Array([0.+1.j, 0.-1.j], dtype=complex128)
    """
    (values,) = strict.eig(inexact(a), compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    return values


@prepared
def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """The eigenvalues of symmetric or Hermitian matrices, in ascending order, and eigenvectors as columns.

    Of `a` the mean with its conjugate transpose is taken, or, if not `symmetrize_input`, one triangle: `UPLO` is "L" or
    "U". Derivatives are those of eigenvalues that differ.

    Raises:
      ChoiceError: `UPLO` is something else.

    >>> import numpy as np
    >>> eigh(np.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    Array([1., 2.], dtype=float64)
    """
    if UPLO not in (None, "L", "U"):
        raise ChoiceError(f"UPLO must be one of None, 'L', or 'U', got {UPLO!r}")
    vectors, values = strict.eigh(inexact(a), lower=UPLO != "U", symmetrize_input=symmetrize_input)
    return EighResult(values, vectors)


@prepared
def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """The eigenvalues of symmetric or Hermitian matrices, in ascending order; see `eigh`.

    >>> import numpy as np
    >>> eigvalsh(np.array([[2.0, 0.0], [0.0, 1.0]]))
    Array([1., 2.], dtype=float64)
    """
    return eigh(a, UPLO, symmetrize_input).eigenvalues
