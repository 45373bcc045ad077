"""Equations with matrices, inverses, and what they say of a matrix: determinant, rank, condition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from tinyjax.arrays.elementwise import (
    astype,
    broadcast_shapes,
    broadcast_to,
    full_like,
    is_nan,
    promote_inexact,
    where,
)
from tinyjax.arrays.reductions import any as any_of
from tinyjax.arrays.reductions import max as max_of
from tinyjax.arrays.reductions import sum as sum_of
from tinyjax.arrays.shaping import integer, integers, moveaxis, ravel, reshape
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.ir.dtypes import FLOAT32, real_dtype
from tinyjax.ir.shapes import Shape
from tinyjax.numpy.linalg.decompositions import svd, svdvals
from tinyjax.numpy.linalg.intake import inexact
from tinyjax.numpy.linalg.norms import norm
from tinyjax.numpy.linalg.results import SlogdetResult
from tinyjax.numpy.matrices import eye
from tinyjax.numpy.types import finfo
from tinyjax.prepared.functions import prepared
from tinyjax.primitives.determinants import det as det_p
from tinyjax.primitives.determinants import slogdet as slogdet_p
from tinyjax.primitives.matrices import MATRICES
from tinyjax.primitives.solutions import Pinv
from tinyjax.primitives.solutions import solve as solve_p
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind


def _square(name: str, x: Array) -> int:
    shape = x.aval.shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(f"Argument to {name} must have shape [..., n, n], got {x.aval}")
    return shape[-1]


@prepared
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The solution x of `a @ x = b`, for square matrices `a`.

    `b` is a vector, if it has one axis, or else matrices of right sides; the axes before are broadcast. Infinite or nan
    where a matrix is singular.

    Raises:
      ShapeError: `a` isn't square, or `b` has another number of rows.

    >>> import numpy as np
    >>> solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([1.0, 2.0]))
    Array([0.5, 0.5], dtype=float64)
    """
    x, y = promote_inexact(as_array(a), as_array(b))
    if x.aval.ndim < 2:
        raise ShapeError(f"solve: left hand array must be at least two dimensional; got {x.aval}")
    size = _square("solve", x)
    if y.aval.ndim == 0:
        raise ShapeError("solve: the right side must have at least one axis, got a scalar")
    vector = y.aval.ndim == 1
    right = y[:, None] if vector else y
    if right.aval.shape[-2] != size:
        hint = ". To solve for many vectors, write solve(a, b[..., None])[..., 0]" if y.aval.ndim > 1 else ""
        raise ShapeError(f"solve: {x.aval} has {size} rows, but {y.aval} has not{hint}")
    found = _solved(x, right)
    return found[..., 0] if vector else found


def _solved(a: Array, b: Array) -> Array:
    """With one matrix for many right sides, these are all columns of one."""
    shape, columns = b.aval.shape, b.aval.shape[-1]
    if a.aval.ndim == 2 and len(shape) > 2:
        flat = reshape(moveaxis(b, -2, 0), (shape[-2], math.prod(shape[:-2]) * columns))
        return moveaxis(reshape(bind(solve_p, a, flat)[0], (shape[-2], *shape[:-2], columns)), 0, -2)
    batch = broadcast_shapes(a.aval.shape[:-2], shape[:-2])
    a, b = (broadcast_to(x, (*batch, *x.aval.shape[-2:])) for x in (a, b))
    return bind(solve_p, a, b)[0]


@prepared
def inv(a: ArrayLike) -> Array:
    """The inverses of square matrices. Infinite or nan where there is none.

    Raises:
      ShapeError: the matrices aren't square.

    >>> import numpy as np
    >>> inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float64)
    """
    x = inexact(a)
    return _solved(x, broadcast_to(eye(_square("inv", x), dtype=x.aval.dtype), x.aval.shape))


@prepared
def det(a: ArrayLike) -> Array:
    """The determinants of square matrices. Their derivatives hold also where a matrix lacks one in rank.

    Those of floats narrower than float32 are computed in it, and rounded.

    Raises:
      ShapeError: the matrices aren't square.

    >>> import numpy as np
    >>> det(np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array(-2., dtype=float64)
    """
    x = inexact(a)
    _square("det", x)
    dtype = x.aval.dtype
    return bind(det_p, x)[0] if dtype in MATRICES else astype(bind(det_p, astype(x, FLOAT32))[0], dtype)


@prepared
def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """The signs of the determinants of square matrices, and the logarithms of their absolute values.

    The sign of a complex number has absolute value 1. Where a matrix is singular they are 0 and -inf, with derivatives
    that are infinite or nan. The method is "lu", or "qr", which is faster on some devices in JAX; here it is the same.

    Raises:
      ShapeError: the matrices aren't square.
      ChoiceError: there is no such method.

    >>> import numpy as np
    >>> slogdet(np.array([[1.0, 0.0], [0.0, -1.0]]))
    SlogdetResult(sign=Array(-1., dtype=float64), logabsdet=Array(0., dtype=float64))
    """
    if method not in (None, "lu", "qr"):
        raise ChoiceError(f"slogdet: the methods are 'lu' and 'qr', got {method!r}")
    x = inexact(a)
    _square("slogdet", x)
    return SlogdetResult(*bind(slogdet_p, x))


