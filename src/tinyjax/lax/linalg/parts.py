"""Parts of matrices, and what is symmetric in them."""

from __future__ import annotations

from tinyjax.arrays.elementwise import constant_like, where
from tinyjax.arrays.shaping import matrix_transpose
from tinyjax.errors import ShapeError
from tinyjax.ir.dtypes import COMPLEXES, INT32
from tinyjax.ir.result_types import made_once
from tinyjax.primitives.shaping import Iota
from tinyjax.tracing.array import Array
from tinyjax.tracing.core import bind


def lower_triangle(x: Array, k: int = 0) -> Array:
    """What is on and below the k-th diagonal of matrices."""
    rows, columns = _places(x)
    return where(rows + k >= columns, x, constant_like(x, 0))


def upper_triangle(x: Array, k: int = 0) -> Array:
    """What is on and above the k-th diagonal of matrices."""
    rows, columns = _places(x)
    return where(rows + k <= columns, x, constant_like(x, 0))


def adjoint(x: Array) -> Array:
    """The conjugate transpose of matrices."""
    return matrix_transpose(x).conj() if x.aval.dtype in COMPLEXES else matrix_transpose(x)


def symmetrized(x: Array) -> Array:
    """The mean of square matrices and their conjugate transposes."""
    if x.aval.ndim < 2 or x.aval.shape[-1] != x.aval.shape[-2]:
        raise ShapeError(f"square matrices are needed, of shape (..., n, n), got {x.aval}")
    return (x + adjoint(x)) / 2


def _places(x: Array) -> tuple[Array, Array]:
    """The row and the column of each element of a matrix."""
    shape = x.aval.shape[-2:]
    return bind(made_once(Iota, INT32, shape, 0))[0], bind(made_once(Iota, INT32, shape, 1))[0]
