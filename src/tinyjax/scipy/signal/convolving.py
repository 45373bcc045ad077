"""Convolution and correlation of signals of any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex, TypeAlias

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.arrays.products import PrecisionLike
from tinyjax.arrays.shaping import canonical_axes
from tinyjax.errors import ChoiceError, ShapeError, UnsupportedError
from tinyjax.ir.dtypes import COMPLEXES
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

_MODES = ("full", "same", "valid")
_Pair: TypeAlias = tuple[Array, Array]


def convolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: PrecisionLike = None
) -> Array:
    """The convolution of two arrays with the same number of dimensions: element k is the sum of in1[j] in2[k - j].

    `mode` "full" has all elements that aren't empty sums, "same" the middle ones, as many as in1 has, "valid" those in
    which no element of the smaller array is left out. `method` "direct" (and "auto") sums, "fft" multiplies transforms.

    Raises:
      ShapeError: the arrays have different numbers of dimensions, one is empty, or neither is the larger one.
      ChoiceError: there is no such mode or method.

    >>> import numpy as np
    >>> convolve(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.5]))
    Array([0. , 1. , 2.5, 4. , 1.5], dtype=float64)
    """
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    if method not in ("auto", "direct"):
        raise ChoiceError(f"convolve: method is 'auto', 'direct' or 'fft', got {method!r}")
    return _summed("convolve", _operands("convolve", in1, in2, mode), mode, precision)


def correlate(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: PrecisionLike = None
) -> Array:
    """The correlation of two arrays: the convolution of the first with the second one turned around and conjugated.

    Raises:
      ShapeError: the arrays have different numbers of dimensions, one is empty, or neither is the larger one.
      ChoiceError: there is no such mode or method.

    >>> import numpy as np
    >>> correlate(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.5]))
    Array([0.5, 2. , 3.5, 3. , 0. ], dtype=float64)
    """
    return convolve(in1, tnp.flip(as_array(in2).conj()), mode, method, precision)


def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: PrecisionLike = None,
) -> Array:
    """`convolve` of matrices, with zeros around them.

    Raises:
      ShapeError: the arrays aren't matrices.
      UnsupportedError: the boundary is to be something else than zeros.

    >>> import numpy as np
    >>> convolve2d(np.ones((2, 2)), np.ones((2, 2)), mode="same")
    Array([[1., 2.],
           [2., 4.]], dtype=float64)
    """
    return _summed("convolve2d", _matrices("convolve2d", in1, in2, mode, boundary, fillvalue), mode, precision)


def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: PrecisionLike = None,
) -> Array:
    """`correlate` of matrices, with zeros around them.

    Raises:
      ShapeError: the arrays aren't matrices.
      UnsupportedError: the boundary is to be something else than zeros.

    >>> import numpy as np
    >>> correlate2d(np.eye(3), np.ones((2, 2)), mode="valid")
    Array([[2., 1.],
           [1., 2.]], dtype=float64)
    """
    x, y = _matrices("correlate2d", in1, in2, mode, boundary, fillvalue)
    if mode == "same":  # its middle is on the other side of that of a convolution if a size is even
        return tnp.flip(_summed("correlate2d", (tnp.flip(x), y.conj()), mode, precision))
    found = _summed("correlate2d", (x, tnp.flip(y.conj())), mode, precision)
    exchanged = mode == "valid" and any(n < m for n, m in zip(x.shape, y.shape, strict=True))
    return found.conj() if exchanged else found  # as SciPy has it, though `correlate` doesn't


def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: SupportsIndex | Sequence[SupportsIndex] | None = None
) -> Array:
    """`convolve` along some axes, by Fourier transforms: the other axes have the same sizes, or are broadcast.

    Raises:
      ShapeError: the arrays have different numbers of dimensions, or their shapes don't fit along the other axes.
      ChoiceError: there is no such mode.

    >>> import numpy as np
    >>> fftconvolve(np.ones((2, 2)), np.ones((2, 2)), axes=1).round(6)
    Array([[1., 2., 1.],
           [1., 2., 1.]], dtype=float64)
    """
    x, y = _operands("fftconvolve", in1, in2, mode)
    chosen = canonical_axes(axes, x.ndim, "fftconvolve")
    lax.broadcast_shapes(*([1 if d in chosen else size for d, size in enumerate(z.shape)] for z in (x, y)))
    if not x.size or not y.size:
        raise ShapeError(f"fftconvolve: there are no elements in arrays of shapes {x.shape} and {y.shape}")
    if mode == "valid":
        x, y = _larger_first("fftconvolve", (x, y), chosen)
    sizes = [x.shape[d] + y.shape[d] - 1 for d in chosen]
    if not chosen or all(1 in (x.shape[d], y.shape[d]) for d in chosen):
        full = x * y
    elif x.dtype in COMPLEXES:
        full = tnp.fft.ifftn(tnp.fft.fftn(x, sizes, chosen) * tnp.fft.fftn(y, sizes, chosen), sizes, chosen)
    else:
        full = tnp.fft.irfftn(tnp.fft.rfftn(x, sizes, chosen) * tnp.fft.rfftn(y, sizes, chosen), sizes, chosen)
    kept = [slice(None)] * x.ndim
    for d in chosen:
        n, m = x.shape[d], y.shape[d]
        size = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
        start = (full.shape[d] - size) // 2
        kept[d] = slice(start, start + size)
    return full[tuple(kept)]


def _operands(name: str, in1: ArrayLike, in2: ArrayLike, mode: str) -> _Pair:
    if mode not in _MODES:
        raise ChoiceError(f"{name}: mode is one of {', '.join(map(repr, _MODES))}, got {mode!r}")
    x, y = promote_inexact(as_array(in1), as_array(in2))
    if x.ndim != y.ndim:
        raise ShapeError(f"{name}: both arrays need the same number of dimensions, got shapes {x.shape} and {y.shape}")
    return x, y


def _matrices(name: str, in1: ArrayLike, in2: ArrayLike, mode: str, boundary: str, fillvalue: float) -> _Pair:
    if boundary != "fill" or fillvalue != 0:
        raise UnsupportedError(f"{name}: only boundary='fill' with fillvalue=0 is here; pad the first array instead")
    x, y = _operands(name, in1, in2, mode)
    if x.ndim != 2:
        raise ShapeError(f"{name} takes matrices, got arrays with {x.ndim} dimensions")
    return x, y


def _larger_first(name: str, pair: _Pair, axes: Sequence[int]) -> _Pair:
    """The arrays, exchanged if the second is the larger one along these axes; a ShapeError if neither is."""
    x, y = pair
    if all(x.shape[d] >= y.shape[d] for d in axes):
        return pair
    if all(x.shape[d] <= y.shape[d] for d in axes):
        return y, x
    raise ShapeError(f"{name}: one array must be the larger one in all dimensions, got shapes {x.shape} and {y.shape}")


def _summed(name: str, pair: _Pair, mode: str, precision: PrecisionLike) -> Array:
    size = pair[0].shape
    if not pair[0].size or not pair[1].size:
        raise ShapeError(f"{name}: there are no elements in arrays of shapes {pair[0].shape} and {pair[1].shape}")
    x, y = _larger_first(name, pair, range(len(size)))
    padding = []
    for n, m, wanted in zip(x.shape, y.shape, size, strict=True):
        kept = {"full": n + m - 1, "same": wanted, "valid": n - m + 1}[mode]
        dropped = n + m - 1 - kept
        padding.append((m - 1 - dropped // 2, m - 1 - (dropped - dropped // 2)))
    if x.ndim == 0:
        return x * y
    return lax.conv_general_dilated(
        x[None, None], tnp.flip(y)[None, None], (1,) * x.ndim, padding, precision=precision
    )[0, 0]