@prepared
def pinv(
    a: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False, *, rcond: ArrayLike | None = None
) -> Array:
    """The pseudoinverses of matrices, by their singular values.

    Those are taken for zero that are at most `rtol` times the largest one, a number or one for each matrix: by default
    10 times the larger size of a matrix, times the dtype's precision. `rcond` is another name for it. `hermitian` says
    that the matrices are.

    With a tolerance that is given, derivatives hold also where values are cut off that aren't zero (JAX's don't). The
    default one cuts off what is rounding, so derivatives take it for zero.

    Raises:
      ChoiceError: both tolerances are given.

    >>> import numpy as np
    >>> pinv(np.array([[2.0, 0.0], [0.0, 0.0]]))
    Array([[0.5, 0. ],
           [0. , 0. ]], dtype=float64)
    """
    if rtol is not None and rcond is not None:
        raise ChoiceError("pinv: only one of rtol and rcond may be specified.")
    x = inexact(a)
    if x.aval.ndim < 2:
        raise ShapeError(f"pinv needs an array with at least two axes, got {x.aval}")
    given, dtype = rcond if rtol is None else rtol, real_dtype(x.aval.dtype)
    tolerance = 10.0 * max(x.aval.shape[-2:]) * float(finfo(dtype).eps) if given is None else given
    limit = astype(as_array(tolerance), dtype)
    batch = broadcast_shapes(limit.aval.shape, x.aval.shape[:-2])
    x, limit = broadcast_to(x, batch + x.aval.shape[-2:]), broadcast_to(limit, batch)
    return bind(Pinv(hermitian, given is not None), x, limit)[0]


@prepared
def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """The x for which `norm(b - a @ x)` is least; if there are several, the one of least norm.

    Returns x; the sums of squares of what is left, for each right side; the rank of `a`; and its singular values. Those
    are taken for zero that are less than `rcond` times the largest one. `numpy_resid`: where `a` has less rank than
    columns, or no more rows than columns, the second result is empty, as NumPy's; it can't be traced then.

    Raises:
      ShapeError: `a` isn't a matrix, or `b` has another number of rows.

    >>> import numpy as np
    >>> lstsq(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))[0]
    Array([2.], dtype=float64)
    """
    x, y = promote_inexact(as_array(a), as_array(b))
    if x.aval.ndim != 2:
        raise ShapeError(f"lstsq: {x.aval.ndim}-dimensional array given. Array must be two-dimensional, got {x.aval}")
    if y.aval.ndim not in (1, 2):
        raise ShapeError(f"lstsq: {y.aval.ndim}-dimensional array given. Array must be one or two-dimensional")
    if x.aval.shape[0] != y.aval.shape[0]:
        raise ShapeError(f"lstsq: Leading dimensions of input arrays must match, got {x.aval} and {y.aval}")
    right = y[:, None] if y.aval.ndim == 1 else y
    (m, n), dtype = x.aval.shape, x.aval.dtype
    if 0 in (m, n):
        values = as_array(np.zeros(0, real_dtype(dtype)))
        rank, found = as_array(np.asarray(0)), as_array(np.zeros((n, right.aval.shape[1]), dtype))
    else:
        u, values, vh = svd(x, full_matrices=False)
        eps = float(np.finfo(real_dtype(dtype).name).eps)
        limit = eps * max(m, n) if rcond is None else where(as_array(rcond) < 0, as_array(eps), as_array(rcond))
        kept = (values > 0) & (values >= limit * values[0])
        rank = sum_of(kept)
        inverse = where(kept, 1 / where(kept, values, full_like(values, 1)), full_like(values, 0))
        found = vh.conj().T @ (astype(inverse, dtype)[:, None] * (u.conj().T @ right))
    if numpy_resid and (m <= n or int(rank) < n):
        left = as_array(np.zeros(0, real_dtype(dtype)))
    else:
        left = norm(right - x @ found, axis=0) ** 2
    return (ravel(found) if y.aval.ndim == 1 else found), left, rank, values


@prepared
def matrix_rank(
    M: ArrayLike, rtol: ArrayLike | None = None, *, hermitian: bool = False, tol: ArrayLike | None = None
) -> Array:
    """How many singular values of matrices are greater than `rtol`.

    That is the largest value times the larger size of a matrix and the dtype's precision, if it isn't given. `tol` is
    another name for it. Of a vector it is whether there is anything but zeros.

    Raises:
      ChoiceError: both tolerances are given.

    >>> import numpy as np
    >>> matrix_rank(np.ones((3, 3)))
    Array(1, dtype=int64)
    """
    if rtol is not None and tol is not None:
        raise ChoiceError("matrix_rank: only one of tol or rtol may be specified.")
    x = inexact(M)
    if x.aval.ndim < 2:
        return astype(any_of(x != 0), np.dtype(np.int32))
    values = svd(x, full_matrices=False, compute_uv=False, hermitian=hermitian)
    given = tol if rtol is None else rtol
    if given is not None:
        limit = as_array(given)
    elif values.aval.shape[-1]:
        limit = max_of(values, -1) * (max(x.aval.shape[-2:]) * np.finfo(values.aval.dtype.name).eps)
    else:
        limit = as_array(0.0)
    return sum_of(values > limit[..., None], -1)


