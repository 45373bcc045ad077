"""Eigenvalues and triangular forms under SciPy's names. Nothing is overwritten, and nothing is asked of the elements:
`overwrite_a` and `check_finite` are taken, and say nothing."""

from __future__ import annotations

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import ChoiceError, ShapeError, TypingError, UnsupportedError
from tinyjax.ir.dtypes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64
from tinyjax.numpy.linalg.intake import inexact
from tinyjax.prepared.functions import prepared, prepared_with_loops
from tinyjax.tracing.array import Array, ArrayLike


@prepared
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Array | tuple[Array, Array]:
    """The eigenvalues of symmetric or Hermitian matrices, in ascending order, and eigenvectors as columns; or, if
    `eigvals_only`, the values alone. See `numpy.linalg.eigh`. `turbo` says nothing.

    Raises:
      UnsupportedError: `b`, another `type` or `eigvals` ask for generalised problems, or for a part.

    >>> import numpy as np
    >>> eigh(np.array([[2.0, 0.0], [0.0, 1.0]]), eigvals_only=True)
    Array([1., 2.], dtype=float64)
    """
    if b is not None or type != 1:
        raise UnsupportedError(
            "eigh: generalised problems, with b or another type than 1, aren't supported; for a positive definite b "
            "with factor l = cholesky(b, lower=True), take eigh(solve_triangular(l, solve_triangular(l, a, "
            "lower=True).mT.conj(), lower=True))"
        )
    if eigvals is not None:
        raise UnsupportedError("eigh: a part of the eigenvalues isn't supported; take eigvals=None and a slice")
    vectors, values = lax.linalg.eigh(inexact(a), lower=lower)
    return values if eigvals_only else (values, vectors)


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Array | None = None,
) -> Array | tuple[Array, Array]:
    """The eigenvalues of a symmetric or Hermitian tridiagonal matrix, in ascending order, and eigenvectors as columns;
    or, if `eigvals_only`, the values alone.

    `d` is its diagonal, of which the real part is taken, and `e` the one above. `select` "a" takes all values, and "i"
    those from the first index of `select_range` to the last one. They are found exactly: `tol` and `key` say nothing.

    Raises:
      TypingError: the diagonals aren't of the same dtype of floats or complex numbers.
      ShapeError: the second one isn't shorter by one element.
      ChoiceError: there is no such selection, or its range is missing or empty.
      UnsupportedError: values are selected by a range of them.

    >>> import numpy as np
    >>> eigh_tridiagonal(np.array([1.0, 1.0]), np.array([2.0]), eigvals_only=True)
    Array([-1.,  3.], dtype=float64)
    """
    main, above = tnp.asarray(d), tnp.asarray(e)
    if main.dtype != above.dtype:
        raise TypingError(
            f"eigh_tridiagonal: diagonal and off-diagonal values must have same dtype, got {main.aval} and {above.aval}"
        )
    if main.dtype not in (FLOAT32, FLOAT64, COMPLEX64, COMPLEX128):
        raise TypingError(
            "eigh_tridiagonal: Only float32 and float64 inputs are supported as inputs, or complex ones, got "
            f"{main.aval} and {above.aval}"
        )
    if main.ndim != 1 or above.shape != (max(main.size - 1, 0),):
        raise ShapeError(
            f"eigh_tridiagonal takes a diagonal of n elements and one of n - 1, got {main.aval} and {above.aval}"
        )
    size = main.size
    picked = _selection(size, select, select_range)
    beside = tnp.diag(above, 1)[:size, :size]
    matrix = tnp.diag(main.real.astype(main.dtype)) + beside + beside.mT.conj()
    vectors, values = lax.linalg.eigh(matrix, symmetrize_input=False)
    return values[picked] if eigvals_only else (values[picked], vectors[:, picked])


def _selection(size: int, select: str, bounds: tuple[float, float] | None) -> slice:
    if select == "a":
        return slice(None)
    if select == "v":
        raise UnsupportedError(
            "eigh_tridiagonal(..., select='v') is not implemented, as the number of values isn't known: take them all, "
            "and select some"
        )
    if select != "i":
        raise ChoiceError(f"eigh_tridiagonal: 'select must have a value in {{'a', 'i', 'v'}}, got {select!r}")
    if bounds is None:
        raise ChoiceError("eigh_tridiagonal: for select='i', select_range must be specified.")
    first, last = (int(bound) for bound in bounds)
    if first > last:
        raise ChoiceError(f"eigh_tridiagonal: Got empty index range in select_range, {bounds}")
    if first < 0 or last >= size:
        raise ChoiceError(f"eigh_tridiagonal: select_range {bounds} is outside of 0 to {size - 1}")
    return slice(first, last + 1)


