"""Eigenvalues and singular values, and the forms that lead to them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar, overload

from tinyjax.errors import ChoiceError, UnsupportedError
from tinyjax.lax.linalg.parts import symmetrized
from tinyjax.primitives import spectral
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.transforms.arguments import flag

EigImplementation: TypeAlias = spectral.EigImplementation
EighImplementation: TypeAlias = spectral.EighImplementation
SvdAlgorithm: TypeAlias = spectral.SvdAlgorithm
_E = TypeVar("_E", bound=enum.Enum)


def _way(what: str, given: object, ways: type[_E]) -> _E | None:
    """One of the ways to compute, also JAX's of the same name; None for the default one."""
    if given is None or isinstance(given, ways):
        return given
    if isinstance(given, enum.Enum) and type(given).__name__ == ways.__name__ and given.name in ways.__members__:
        return ways[given.name]
    listed = ", ".join(f"{ways.__name__}.{name}" for name in ways.__members__)
    raise ChoiceError(f"{what} is None or one of {listed}, not {given!r}")


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """The eigenvectors, as columns, and the eigenvalues, in ascending order, of symmetric or Hermitian matrices.

    Of `x` the mean with its conjugate transpose is taken, or, if not `symmetrize_input`, one triangle: the lower one if
    `lower`. Derivatives are those of eigenvalues that differ. nan where they can't be computed.

    Raises:
      UnsupportedError: `subset_by_index` asks for a part.
      ChoiceError: there is no such implementation.

    >>> import numpy as np
    >>> eigh(np.array([[2.0, 0.0], [0.0, 1.0]]))[1]
    Array([1., 2.], dtype=float64)
    """
    mean = flag("eigh: symmetrize_input", symmetrize_input)
    given = symmetrized(as_array(x)) if mean else as_array(x)
    by = _way("eigh: implementation", implementation, EighImplementation)
    vectors, values = bind(spectral.Eigh(lower, sort_eigenvalues, subset_by_index, by), given)
    return vectors, values


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """The eigenvalues of square matrices, then left and right eigenvectors as columns, if they are asked for.

    All are complex. Vectors have length 1, and their largest element is real: derivatives keep it so, where no other
    element is as large, and are there only if `enable_eigvec_derivs`. nan where they can't be computed. `use_magma` is
    an older way to say that the implementation is MAGMA, or LAPACK.

    Raises:
      ChoiceError: there is no such implementation.

    >>> import numpy as np
    >>> eig(np.array([[0.0, 1.0], [-1.0, 0.0]]), compute_left_eigenvectors=False)[0]
    Array([0.+1.j, 0.-1.j], dtype=complex128)
    """
    by = _way("eig: implementation", implementation, EigImplementation)
    if use_magma is not None:
        by = EigImplementation.MAGMA if flag("eig: use_magma", use_magma) else EigImplementation.LAPACK
    finding = spectral.Eig(compute_left_eigenvectors, compute_right_eigenvectors, enable_eigvec_derivs, by)
    return list(bind(finding, as_array(x)))


@overload
def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> tuple[Array, Array, Array]: ...


@overload
def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: Literal[False],
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Array: ...


@overload
def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Array | tuple[Array, Array, Array]: ...


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Array | tuple[Array, Array, Array]:
    """The factors of A = U diag(s) Vᴴ: U, the singular values s, in descending order, and Vᴴ; or s alone.

    U and Vᴴ are square if `full_matrices`; else they have as many columns and rows as there are values. Derivatives are
    those of values that differ, and of square factors only if A is square. nan where they can't be computed.

    Raises:
      UnsupportedError: `subset_by_index` asks for a part.
      ChoiceError: there is no such algorithm.

    >>> import numpy as np
    >>> svd(np.array([[3.0, 0.0], [0.0, -4.0]]), compute_uv=False)
    Array([4., 3.], dtype=float64)
    """
    by = _way("svd: algorithm", algorithm, SvdAlgorithm)
    s, *factors = bind(spectral.Svd(full_matrices, compute_uv, subset_by_index, by), as_array(x))
    return (factors[0], s, factors[1]) if factors else s


@overload
def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: Literal[True] = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., bool] | None = None,
) -> tuple[Array, Array]: ...


@overload
def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., bool] | None = None,
) -> tuple[Array, ...]: ...


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., bool] | None = None,
) -> tuple[Array, ...]:
    """The Schur form T of square matrices, A = Q T Qᴴ, and Q, if `compute_schur_vectors`.

    T is upper triangular, but that of a real matrix has blocks of size 2 on its diagonal for pairs of complex
    eigenvalues.

    Raises:
      UnsupportedError: eigenvalues are to be sorted.

    >>> import numpy as np
    >>> schur(np.array([[1.0, 2.0], [0.0, 3.0]]))[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float64)
    """
    if select_callable is not None:
        raise UnsupportedError("schur: select_callable is not supported: eigenvalues aren't sorted")
    return tuple(bind(spectral.Schur(compute_schur_vectors, sort_eig_vals), as_array(x)))


def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """The Hessenberg form of square matrices, and the factors of the reflections that lead to it.

    The form is on and above the first diagonal below the main one. Below that are the vectors of the reflections, as
    `householder_product` takes them.

    >>> import numpy as np
    >>> hessenberg(np.array([[1.0, 2.0], [3.0, 4.0]]))[0]
    Array([[1., 2.],
           [3., 4.]], dtype=float64)
    """
    form, taus = bind(spectral.Hessenberg(), as_array(a))
    return form, taus


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """The tridiagonal form of symmetric or Hermitian matrices, of which one triangle is read: the lower one if `lower`.

    Returns that triangle with the form on two diagonals, and vectors of reflections beyond; the main diagonal; the one
    beside it; and the factors of the reflections, as `householder_product` takes them.

    >>> import numpy as np
    >>> tridiagonal(np.array([[1.0, 2.0], [2.0, 4.0]]))[1]
    Array([1., 4.], dtype=float64)
    """
    reduced, diagonal, beside, taus = bind(spectral.Tridiagonal(lower), as_array(a))
    return reduced, diagonal, beside, taus
