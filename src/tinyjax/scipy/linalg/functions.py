"""Functions of matrices, as power series have them: exponential, square root, and any other; and Sylvester's equation,
which the derivative of the root is made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.autodiff import jvp
from tinyjax.api.rules.custom_jvp import custom_jvp
from tinyjax.arrays.shaping import integer
from tinyjax.errors import ChoiceError, ShapeError, UnsupportedDtypeError, UnsupportedError
from tinyjax.ir.dtypes import COMPLEXES, real_dtype
from tinyjax.numpy.linalg.intake import inexact
from tinyjax.prepared.functions import prepared_with_loops
from tinyjax.scipy.linalg.spectral import rsf2csf, schur
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.transforms.arguments import function

#: The coefficients of the approximation of exp by a quotient, from the constant on.
_COEFFICIENTS = [math.factorial(26 - k) * math.factorial(13) / (
    math.factorial(26) * math.factorial(k) * math.factorial(13 - k)) for k in range(14)]  # fmt: skip
#: The norm up to which it is as exact as the dtype.
_NORMS = {"float32": 3.925724783138660, "float64": 5.371920351148152}


def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The exponential of square matrices: by a quotient of polynomials of the matrix divided by a power of 2, squared
    as often. nan where it would be squared more than `max_squarings` times and, since JAX rounds that down, once more;
    and everywhere if that is negative.
    `upper_triangular` is taken, and says nothing.

    Raises:
      ShapeError: the matrices aren't square.
      UnsupportedDtypeError: their elements have less than 32 bits.

    >>> import numpy as np
    >>> expm(np.array([[0.0, 1.0], [0.0, 0.0]]))
    Array([[1., 1.],
           [0., 1.]], dtype=float64)
    """
    x = inexact(A)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"Expected A to be a (batched) square matrix, got {x.aval}")
    if real_dtype(x.dtype).name not in _NORMS:
        raise UnsupportedDtypeError(
            f"Unsupported dtype {x.dtype.name}: expm needs floats of 32 bits or more. Convert the matrix first: "
            'A.astype("float32").'
        )
    return _expm(x, integer(max_squarings, "expm: max_squarings"))


@prepared_with_loops
def _expm(x: Array, most: int) -> Array:
    one = tnp.eye(x.shape[-1], dtype=x.dtype)
    size = tnp.linalg.matrix_norm(lax.stop_gradient(x), ord=1)
    limit = _NORMS[size.dtype.name]
    halvings = tnp.log2(tnp.maximum(size, limit) / limit)[..., None, None]
    count = tnp.ceil(halvings)
    beyond = tnp.floor(halvings) > most
    # What is nan anyway depends on no element: squares of what is large would be infinite, and derivatives nan.
    x = tnp.where(beyond & (halvings < np.inf), 0, x)
    scaled = x / (2.0**count).astype(x.dtype)
    square = scaled @ scaled
    even, odd, power = one * _COEFFICIENTS[0], one * _COEFFICIENTS[1], one
    for k in range(2, 14, 2):
        power = power @ square
        even, odd = even + _COEFFICIENTS[k] * power, odd + _COEFFICIENTS[k + 1] * power
    odd = scaled @ odd
    found = tnp.linalg.solve(even - odd, even + odd)

    def squared(x: Array, k: Array) -> tuple[Array, None]:
        left = k < count
        return lax.cond(tnp.any(left), lambda x: tnp.where(left, x @ x, x), lambda x: x, x), None

    found, _ = lax.scan(squared, found, np.arange(max(most + 1, 0)))
    return tnp.where(beyond, np.nan, found)


def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True
) -> Array | tuple[Array, Array]:
    """The exponential of square matrices, if `compute_expm`, and its derivative in the direction E. `method` says
    nothing.

    Raises:
      ShapeError: the matrices aren't square, or of different shapes.

    >>> import numpy as np
    >>> expm_frechet(np.zeros((2, 2)), np.ones((2, 2)), compute_expm=False)
    Array([[1., 1.],
           [1., 1.]], dtype=float64)
    """
    x, direction = inexact(A), inexact(E)
    for name, matrix in (("A", x), ("E", direction)):
        if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
            raise ShapeError(f"expected {name} to be a (batched) square matrix, got {matrix.aval}")
    if x.shape != direction.shape:
        raise ShapeError(f"expected A and E to be the same shape, got {x.aval} and {direction.aval}")
    kind = tnp.result_type(x, direction)
    found = _with_derivative(x.astype(kind), direction.astype(kind))
    return found if compute_expm else found[1]


@prepared_with_loops
def _with_derivative(x: Array, direction: Array) -> tuple[Array, Array]:
    return jvp(expm, (x,), (direction,))


