"""The largest eigenvalues of a Hermitian matrix that may be known by its products only, by LOBPCG.

Each step looks for the best eigenvectors among three blocks of directions: those that there are, their residuals, and
how they moved last. The blocks are orthonormal, so that no step divides by what cancels near convergence; a direction
that depends on the others becomes zero, and takes no part.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import SupportsIndex

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import DtypeError, InputError, ShapeError
from tinyjax.ir.dtypes import INEXACT
from tinyjax.lax import Precision
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

#: A step's number, the eigenvectors, how they moved, what the matrix makes of the eigenvectors, and the eigenvalues.
_State = tuple[Array, Array, Array, Array, Array]


def lobpcg_standard(
    A: ArrayLike | Callable[[Array], Array],  # noqa: N803
    X: ArrayLike,  # noqa: N803
    m: SupportsIndex = 100,
    tol: ArrayLike | None = None,
) -> tuple[Array, Array, Array]:
    """The largest eigenvalues of a Hermitian matrix, in descending order, their eigenvectors, and the number of steps.

    Args:
      A: the matrix (n, n), or a function from (n, j) to its products with j vectors.
      X: where to begin: (n, k), of independent columns, for the k largest eigenvalues; 5 k < n.
      m: how many steps are taken at most.
      tol: an eigenvalue t with the vector v is found when A v - t v is shorter than 10 n `tol` (|t| + |A v|). By
        default the distance of 1 from the next float of the dtype. With 0, all steps are taken.

    There are forward derivatives only.

    Raises:
      ShapeError: sizes don't fit.
      DtypeError: A and X don't have the same floating-point or complex dtype.

    >>> import numpy as np
    >>> values, vectors, steps = lobpcg_standard(np.diag(np.arange(12.0)), np.ones((12, 1)))
    >>> values.round(3).tolist(), abs(vectors[:, 0]).round(3)[-2:].tolist()
    ([11.0], [0.0, 1.0])
    """
    start, steps = as_array(X), index(m)
    if callable(A) and not isinstance(A, Array):
        product = A
    else:
        product = _product(as_array(A), start)
    n, k = _checked(product, start)
    epsilon = float(tnp.finfo(start.dtype).eps)
    limit = tnp.asarray(10 * n * (epsilon if tol is None else as_array(tol)), dtype=start.real.dtype)

    def better(directions: Array, present: Array) -> tuple[Array, Array, Array]:
        """The best eigenvectors in a space, as combinations of its orthonormal directions, with their values."""
        images = product(directions)
        inner = _times(directions.conj().T, images)
        inner = (inner + inner.conj().T) / 2
        lowest = -2 * tnp.abs(inner).sum(axis=0).max() - 1  # absent directions come last, whatever the signs are
        inner = inner + tnp.diag(tnp.where(present, 0, lowest)).astype(inner.dtype)
        values, vectors = tnp.linalg.eigh(inner, symmetrize_input=False)
        return values[::-1][:k], vectors[:, ::-1][:, :k], images

    def residuals(state: _State) -> Array:
        _, x, _, image, values = state
        return image - x * values.astype(x.dtype)

    def goes_on(state: _State) -> Array:
        step, _, _, image, values = state
        found = _lengths(residuals(state)) < limit * (tnp.abs(values) + _lengths(image))
        return (step < steps) & ~tnp.all(found)

    def forward(state: _State) -> _State:
        step, x, moved, _, _ = state
        rest = _independent(residuals(state), tnp.concatenate([x, moved], axis=1))
        directions = tnp.concatenate([x, moved, rest], axis=1)
        values, parts, images = better(directions, _lengths(directions) > 0.5)
        x = _times(directions, parts)
        moved = _independent(_times(directions, parts.at[:k].set(0)), x)
        return step + 1, x, moved, _times(images, parts), values

    x, _ = tnp.linalg.qr(start)
    values, parts, images = better(x, tnp.ones(k, bool))
    x = _times(x, parts)
    state = (tnp.asarray(0, dtype="int32"), x, tnp.zeros_like(x), _times(images, parts), values)
    count, x, _, _, values = lax.while_loop(goes_on, forward, state)
    return values, x, count


def _times(a: Array, b: Array) -> Array:
    return tnp.matmul(a, b, precision=Precision.HIGHEST)


def _product(a: Array, x: Array) -> Callable[[Array], Array]:
    if a.ndim != 2 or a.shape[1] != x.shape[0]:
        raise ShapeError(f"lobpcg_standard: for {x.aval} A must be ({x.shape[0]}, {x.shape[0]}) matrix A, got {a.aval}")
    return lambda x: _times(a, x)


def _checked(product: Callable[[Array], Array], x: Array) -> tuple[int, int]:
    """The sizes, if all is as it must be."""
    if x.ndim != 2 or x.dtype not in INEXACT:
        raise InputError(f"lobpcg_standard: X is a matrix of floats or complex numbers, got {x.aval}")
    n, k = x.shape
    if not k:
        raise ShapeError(f"lobpcg_standard needs a search dim > 0: X has no columns, {x.aval}")
    if 5 * k >= n:
        raise ShapeError(
            f"lobpcg_standard needs search dim * 5 < matrix dim, got {5 * k} and {n}: eigh finds all of them"
        )
    image = as_array(product(tnp.zeros((n, 1), x.dtype)))
    if image.dtype != x.dtype:
        raise DtypeError(f"lobpcg_standard: A, X must have same dtypes, got {image.dtype} and {x.dtype}")
    if image.shape != (n, 1):
        raise ShapeError(f"lobpcg_standard: A must be ({n}, {n}) matrix A; of a vector ({n}, 1) it makes {image.shape}")
    return n, k


def _lengths(x: Array) -> Array:
    """Of each column."""
    return tnp.sqrt(tnp.sum(tnp.abs(x) ** 2, axis=0))


def _scaled(x: Array) -> Array:
    """Columns of length 1, and zeros."""
    lengths = _lengths(x)
    zero = lengths == 0
    return tnp.where(zero, 0, x / tnp.where(zero, 1, lengths).astype(x.dtype))


def _independent(x: Array, others: Array) -> Array:
    """An orthonormal basis of what columns have beside others, which are orthonormal; zeros for those that depend."""
    limit = x.shape[1] * tnp.finfo(x.dtype).eps
    x = _scaled(x)
    for _ in range(2):  # the second time, what rounding left of the others is gone
        x = _scaled(x - _times(others, _times(others.conj().T, x)))
        x = x - _times(others, _times(others.conj().T, x))
        squares, vectors = tnp.linalg.eigh(_times(x.conj().T, x))
        kept = squares > limit * tnp.maximum(squares[-1:], 1)
        x = tnp.where(kept, _times(x, vectors) / tnp.sqrt(tnp.where(kept, squares, 1)).astype(x.dtype), 0)
    return x
