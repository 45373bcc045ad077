"""Matrices that a size determines. Their elements are exact, or rounded once, as long as they can be."""

from __future__ import annotations

from typing import Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

import tinyjax.numpy as tnp
from tinyjax.arrays.shaping import integer
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.ir.dtypes import COMPLEXES, as_dtype
from tinyjax.ir.shapes import as_shape
from tinyjax.tracing.array import Array


def hilbert(n: SupportsIndex) -> Array:
    """The matrix with the element 1 / (i + j + 1) in row i and column j.

    >>> hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333333]], dtype=float64)
    """
    places = np.arange(integer(n, "hilbert: n"))
    return tnp.asarray(1.0 / (places[:, None] + places + 1))


def invhilbert(n: SupportsIndex) -> Array:
    """The inverse of `hilbert(n)`, whose elements are integers.

    >>> invhilbert(3)
    Array([[   9.,  -36.,   30.],
           [ -36.,  192., -180.],
           [  30., -180.,  180.]], dtype=float64)
    """
    from scipy import linalg

    size = _size(n, "invhilbert")
    return tnp.asarray(linalg.invhilbert(size, exact=True).astype(float) if size else np.zeros((0, 0)))


def _size(n: SupportsIndex, name: str) -> int:
    (size,) = as_shape(integer(n, f"{name}: n"))
    return size


def _kind(name: str, kind: str | None) -> Literal["symmetric", "lower", "upper"]:
    kinds: dict[str | None, Literal["symmetric", "lower", "upper"]] = {
        None: "symmetric",
        "symmetric": "symmetric",
        "lower": "lower",
        "upper": "upper",
    }
    given: object = kind
    if not isinstance(given, str | None) or given not in kinds:
        raise ChoiceError(f"{name}: Expected kind to be one of 'symmetric', 'lower', 'upper'; got {kind!r}")
    return kinds[kind]


def pascal(n: SupportsIndex, kind: str | None = None) -> Array:
    """Pascal's triangle as a matrix: in the "lower" triangle, in the "upper" one, or "symmetric", which is the product
    of both.

    >>> pascal(3)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float64)
    """
    from scipy import linalg

    size, which = _size(n, "pascal"), _kind("pascal", kind)
    return tnp.asarray(linalg.pascal(size, kind=which, exact=True).astype(float) if size else np.zeros((0, 0)))


def invpascal(n: SupportsIndex, kind: str | None = None) -> Array:
    """The inverse of `pascal(n, kind)`, whose elements are integers.

    >>> invpascal(3)
    Array([[ 3., -3.,  1.],
           [-3.,  5., -2.],
           [ 1., -2.,  1.]], dtype=float64)
    """
    from scipy import linalg

    size, which = _size(n, "invpascal"), _kind("invpascal", kind)
    return tnp.asarray(linalg.invpascal(size, kind=which, exact=True).astype(float) if size else np.zeros((0, 0)))


def helmert(n: SupportsIndex, full: bool = False) -> Array:
    """Orthonormal rows, in each of which a number is compared with the mean of those before; if `full`, after a row of
    equal elements.

    Raises:
      ShapeError: n isn't positive.

    >>> helmert(2)
    Array([[ 0.70710678, -0.70710678]], dtype=float64)
    """
    from scipy import linalg

    size = integer(n, "helmert: n")
    if size < 1:
        raise ShapeError(f"helmert: n must be a positive integer; got {size}")
    return tnp.asarray(linalg.helmert(size, full))


def hadamard(n: SupportsIndex, dtype: npt.DTypeLike = int) -> Array:
    """Orthogonal rows of 1 and -1, by Sylvester's construction.

    Raises:
      ShapeError: n isn't a power of 2.

    >>> hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int64)
    """
    size = integer(n, "hadamard: n")
    if size < 1 or size & (size - 1):
        raise ShapeError(f"hadamard: n must be a positive power of 2; got {size}")
    places = np.arange(size)
    odd = np.bitwise_count(places[:, None] & places) & 1
    return tnp.asarray(1 - 2 * odd.astype(np.int8)).astype(as_dtype(dtype))


def dft(n: SupportsIndex, scale: str | None = None, *, dtype: npt.DTypeLike | None = None) -> Array:
    """The matrix of the discrete Fourier transform of n numbers; with `scale` "sqrtn" or "n" divided by that.

    Raises:
      ChoiceError: there is no such scale, or the dtype isn't complex.

    >>> dft(2).real
    Array([[ 1.,  1.],
           [ 1., -1.]], dtype=float64)
    """
    if scale not in (None, "sqrtn", "n"):
        raise ChoiceError(f"dft: scale must be None, 'sqrtn', or 'n'; got {scale!r}")
    kind = as_dtype(complex if dtype is None else dtype)
    if kind not in COMPLEXES:
        raise ChoiceError(f"dft: dtype must be a complex floating-point type; got {kind}")
    size = integer(n, "dft: n")
    places = np.arange(size)
    found = np.exp(-2j * np.pi * (places[:, None] * places % max(size, 1)) / max(size, 1))
    divisor = {None: 1.0, "sqrtn": np.sqrt(size), "n": size}[scale]
    return tnp.asarray((found / divisor).astype(kind))