def solve_sylvester(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8
) -> Array:  # fmt: skip
    """The solution X of `A @ X + X @ B = C`, for square A and B. Leading axes are broadcast.

    By Schur forms of A and B, or by their "eigen" vectors, which is less exact where these are nearly dependent. nan
    where an eigenvalue of A and one of B add up to less than `tol`, as there may be no solution. Derivatives are those
    of the equation.

    Raises:
      ShapeError: the matrices don't fit.
      ChoiceError: there is no such method.

    >>> import numpy as np
    >>> solve_sylvester(np.eye(2), 3 * np.eye(2), np.ones((2, 2)))
    Array([[0.25, 0.25],
           [0.25, 0.25]], dtype=float64)
    """
    given = [inexact(x) for x in (A, B, C)]
    kind = tnp.result_type(*given)
    a, b, c = (x.astype(kind) for x in given)
    listed = f"A: {a.aval}, B: {b.aval}, C: {c.aval}"
    if min(a.ndim, b.ndim, c.ndim) < 2:
        raise ShapeError(f"solve_sylvester takes matrices, got {listed}")
    m, n = c.shape[-2:]
    if a.shape[-2:] != (m, m) or b.shape[-2:] != (n, n):
        raise ShapeError(f"Incompatible shapes for Sylvester equation: {listed}")
    if method not in ("schur", "eigen"):
        raise ChoiceError(f'Unrecognized method {method}. The two valid methods are either "schur" or "eigen".')
    return _sylvester(a, b, c, as_array(tol), method)


@prepared_with_loops
def _sylvester(a: Array, b: Array, c: Array, least: Array, method: str) -> Array:
    solver = _by_schur if method == "schur" else _by_vectors

    def solved(a: Array, b: Array, c: Array) -> Array:
        found, sums = solver(*(x.astype(tnp.result_type(x, np.complex64)) for x in (a, b, c)))
        value = found if c.dtype in COMPLEXES else found.real
        return tnp.where(tnp.min(tnp.abs(sums), initial=np.inf) < least, np.nan, value)

    def solution(a: Array, b: Array, c: Array) -> Array:
        return lax.custom_linear_solve(
            lambda x: a @ x + x @ b, c, lambda _, y: solved(a, b, y), lambda _, y: solved(a.mT, b.mT, y)
        )

    result: Array = tnp.vectorize(solution, signature="(m,m),(n,n),(m,n)->(m,n)")(a, b, c)
    return result


