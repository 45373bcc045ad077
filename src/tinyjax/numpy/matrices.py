"""Matrices and grids: identities, triangles, diagonals, coordinates."""

from __future__ import annotations

from typing import Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from tinyjax.arrays.elementwise import astype, constant_like, user_dtype, where
from tinyjax.arrays.shaping import diagonal, integer, reshape
from tinyjax.backend import DeviceLike
from tinyjax.errors import InputError, ShapeError
from tinyjax.ir.dtypes import BOOL, FLOAT64, INT64, INTEGERS
from tinyjax.ir.result_types import made_once
from tinyjax.numpy.arguments import iota, placed, shape_of
from tinyjax.numpy.creation import zeros
from tinyjax.prepared.functions import prepared
from tinyjax.primitives.slicing import Pad
from tinyjax.primitives.structure import BroadcastInDim
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind


def eye(
    N: SupportsIndex,
    M: SupportsIndex | None = None,
    k: SupportsIndex | Array = 0,
    dtype: npt.DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
) -> Array:
    """An N by M matrix with ones on its k-th diagonal, zeros elsewhere."""
    rows, columns = _matrix_indices(N, M)
    marks = rows + _diagonal("eye", k, rows) == columns
    return placed(astype(marks, user_dtype(float if dtype is None else dtype) or FLOAT64), device)


def identity(n: SupportsIndex, dtype: npt.DTypeLike | None = None) -> Array:
    """An n by n matrix with ones on its diagonal."""
    return eye(n, dtype=dtype)


def tri(
    N: SupportsIndex,
    M: SupportsIndex | None = None,
    k: SupportsIndex | Array = 0,
    dtype: npt.DTypeLike | None = None,
) -> Array:
    """An N by M matrix with ones on and below its k-th diagonal."""
    rows, columns = _matrix_indices(N, M)
    return astype(rows + _diagonal("tri", k, rows) >= columns, user_dtype(float if dtype is None else dtype) or FLOAT64)


def _diagonal(name: str, k: SupportsIndex | Array, rows: Array) -> Array:
    """The number of a diagonal, which may be traced, or beyond all of a matrix."""
    if isinstance(k, Array) and k.concrete() is None:
        if k.dtype not in INTEGERS or k.shape:
            raise ShapeError(f"{name}: k is an integer, got {k.aval}")
        return astype(k, INT64)
    size = sum(rows.shape)
    return as_array(np.int64(max(-size, min(integer(k, f"{name}: k"), size))))


def _matrix_indices(rows: SupportsIndex, columns: SupportsIndex | None) -> tuple[Array, Array]:
    shape = shape_of((rows, rows if columns is None else columns))
    return iota(INT64, shape, 0), iota(INT64, shape, 1)


def tril(m: ArrayLike, k: SupportsIndex = 0) -> Array:
    """The elements on and below the k-th diagonal of the last two axes; zeros elsewhere."""
    return _tril(as_array(m), integer(k, "the offset k"))


@prepared
def _tril(x: Array, k: int) -> Array:
    return where(_triangle("tril", x, k), x, constant_like(x, 0))


def triu(m: ArrayLike, k: SupportsIndex = 0) -> Array:
    """The elements on and above the k-th diagonal of the last two axes; zeros elsewhere."""
    return _triu(as_array(m), integer(k, "the offset k"))


@prepared
def _triu(x: Array, k: int) -> Array:
    return where(_triangle("triu", x, k - 1), constant_like(x, 0), x)


def _triangle(name: str, x: Array, k: int) -> Array:
    if x.aval.ndim < 2:
        raise ShapeError(f"{name} needs an array with at least two axes, got {x.aval}")
    return tri(x.aval.shape[-2], x.aval.shape[-1], k, BOOL)


@prepared
def diag(v: ArrayLike, k: SupportsIndex = 0) -> Array:
    """The k-th diagonal of a matrix, or a matrix with this vector on its k-th diagonal."""
    x, offset = as_array(v), integer(k, "the offset k")
    if x.aval.ndim == 2:
        return diagonal(x, offset)
    if x.aval.ndim != 1:
        raise ShapeError(f"diag takes a vector or a matrix, got {x.aval}")
    size = x.aval.shape[0] + abs(offset)
    if x.aval.shape[0] == 0:
        return zeros((size, size), x.aval.dtype)
    # In row-major order the elements are size + 1 apart.
    start = max(offset, 0) - min(offset, 0) * size
    end = size * size - start - (x.aval.shape[0] - 1) * (size + 1) - 1
    (flat,) = bind(made_once(Pad, ((start, end, size),)), x, constant_like(x, 0))
    return reshape(flat, (size, size))


def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: Literal["xy", "ij"] = "xy"
) -> list[Array]:
    """The coordinates of a grid: for each vector an array with an axis for each of them; with `sparse`, of size 1."""
    vectors = [as_array(x) for x in xi]
    if any(x.aval.ndim != 1 for x in vectors):
        raise ShapeError(f"meshgrid takes vectors, got {', '.join(str(x.aval) for x in vectors)}")
    if indexing not in ("xy", "ij"):
        raise InputError(f"meshgrid: indexing is 'xy' or 'ij', got {indexing!r}")
    places = list(range(len(vectors)))
    if indexing == "xy":
        places[:2] = places[:2][::-1]
    sizes = {at: x.aval.shape[0] for at, x in zip(places, vectors, strict=True)}
    out = []
    for at, x in zip(places, vectors, strict=True):
        shape = tuple(1 if sparse and other != at else sizes[other] for other in range(len(vectors)))
        out.append(bind(made_once(BroadcastInDim, shape, (at,)), x)[0])
    return out