@prepared
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
    if output == "complex":
        x = x.astype(tnp.result_type(x, np.complex64))
    form, vectors = lax.linalg.schur(x)
    return form, vectors


def _square(name: str, **matrices: Array) -> None:
    for role, x in matrices.items():
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ShapeError(f"{name}: Input {role!r} must be square, of shape (..., n, n); got {x.aval}")


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The complex Schur form and its vectors, from the real one: each block of size 2 on the diagonal is made
    triangular by a rotation.

    Raises:
      ShapeError: the matrices aren't square, or of different size.

    >>> import numpy as np
    >>> form, _ = rsf2csf(*schur(np.array([[1.0, 2.0], [-2.0, 1.0]])))
    >>> np.diag(form)
    array([1.+2.j, 1.-2.j])
    """
    form, vectors = inexact(T), inexact(Z)
    _square("rsf2csf", T=form, Z=vectors)
    if form.shape[-1] != vectors.shape[-1]:
        raise ShapeError(f"rsf2csf: Input array shapes must match: Z: {vectors.aval} vs. T: {form.aval}")
    return _complex_form(form, vectors)


@prepared_with_loops
def _complex_form(form: Array, vectors: Array) -> tuple[Array, Array]:
    kind = tnp.result_type(form, vectors, np.complex64)
    found: tuple[Array, Array] = tnp.vectorize(_triangular, signature="(n,n),(n,n)->(n,n),(n,n)")(
        form.astype(kind), vectors.astype(kind)
    )
    return found


def _triangular(form: Array, vectors: Array) -> tuple[Array, Array]:
    size, kind = form.shape[-1], form.dtype
    if size < 2:
        return form, vectors
    precise = tnp.finfo(kind).eps
    places = np.arange(size)

    def step(i: Array, both: tuple[Array, Array]) -> tuple[Array, Array]:
        t, z = both
        m = size - i
        first = m - 1
        block = lax.dynamic_slice(t, (first, first), (2, 2))
        (a, _), (below, d) = ((block[0, 0], block[0, 1]), (block[1, 0], block[1, 1]))
        coupled = tnp.abs(below) > precise * (tnp.abs(a) + tnp.abs(d))
        shifted = tnp.linalg.eigvals(tnp.where(coupled, block, tnp.eye(2, dtype=kind)))[0] - d
        length = tnp.sqrt(tnp.abs(shifted) ** 2 + tnp.abs(below) ** 2)
        safe = tnp.where(coupled, length, 1).astype(kind)
        c, s = tnp.where(coupled, shifted / safe, 1), tnp.where(coupled, below / safe, 0)
        turn = tnp.stack([tnp.stack([c.conj(), s]), tnp.stack([-s, c])])
        rows = lax.dynamic_slice_in_dim(t, first, 2, 0)
        t = lax.dynamic_update_slice_in_dim(t, tnp.where(places >= first, turn @ rows, rows), first, 0)
        columns = lax.dynamic_slice_in_dim(t, first, 2, 1)
        changed = tnp.where((places < m + 1)[:, None], columns @ turn.mT.conj(), columns)
        t = lax.dynamic_update_slice_in_dim(t, changed, first, 1).at[m, first].set(0)
        z = lax.dynamic_update_slice_in_dim(z, lax.dynamic_slice_in_dim(z, first, 2, 1) @ turn.mT.conj(), first, 1)
        return t, z

    return lax.fori_loop(1, size, step, (form, vectors))


@prepared
def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array | tuple[Array, Array]:
    """The Hessenberg form H of square matrices, A = Q H Qᴴ, which has zeros below the first diagonal under the main
    one; and Q, if `calc_q`.

    >>> import numpy as np
    >>> hessenberg(np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([[1., 2.],
           [3., 4.]], dtype=float64)
    """
    x = inexact(a)
    _square("hessenberg", a=x)
    if not x.shape[-1]:
        return (x, x) if calc_q else x
    reduced, taus = lax.linalg.hessenberg(x)
    form = tnp.triu(reduced, -1)
    if not calc_q:
        return form
    inner = lax.linalg.householder_product(reduced[..., 1:, :-1], taus)
    padding = [(0, 0)] * (x.ndim - 2) + [(1, 0), (1, 0)]
    corner = tnp.zeros(x.shape[-2:], x.dtype).at[0, 0].set(1)
    return form, tnp.pad(inner, padding) + corner