def _by_schur(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """The solution, and the sums of eigenvalues: column after column in the bases of both Schur forms."""
    (r, u), (s, v) = schur(a), schur(b)
    right = u.mT.conj() @ c @ v
    one = tnp.eye(r.shape[-1], dtype=r.dtype)

    def column(j: Array, y: Array) -> Array:  # the columns from j on are zeros yet
        known = right[:, j] - y @ s[:, j]
        found = lax.linalg.triangular_solve(r + s[j, j] * one, known[:, None], left_side=True)
        return y.at[:, j].set(found[:, 0])

    y = lax.fori_loop(0, right.shape[-1], column, tnp.zeros_like(right)) if right.size else right
    return u @ y @ v.mT.conj(), tnp.diagonal(r)[:, None] + tnp.diagonal(s)


def _by_vectors(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    (p, u), (q, v) = tnp.linalg.eig(a), tnp.linalg.eig(b)
    sums = p[:, None] + q
    y = tnp.linalg.solve(u, c @ v) / sums
    return tnp.linalg.solve(v.mT, (u @ y).mT).mT, sums


def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The square root of square matrices whose eigenvalues have no negative real part: complex numbers. By the Schur
    form; derivatives are those of the equation `X @ X = A`.

    Raises:
      ShapeError: the matrices aren't square.
      UnsupportedError: `blocksize` is more than 1.

    >>> import numpy as np
    >>> sqrtm(np.array([[4.0, 0.0], [0.0, 9.0]]))
    Array([[2.+0.j, 0.+0.j],
           [0.+0.j, 3.+0.j]], dtype=complex128)
    """
    if integer(blocksize, "sqrtm: blocksize") > 1:
        raise UnsupportedError("sqrtm: Blocked version is not implemented yet; take blocksize=1")
    x = inexact(A)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"sqrtm: Input 'A' must be square, of shape (..., n, n); got {x.aval}")
    return _roots(x)


@prepared_with_loops
def _roots(x: Array) -> Array:
    found: Array = tnp.vectorize(_root, signature="(n,n)->(n,n)")(x.astype(tnp.result_type(x, np.complex64)))
    return found


def _leading(upper: Array, values: Array, right: Array, j: Array) -> Array:
    """The solution of the first j rows of a triangular equation with these values on the diagonal; zeros stand for 1,
    and the other rows are 0."""
    before = np.arange(upper.shape[-1]) < j
    triangle = tnp.where(before[:, None] & before, tnp.triu(upper, 1), 0)
    diagonal = tnp.diag(tnp.where(before & (values != 0), values, 1))
    known = tnp.where(before, right, 0)
    return lax.linalg.triangular_solve(triangle + diagonal, known[:, None], left_side=True)[:, 0]


@custom_jvp
def _root(x: Array) -> Array:
    if not x.size:
        return x
    form, vectors = lax.linalg.schur(x)
    values = lax.sqrt(tnp.diagonal(form))

    def column(j: Array, root: Array) -> Array:
        """(R + r) c = t, for the columns R before, the number r on the diagonal and the column t of the form."""
        sums = values + values[j]
        found = _leading(root, sums, form[:, j], j)
        return root.at[:, j].add(tnp.where((sums == 0) & (found != 0), np.inf, found))

    root = lax.fori_loop(0, form.shape[-1], column, tnp.diag(values))
    return vectors @ root @ vectors.mT.conj()


@_root.defjvp
def _root_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    root = _root(x)
    return root, solve_sylvester(root, root, t, tol=0.0)


def funm(
    A: ArrayLike, func: Callable[[Array], Array], disp: bool = True
) -> Array | tuple[Array, Array]:  # fmt: skip
    """A function of a square matrix: complex numbers, with the matrix's eigenvectors, and `func` of its eigenvalues. If
    not `disp`, an estimate of the error too.

    By the Schur form and B. Parlett's recurrence, which wants eigenvalues that differ. Derivatives are those in A, if
    `func` has one at complex numbers.

    Raises:
      ShapeError: the matrix isn't square.

    >>> import numpy as np
    >>> funm(np.array([[0.0, 1.0], [0.0, 1.0]]), tnp.exp)
    Array([[1.        +0.j, 1.71828183+0.j],
           [0.        +0.j, 2.71828183+0.j]], dtype=complex128)
    """
    x = inexact(A)
    if x.ndim != 2 or x.shape[0] != x.shape[1]:
        raise ShapeError(f"expected square array_like input, got {x.aval}")
    function("funm: func", func)
    value, error = _applied(func, x)
    return value if disp else (value, error)


@partial(custom_jvp, nondiff_argnums=(0,))
def _applied(func: Callable[[Array], Array], x: Array) -> tuple[Array, Array]:
    # The real eigenvalues of a real matrix have no imaginary part, so that it is known on what side of a cut they lie.
    form, vectors = schur(x) if x.dtype in COMPLEXES else rsf2csf(*schur(x))
    values = tnp.diagonal(form)
    return _recurrence(form, vectors, as_array(func(values)).astype(form.dtype))


@prepared_with_loops
def _recurrence(form: Array, vectors: Array, images: Array) -> tuple[Array, Array]:
    """The function of a triangular form, in the basis of its vectors, and an estimate of the error."""
    size, values = form.shape[-1], tnp.diagonal(form)

    def column(j: Array, found: Array) -> Array:
        """(T - t) c = (F - f) t, for the columns F before, the image f on the diagonal and the column t of the form."""
        above = tnp.where(np.arange(size) < j, form[:, j], 0)
        return found.at[:, j].add(_leading(form, values - values[j], found @ above - images[j] * above, j))

    found = lax.fori_loop(0, size, column, tnp.diag(images))
    gaps = tnp.where(np.eye(size, dtype=bool), np.inf, tnp.abs(values[:, None] - values))
    least, tiny = tnp.min(tnp.abs(values[:1]), initial=np.inf), tnp.finfo(form.dtype).eps
    least = tnp.minimum(least, tnp.min(gaps, initial=np.inf))
    relative = tiny / tnp.where(least == 0, tiny, least)
    estimate = tnp.clip(relative * tnp.linalg.norm(tnp.triu(form, 1), 1), tiny, 1)
    result = vectors @ found @ vectors.mT.conj()
    return result, tnp.where(tnp.any(tnp.isinf(result)), np.inf, estimate)


@_applied.defjvp
def _applied_jvp(
    func: Callable[[Array], Array], primals: tuple[Array], tangents: tuple[Array]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """In the basis of eigenvectors, elements of the tangent times divided differences of the function."""
    (x,), (t,) = primals, tangents
    value, error = _applied(func, x)
    values, vectors = lax.linalg.eig(x, compute_left_eigenvectors=False, enable_eigvec_derivs=True)
    images, slopes = jvp(func, (values,), (tnp.ones_like(values),))
    gaps = values[:, None] - values
    equal = gaps == 0
    quotients = tnp.where(equal, slopes, (images[:, None] - images) / tnp.where(equal, 1, gaps))
    inner = tnp.linalg.solve(vectors, t.astype(vectors.dtype) @ vectors)
    changed = vectors @ tnp.linalg.solve(vectors.mT, (quotients * inner).mT).mT
    return (value, error), (changed, tnp.zeros_like(error))
