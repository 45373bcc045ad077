"""Equations with matrices, and functions of matrices, under SciPy's names."""

from __future__ import annotations

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.lax.binding import sequence
from tinyjax.numpy.linalg.intake import inexact
from tinyjax.prepared.functions import prepared, prepared_for_several
from tinyjax.scipy.linalg.decompositions import cholesky
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import ConcreteArray, as_array
from tinyjax.transforms.arguments import flag


@prepared
def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinants of square matrices.

    >>> import numpy as np
    >>> det(np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array(-2., dtype=float64)
    """
    return tnp.linalg.det(a)


@prepared
def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverses of square matrices.

    >>> import numpy as np
    >>> inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float64)
    """
    return tnp.linalg.inv(a)


@prepared
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: object = None,
    check_finite: bool = True,
) -> Array:
    """The solution x of `a @ x = b`, for a triangular matrix; of which 0 or "N" is the matrix itself, 1 or "T" its
    transpose, and 2 or "C" the conjugate of that.

    Raises:
      ChoiceError: `trans` is something else.

    >>> import numpy as np
    >>> solve_triangular(np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([4.0, 2.0]))
    Array([1., 2.], dtype=float64)
    """
    ways = {0: (False, False), 1: (True, False), 2: (True, True)}
    given: object = trans
    way = {"N": 0, "T": 1, "C": 2}.get(given, -1) if isinstance(given, str) else given
    if not isinstance(way, int | np.integer) or way not in ways:
        raise ChoiceError(f"Invalid 'trans' value {trans!r}: it is 0, 1 or 2, or 'N', 'T' or 'C'")
    x, y = _together(a, b)
    transpose, conjugate = ways[int(way)]
    right, vector = _columns(y)
    batch = tnp.broadcast_shapes(x.shape[:-2], right.shape[:-2])
    x, right = (tnp.broadcast_to(v, (*batch, *v.shape[-2:])) for v in (x, right))
    found = lax.linalg.triangular_solve(
        x, right, left_side=True, lower=lower, transpose_a=transpose, conjugate_a=conjugate,
        unit_diagonal=unit_diagonal,
    )  # fmt: skip
    return found[..., 0] if vector else found


def _together(a: ArrayLike, b: ArrayLike) -> tuple[Array, Array]:
    x, y = inexact(a), inexact(b)
    dtype = tnp.result_type(x, y)
    return x.astype(dtype), y.astype(dtype)


@prepared_for_several
def cho_solve(
    c_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True
) -> Array:
    """The solution x of `a @ x = b`, for what `cho_factor` returns of a. Axes before those of a matrix are broadcast.

    >>> import numpy as np
    >>> cho_solve((np.array([[2.0, 0.0], [0.0, 1.0]]), True), np.ones(2))
    Array([0.25, 1.  ], dtype=float64)
    """
    sequence("cho_solve: c_and_lower", c_and_lower, 2)
    factor = c_and_lower[0]
    given: object = c_and_lower[1]
    lower = flag("cho_solve: lower", given.item() if isinstance(given, Array) and not given.shape else given)
    right, vector = _columns(b)
    first = solve_triangular(factor, right, 0 if lower else 2, lower)
    found = solve_triangular(factor, first, 2 if lower else 0, lower)
    return found[..., 0] if vector else found


def _columns(b: ArrayLike) -> tuple[Array, bool]:
    """The right side as a matrix, which may be a vector; and whether it is one: solutions are, then."""
    y = tnp.asarray(b)
    return (y[:, None], True) if y.ndim == 1 else (y, False)


@prepared_for_several
def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """The solution x of `a @ x = b`, for what `lu_factor` returns of a; with `trans` 1 of its transpose, with 2 of the
    conjugate of that. Axes before those of a matrix are broadcast.

    Raises:
      ChoiceError: `trans` is something else.
      ShapeError: there are more or fewer unknowns than equations.

    >>> import numpy as np
    >>> lu_solve((np.array([[4.0, 0.0], [0.0, 2.0]]), np.array([1, 1], np.int32)), np.array([2.0, 4.0]))
    Array([1., 1.], dtype=float64)
    """
    given: object = trans
    if not isinstance(given, int | np.integer) or given not in (0, 1, 2):
        raise ChoiceError(f"'trans' value must be 0, 1, or 2, got {trans!r}")
    factors, pivots = (tnp.asarray(x) for x in sequence("lu_solve: lu_and_piv", lu_and_piv, 2))
    if factors.ndim < 2:
        raise ShapeError(f"lu_solve: factors are a matrix, got {factors.aval}")
    right, vector = _columns(b)
    if right.ndim < 2 or right.shape[-2] != factors.shape[-1]:
        raise ShapeError(
            f"lu_solve: {factors.shape[-1]} unknowns for a right side of shape {right.shape}; vectors for several "
            "matrices are matrices of one column each: b[..., None]"
        )
    order = lax.linalg.lu_pivots_to_permutation(pivots, factors.shape[-2])
    if not trans:
        found = solve_triangular(factors, _rows(right, order), lower=True, unit_diagonal=True)
        found = solve_triangular(factors, found)
    else:
        found = solve_triangular(factors, right, trans)
        found = solve_triangular(factors, found, trans, lower=True, unit_diagonal=True)
        found = _rows(found, tnp.argsort(order, -1))
    return found[..., 0] if vector else found


def _rows(x: Array, order: Array) -> Array:
    """The rows of matrices in these orders."""
    batch = tnp.broadcast_shapes(x.shape[:-2], order.shape[:-1])
    x, order = tnp.broadcast_to(x, (*batch, *x.shape[-2:])), tnp.broadcast_to(order, (*batch, order.shape[-1]))
    return tnp.take_along_axis(x, order[..., None], -2, "promise_in_bounds", wrap_negative_indices=False)


@prepared
def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """The solution x of `a @ x = b`. `assume_a` "pos" says that the matrices are positive definite, of which one
    triangle is read; for others it is "gen", "sym" or "her".

    Raises:
      ChoiceError: `assume_a` is something else.

    >>> import numpy as np
    >>> solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.ones(2), assume_a="pos")
    Array([0.5 , 0.25], dtype=float64)
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ChoiceError(f"Expected assume_a to be one of ['gen', 'sym', 'her', 'pos']; got {assume_a!r}")
    if assume_a != "pos":
        return tnp.linalg.solve(a, b)
    left, right = promote_inexact(as_array(a), as_array(b))
    return _solved_by_cholesky(left, right, lower)


def _solved_by_cholesky(a: Array, b: Array, lower: bool) -> Array:
    """Derivatives are those of the equation, as of any matrix, and need no other factors."""
    if isinstance(a, ConcreteArray) and isinstance(b, ConcreteArray):  # nobody asks for any
        return cho_solve((cholesky(a, lower), lower), b)
    factor = cholesky(lax.stop_gradient(a), lower)
    right, vector = _columns(b)
    batch = tnp.broadcast_shapes(a.shape[:-2], right.shape[:-2])

    def solved(matvec: object, y: Array) -> Array:
        return cho_solve((factor, lower), y)

    def solved_transposed(vecmat: object, y: Array) -> Array:  # a is its own adjoint
        return tnp.conj(cho_solve((factor, lower), tnp.conj(y)))

    whole = tnp.broadcast_to(right, (*batch, *right.shape[-2:]))
    found = lax.custom_linear_solve(lambda x: a @ x, whole, solved, solved_transposed)
    return found[..., 0] if vector else found
