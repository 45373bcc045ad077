"""Cosine transforms, as `scipy.fft` has them: of type 2, and what undoes it.

Each is one Fourier transform of the elements in another order: J. Makhoul, "A fast cosine transform in one and two
dimensions" (1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import SupportsIndex

import numpy as np

import tinyjax.numpy as tnp
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.arrays.shaping import canonical_axis, integer, integers
from tinyjax.errors import ChoiceError, ShapeError, UnsupportedError
from tinyjax.ir.dtypes import COMPLEXES, HostArray
from tinyjax.tracebacks import filter_package
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

__all__ = ["dct", "dctn", "idct", "idctn"]

_NORMS = (None, "backward", "ortho", "forward")


def dct(
    x: ArrayLike, type: int = 2, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str | None = None
) -> Array:
    """The cosine transform of type 2 along an axis: element k is twice the sum of x[j] cos(π k (2j + 1) / 2n).

    `n`: the number of elements, which are cut off or filled up with zeros. `norm` "ortho" makes it orthogonal,
    "forward" divides it by 2n. The real and the imaginary parts of complex numbers are transformed by themselves.

    Raises:
      UnsupportedError: another type than 2.
      ChoiceError: the norm isn't one of SciPy's.
      ShapeError: the axis doesn't exist, or n is below 1.

    >>> import numpy as np
    >>> dct(np.array([2.0, 0.0]))
    Array([4.        , 2.82842712], dtype=float64)
    """
    return _along("dct", _forward, x, type, n, axis, norm)


def idct(
    x: ArrayLike, type: int = 2, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str | None = None
) -> Array:
    """What undoes `dct` with the same arguments.

    Raises:
      UnsupportedError: another type than 2.
      ChoiceError: the norm isn't one of SciPy's.
      ShapeError: the axis doesn't exist, or n is below 1.

    >>> import numpy as np
    >>> idct(dct(np.array([1.0, 2.0, 3.0])))
    Array([1., 2., 3.], dtype=float64)
    """
    return _along("idct", _backward, x, type, n, axis, norm)


def dctn(
    x: ArrayLike,
    type: int = 2,
    s: SupportsIndex | Sequence[SupportsIndex] | None = None,
    axes: SupportsIndex | Sequence[SupportsIndex] | None = None,
    norm: str | None = None,
) -> Array:
    """`dct` along several axes, all if None: `s` has a number of elements for each of them, or for the last ones.

    Raises:
      ShapeError: an axis doesn't exist, or `s` has another length than `axes`.

    >>> import numpy as np
    >>> dctn(np.ones((2, 2)))
    Array([[16.,  0.],
           [ 0.,  0.]], dtype=float64)
    """
    return _along_all("dctn", dct, x, type, s, axes, norm)


def idctn(
    x: ArrayLike,
    type: int = 2,
    s: SupportsIndex | Sequence[SupportsIndex] | None = None,
    axes: SupportsIndex | Sequence[SupportsIndex] | None = None,
    norm: str | None = None,
) -> Array:
    """What undoes `dctn` with the same arguments.

    Raises:
      ShapeError: an axis doesn't exist, or `s` has another length than `axes`.

    >>> import numpy as np
    >>> idctn(dctn(np.ones((2, 2))))
    Array([[1., 1.],
           [1., 1.]], dtype=float64)
    """
    return _along_all("idctn", idct, x, type, s, axes, norm)


def _along_all(
    name: str,
    transform: Callable[[Array, int, int | None, int, str | None], Array],
    x: ArrayLike,
    type: int,
    s: SupportsIndex | Sequence[SupportsIndex] | None,
    axes: SupportsIndex | Sequence[SupportsIndex] | None,
    norm: str | None,
) -> Array:
    out = as_array(x)
    sizes: Sequence[int | None] | None = None if s is None else integers(s, f"{name}: a size")
    if axes is None:
        count = out.ndim if sizes is None else len(sizes)
        chosen = list(range(out.ndim - count, out.ndim))
    else:
        chosen = [canonical_axis(axis, out.ndim, name) for axis in integers(axes, f"{name}: an axis")]
    sizes = [None] * len(chosen) if sizes is None else sizes
    if len(sizes) != len(chosen) or any(axis < 0 for axis in chosen):
        raise ShapeError(f"{name}: s has {len(sizes)} sizes for axes {tuple(chosen)} of an array of shape {out.shape}")
    for axis, n in zip(chosen, sizes, strict=True):
        out = transform(out, type, n, axis, norm)
    return out


def _along(
    name: str,
    transform: Callable[[Array, str | None], Array],
    x: ArrayLike,
    type: int,
    n: SupportsIndex | None,
    axis: SupportsIndex,
    norm: str | None,
) -> Array:
    """A transform of the last axis along any axis, on real numbers."""
    if type != 2:
        raise UnsupportedError(f"{name}: only cosine transforms of type 2 are here, not of type {type}")
    if norm not in _NORMS:
        raise ChoiceError(f"{name}: norm is one of {', '.join(map(repr, _NORMS))}, got {norm!r}")
    (found,) = promote_inexact(as_array(x))
    if found.dtype in COMPLEXES:
        parts = [_along(name, transform, part, type, n, axis, norm) for part in (found.real, found.imag)]
        return parts[0] + 1j * parts[1]
    moved = tnp.moveaxis(found, canonical_axis(axis, found.ndim, name), -1)
    if n is not None:
        size = integer(n, f"{name}: n")
        missing = max(size - moved.shape[-1], 0)
        moved = tnp.pad(moved[..., : max(size, 0)], [(0, 0)] * (moved.ndim - 1) + [(0, missing)])
    if moved.shape[-1] == 0:
        raise ShapeError(f"{name}: there are no elements to transform, in an array of shape {found.shape}")
    return tnp.moveaxis(transform(moved, norm), -1, axis)


def _forward(x: Array, norm: str | None) -> Array:
    """Even elements first, then odd ones backwards."""
    ordered = tnp.concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], -1)
    return (tnp.fft.fft(ordered) * _turns(x, -1)).real.astype(x.dtype) * _factor(x, norm)


def _backward(x: Array, norm: str | None) -> Array:
    x = x / _factor(x, norm)
    below = tnp.concatenate([tnp.zeros_like(x[..., :1]), x[..., :0:-1]], -1)
    ordered = tnp.fft.ifft((x - 1j * below) * _turns(x, 1)).real.astype(x.dtype)
    half = math.ceil(x.shape[-1] / 2)
    odd = ordered[..., half:][..., ::-1]
    return tnp.zeros_like(x).at[..., ::2].set(ordered[..., :half]).at[..., 1::2].set(odd)


def _turns(x: Array, sign: int) -> HostArray:
    n = x.shape[-1]
    found = np.exp(sign * 0.5j * np.pi * np.arange(n) / n)
    turns: HostArray = found.astype(np.result_type(x.dtype, np.complex64))
    return turns


def _factor(x: Array, norm: str | None) -> HostArray:
    n = x.shape[-1]
    factor = np.full(n, 2.0)
    if norm == "ortho":
        factor /= np.sqrt(2 * n)
        factor[0] /= math.sqrt(2)
    elif norm == "forward":
        factor /= 2 * n
    return factor.astype(x.dtype)


filter_package(__name__, ["dct", "dctn", "idct", "idctn"])