@prepared
def cond(x: ArrayLike, p: float | str | None = None) -> Array:
    """The condition numbers of matrices, in this norm: how much their inverses can make of an error.

    The norm is any of `norm`'s for matrices; None is 2, which is the quotient of the largest singular value and the
    least one, and needs no square matrices.

    >>> import numpy as np
    >>> cond(np.array([[4.0, 0.0], [0.0, 2.0]]))
    Array(2., dtype=float64)
    """
    a = as_array(x)
    if a.aval.ndim < 2:
        raise ShapeError(f"cond: input array must be at least 2D; got {a.aval}")
    if 0 in a.aval.shape[-2:]:
        raise ShapeError(f"cond: input array must not be empty; got {a.aval}")
    if p is None or p in (2, -2):
        values = svdvals(a)
        largest, least = values[..., 0], values[..., -1]
        if p != -2:
            return largest / least
        found = least / largest
    else:
        _square("cond", a)
        found = norm(a, ord=p, axis=(-2, -1)) * norm(inv(a), ord=p, axis=(-2, -1))
    # What has a nan among its elements has no condition; what has no inverse has an infinite one.
    unknown = any_of(is_nan(inexact(a)), (-2, -1))
    return where(is_nan(found) & ~unknown, full_like(found, np.inf), found)


@prepared
def matrix_power(a: ArrayLike, n: SupportsIndex) -> Array:
    """Square matrices multiplied by themselves: n of them. If n is negative, -n of their inverses.

    Raises:
      ShapeError: the matrices aren't square.

    >>> import numpy as np
    >>> matrix_power(np.array([[1, 1], [0, 1]]), 3)
    Array([[1, 3],
           [0, 1]], dtype=int64)
    """
    x, exponent = as_array(a), integer(n, "matrix_power: the exponent")
    size = _square("matrix_power", x)
    if exponent < 0:
        x, exponent = inv(x), -exponent
    if exponent == 0:
        return broadcast_to(eye(size, dtype=x.aval.dtype), x.aval.shape)
    result: Array | None = None
    while True:
        exponent, bit = divmod(exponent, 2)
        if bit:
            result = x if result is None else result @ x
        if not exponent:
            return x if result is None else result
        x = x @ x


@prepared
def tensorinv(a: ArrayLike, ind: SupportsIndex = 2) -> Array:
    """The inverse of a tensor as a linear function: of arrays of its last axes, to arrays of its first `ind`.

    Raises:
      ShapeError: these have different numbers of elements.

    >>> import numpy as np
    >>> tensorinv(np.eye(4).reshape(2, 2, 4)).shape
    (4, 2, 2)
    """
    x, split = as_array(a), integer(ind, "tensorinv: ind")
    if split <= 0:
        raise ShapeError(f"tensorinv: ind must be a positive integer; got {split}")
    first, last = x.aval.shape[:split], x.aval.shape[split:]
    if math.prod(first) != math.prod(last):
        raise ShapeError(
            f"tensorinv is only possible when the product of the first `ind` dimensions equals that of the remaining "
            f"dimensions; got {x.aval} with ind={split}"
        )
    return reshape(inv(reshape(x, (math.prod(first), math.prod(last)))), (*last, *first))


@prepared
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[SupportsIndex] | None = None) -> Array:
    """The x for which the sum of `a` times x over the last axes of `a` is `b`. `axes` of `a` are moved to its end.

    Raises:
      ShapeError: the first axes of `a` aren't those of `b`, or the others have another number of elements.

    >>> import numpy as np
    >>> tensorsolve(2 * np.eye(4).reshape(2, 2, 4), np.ones((2, 2)))
    Array([0.5, 0.5, 0.5, 0.5], dtype=float64)
    """
    x, y = as_array(a), as_array(b)
    if axes is not None:
        moved = integers(axes, "tensorsolve: an axis")
        count = len(moved)
        x = moveaxis(x, moved, range(x.aval.ndim - count, x.aval.ndim))
    shape: Shape = x.aval.shape[y.aval.ndim :]
    if x.aval.shape[: y.aval.ndim] != y.aval.shape:
        raise ShapeError(
            "tensorsolve: After moving axes to end, leading shape of a must match shape of b; got "
            f"{x.aval} and {y.aval}"
        )
    if y.aval.size != math.prod(shape):
        raise ShapeError(
            "tensorsolve: Input arrays must have prod(a.shape[:b.ndim]) == prod(a.shape[b.ndim:]); got "
            f"{x.aval} and {y.aval}"
        )
    return reshape(solve(reshape(x, (y.aval.size, y.aval.size)), ravel(y)), shape)
