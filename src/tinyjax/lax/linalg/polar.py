"""The polar decomposition, by an iteration that is dynamically weighted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tinyjax.arrays.elementwise import constant_like, convert, where
from tinyjax.arrays.reductions import max as maximum
from tinyjax.arrays.reductions import sum as summed
from tinyjax.arrays.shaping import integer
from tinyjax.errors import InputError, ShapeError, TypingError
from tinyjax.ir.dtypes import BOOL, COMPLEX64, COMPLEX128, FLOAT32, FLOAT64, INT32
from tinyjax.lax.binding import sequence
from tinyjax.lax.linalg.factorizations import qr
from tinyjax.lax.linalg.parts import adjoint
from tinyjax.lax.linalg.triangular import cholesky, triangular_solve
from tinyjax.lax.loops import while_loop
from tinyjax.lax.shaping import broadcasted_iota, concatenate, full
from tinyjax.lax.unary import abs as magnitude
from tinyjax.lax.unary import rsqrt, sqrt
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

#: Weights above which the equations are too ill-conditioned for Cholesky factors.
_LARGE = 100.0
_EPS: Final = {FLOAT32: 2.0**-23, COMPLEX64: 2.0**-23, FLOAT64: 2.0**-52, COMPLEX128: 2.0**-52}
#: What the weights tend to.
_HALLEY = (3.0, 1.0, 3.0)


def _number(eps: object) -> float:
    if not isinstance(eps, float | int | np.floating | np.integer) or not eps > 0:
        raise InputError(f"qdwh: eps is a number greater than 0, got {eps!r}")
    return float(eps)


def qdwh(
    x: ArrayLike,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[ArrayLike, ArrayLike] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """The polar decomposition U H of a matrix of full rank and at least as many rows as columns: U with orthonormal
    columns, and H positive definite; and the number of iterations, and whether they have converged.

    It is found by a dynamically weighted Halley iteration, until steps are below `(5 eps)**(1/3)`, or after
    `max_iterations`, by default 10. `is_hermitian` says nothing. Where only the upper left part of `x` is the matrix,
    `dynamic_shape` is its shape, which may be traced; the rest counts as zero.

    Raises:
      ShapeError: `x` isn't a matrix, or has fewer rows than columns.
      TypingError: it isn't of float32, float64, complex64 or complex128.

    >>> import numpy as np
    >>> u, h, iterations, converged = qdwh(np.array([[0.0, -2.0], [1.0, 0.0]]))
    >>> np.round(u, 6) + 0.0, np.round(h, 6) + 0.0, converged
    (Array([[ 0., -1.],
           [ 1.,  0.]], dtype=float64), Array([[1., 0.],
           [0., 2.]], dtype=float64), Array(True, dtype=bool))
    """
    a = as_array(x)
    if a.aval.ndim != 2 or a.aval.shape[0] < a.aval.shape[1]:
        raise ShapeError(f"qdwh: a matrix with at least as many rows as columns is needed, got {a.aval}")
    if a.aval.dtype not in _EPS:
        raise TypingError(f"qdwh: a matrix of float32, float64, complex64 or complex128 is needed, got {a.aval}")
    if dynamic_shape is not None:
        rows, columns = sequence("qdwh: dynamic_shape", dynamic_shape, 2)
        a = _within(a, as_array(rows), as_array(columns))
    precision = _EPS[a.aval.dtype] if eps is None else _number(eps)
    most = 10 if max_iterations is None else integer(max_iterations, "qdwh: max_iterations")
    size = magnitude(a)
    norms = maximum(summed(size, 0)), maximum(summed(size, 1))
    u = a * convert(where(norms[0] == 0, constant_like(norms[0], 1), rsqrt(norms[0]) * rsqrt(norms[1])), a.aval.dtype)
    weights = list(_weights(precision, most))
    moving = full((), True, BOOL)
    for weight in weights:
        u, moved = _step(u, weight, precision)
        if weight[2] <= _LARGE:  # those before are far from the end, however little changes in one of them
            moving = moved

    def going(state: tuple[Array, Array, Array]) -> Array:
        return state[2] & (state[0] < most)

    def once(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        after, moving = _step(state[1], _HALLEY, precision)
        return state[0] + 1, after, moving

    iterations, u, moving = while_loop(going, once, (as_array(len(weights)), u, moving))
    u = 1.5 * u - 0.5 * (u @ (adjoint(u) @ u))
    h = adjoint(u) @ a
    return u, (h + adjoint(h)) / 2, iterations, ~moving


def _within(x: Array, rows: Array, columns: Array) -> Array:
    """The matrix with zeros but for so many rows and columns."""
    row, column = (broadcasted_iota(INT32, x.aval.shape, axis) for axis in (0, 1))
    return where((row < rows) & (column < columns), x, constant_like(x, 0))


def _weights(eps: float, most: int) -> Iterator[tuple[float, float, float]]:
    """The weights of each step, as long as they change; `least` is a bound of the singular values from below."""
    least = eps
    for _ in range(most):
        if least + 5 * eps >= 1:
            return
        square = least * least
        d = (4 * (1 / square - 1) / square) ** (1 / 3)
        root = (1 + d) ** 0.5
        a = root + (2 - d + 2 * (2 - square) / (square * root)) ** 0.5
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        yield a, b, c
        least *= (a + b * square) / (1 + c * square)


def _step(u: Array, weights: tuple[float, float, float], eps: float) -> tuple[Array, Array]:
    """A step of the iteration, and whether it was one of more than rounding."""
    a, b, c = weights
    rows, columns = u.aval.shape
    eye = convert(
        broadcasted_iota(INT32, (columns,) * 2, 0) == broadcasted_iota(INT32, (columns,) * 2, 1), u.aval.dtype
    )
    if c > _LARGE:
        q, _ = qr(concatenate([c**0.5 * u, eye], 0), full_matrices=False)
        part, factor = q[:rows] @ adjoint(q[rows:]), (a - b / c) / c**0.5
    else:
        lower = cholesky(c * (adjoint(u) @ u) + eye, symmetrize_input=False)
        half = triangular_solve(lower, adjoint(u), left_side=True, lower=True)
        whole = triangular_solve(lower, half, left_side=True, lower=True, transpose_a=True, conjugate_a=True)
        part, factor = adjoint(whole), a - b / c
    after = b / c * u + factor * part
    change = magnitude(after - u)
    return after, sqrt(summed(change * change)) > (5 * eps) ** (1 / 3)
