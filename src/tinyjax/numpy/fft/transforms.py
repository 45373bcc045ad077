"""Transforms along one axis, two or any, with sizes and norms chosen.

Of `n` or `s` elements along an axis the first are taken, and zeros follow if there are too few. The norms are NumPy's:
"backward" (or None) divides inverses by the number of elements, "forward" the others, and "ortho" both by its root.
Values are complex64 or complex128, of real transforms float32 or float64: those that integers and floats become; half
precision is computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, SupportsIndex, TypeAlias

import numpy as np

from tinyjax import lax
from tinyjax.arrays import shaping
from tinyjax.arrays.elementwise import constant_like, convert
from tinyjax.arrays.shaping import canonical_axis, integers
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.ir.dtypes import COMPLEXES, FLOAT32, FLOAT64
from tinyjax.lax import FftType
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

_Axes: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
_LAST_TWO: Final = (-2, -1)


@prepared
def fft(a: ArrayLike, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str | None = None) -> Array:
    """The discrete Fourier transform along an axis: element k is the sum of the a[j] times exp(-2πi jk / n).

    Raises:
      ShapeError: the axis doesn't exist, or n is below 1.
      ChoiceError: the norm isn't one of NumPy's.

    >>> import numpy as np
    >>> fft(np.array([1.0, 2.0, 0.0, 0.0]))
    Array([ 3.+0.j,  1.-2.j, -1.+0.j,  1.+2.j], dtype=complex128)
    """
    return _along("fft", FftType.FFT, a, n, axis, norm)


@prepared
def ifft(a: ArrayLike, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str | None = None) -> Array:
    """The inverse of `fft`: the sums with exp(2πi jk / n), divided by n.

    >>> import numpy as np
    >>> ifft(np.array([3.0, 1.0 - 2j, -1.0, 1.0 + 2j]))
    Array([1.+0.j, 2.+0.j, 0.+0.j, 0.+0.j], dtype=complex128)
    """
    return _along("ifft", FftType.IFFT, a, n, axis, norm)


@prepared
def rfft(a: ArrayLike, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str | None = None) -> Array:
    """The first n // 2 + 1 elements of the transform of n real numbers; the others are conjugates of these.

    >>> import numpy as np
    >>> rfft(np.array([1.0, 2.0, 0.0, 0.0]))
    Array([ 3.+0.j,  1.-2.j, -1.+0.j], dtype=complex128)
    """
    return _along("rfft", FftType.RFFT, a, n, axis, norm)


@prepared
def irfft(a: ArrayLike, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str | None = None) -> Array:
    """The inverse of `rfft`: n real numbers, by default 2 (m - 1) of them for m elements.

    >>> import numpy as np
    >>> irfft(np.array([3.0, 1.0 - 2j, -1.0]))
    Array([1., 2., 0., 0.], dtype=float64)
    """
    return _along("irfft", FftType.IRFFT, a, n, axis, norm)


def hfft(a: ArrayLike, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str | None = None) -> Array:
    """The transform, which is real, of n numbers the second half of which are the conjugates of the first, `a`.

    >>> import numpy as np
    >>> hfft(np.array([1.0, 2.0 + 1j, 3.0]))
    Array([ 8.,  0.,  0., -4.], dtype=float64)
    """
    return _along("hfft", FftType.IRFFT, _conjugate(as_array(a)), n, axis, norm)


def ihfft(a: ArrayLike, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str | None = None) -> Array:
    """The inverse of `hfft`: the first n // 2 + 1 elements.

    >>> import numpy as np
    >>> ihfft(np.array([8.0, -4.0, 0.0, 0.0]))
    Array([1.-0.j, 2.-1.j, 3.-0.j], dtype=complex128)
    """
    return _conjugate(_along("ihfft", FftType.RFFT, a, n, axis, norm))


@prepared
def fft2(a: ArrayLike, s: _Axes = None, axes: Sequence[SupportsIndex] = _LAST_TWO, norm: str | None = None) -> Array:
    """`fftn` over two axes.

    >>> import numpy as np
    >>> fft2(np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([[10.+0.j, -2.+0.j],
           [-4.+0.j,  0.+0.j]], dtype=complex128)
    """
    return _over("fft2", FftType.FFT, a, s, _two("fft2", axes), norm)


@prepared
def ifft2(a: ArrayLike, s: _Axes = None, axes: Sequence[SupportsIndex] = _LAST_TWO, norm: str | None = None) -> Array:
    """`ifftn` over two axes.

    >>> import numpy as np
    >>> ifft2(np.array([[10.0, -2.0], [-4.0, 0.0]]))
    Array([[1.+0.j, 2.+0.j],
           [3.+0.j, 4.+0.j]], dtype=complex128)
    """
    return _over("ifft2", FftType.IFFT, a, s, _two("ifft2", axes), norm)


@prepared
def rfft2(a: ArrayLike, s: _Axes = None, axes: Sequence[SupportsIndex] = _LAST_TWO, norm: str | None = None) -> Array:
    """`rfftn` over two axes.

    >>> import numpy as np
    >>> rfft2(np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([[10.+0.j, -2.+0.j],
           [-4.+0.j,  0.+0.j]], dtype=complex128)
    """
    return _over("rfft2", FftType.RFFT, a, s, _two("rfft2", axes), norm)


@prepared
def irfft2(a: ArrayLike, s: _Axes = None, axes: Sequence[SupportsIndex] = _LAST_TWO, norm: str | None = None) -> Array:
    """`irfftn` over two axes.

    >>> import numpy as np
    >>> irfft2(np.array([[10.0, -2.0], [-4.0, 0.0]]))
    Array([[1., 2.],
           [3., 4.]], dtype=float64)
    """
    return _over("irfft2", FftType.IRFFT, a, s, _two("irfft2", axes), norm)


@prepared
def fftn(a: ArrayLike, s: _Axes = None, axes: Sequence[SupportsIndex] | None = None, norm: str | None = None) -> Array:
    """The discrete Fourier transform over axes: all, or the last ones if `s` has a size for each of them.

    Raises:
      ShapeError: an axis doesn't exist or is listed twice, or there are not as many sizes as axes, or one is below 1.
      ChoiceError: the norm isn't one of NumPy's.

    >>> import numpy as np
    >>> fftn(np.array([[1.0, 2.0], [3.0, 4.0]]), s=(2,))
    Array([[ 3.+0.j, -1.+0.j],
           [ 7.+0.j, -1.+0.j]], dtype=complex128)
    """
    return _over("fftn", FftType.FFT, a, s, axes, norm)


@prepared
def ifftn(a: ArrayLike, s: _Axes = None, axes: Sequence[SupportsIndex] | None = None, norm: str | None = None) -> Array:
    """The inverse of `fftn`.

    >>> import numpy as np
    >>> ifftn(np.array([[10.0, -2.0], [-4.0, 0.0]]))
    Array([[1.+0.j, 2.+0.j],
           [3.+0.j, 4.+0.j]], dtype=complex128)
    """
    return _over("ifftn", FftType.IFFT, a, s, axes, norm)


@prepared
def rfftn(a: ArrayLike, s: _Axes = None, axes: Sequence[SupportsIndex] | None = None, norm: str | None = None) -> Array:
    """`fftn` of real numbers, without the second half along the last of the axes.

    >>> import numpy as np
    >>> rfftn(np.array([[1.0, 2.0, 4.0]]), axes=(1,))
    Array([[ 7.+0.j        , -2.+1.73205081j]], dtype=complex128)
    """
    return _over("rfftn", FftType.RFFT, a, s, axes, norm)


@prepared
def irfftn(
    a: ArrayLike, s: _Axes = None, axes: Sequence[SupportsIndex] | None = None, norm: str | None = None
) -> Array:
    """The inverse of `rfftn`; the last size is even, unless `s` says otherwise.

    >>> import numpy as np
    >>> irfftn(np.array([[10.0, -2.0], [-4.0, 0.0]]))
    Array([[1., 2.],
           [3., 4.]], dtype=float64)
    """
    return _over("irfftn", FftType.IRFFT, a, s, axes, norm)


def _conjugate(x: Array) -> Array:
    return lax.conj(x) if x.aval.dtype in COMPLEXES else x


def _two(name: str, axes: Sequence[SupportsIndex]) -> Sequence[SupportsIndex]:
    given: object = axes
    if not isinstance(given, Sequence | np.ndarray) or len(given) != 2:
        raise ShapeError(f"{name} only supports 2 axes. Got axes = {axes!r}. For others there is {name[:-1]}n.")
    return axes


def _along(
    name: str, kind: FftType, a: ArrayLike, n: SupportsIndex | None, axis: SupportsIndex, norm: str | None
) -> Array:
    if isinstance(axis, list | tuple):
        raise ShapeError(f"{name} does not support multiple axes. Please use {name}n. Got axis = {axis!r}.")
    return _over(name, kind, a, None if n is None else (n,), (axis,), norm)


def _over(
    name: str, kind: FftType, a: ArrayLike, s: _Axes, axes: Sequence[SupportsIndex] | None, norm: str | None
) -> Array:
    x = as_array(a)
    ndim = x.aval.ndim
    sizes = None if s is None else integers(s, f"{name}: a size")
    if axes is not None:
        given = integers(axes, f"{name}: an axis")
        if len(set(given)) != len(given):
            raise ShapeError(f"{name} does not support repeated axes. Got axes {axes}.")
        places = tuple(canonical_axis(axis, ndim, name) for axis in given)
        if len(set(places)) != len(places):
            raise ShapeError(f"{name} does not support repeated axes. Got axes {axes}.")
    else:
        first = 0 if sizes is None else ndim - len(sizes)
        if first < 0:
            raise ShapeError(f"{name}: s={sizes} has more sizes than {x.aval} has axes")
        places = tuple(range(first, ndim))
    if sizes is not None and len(sizes) != len(places):
        raise ShapeError(f"{name}: Shape and axes have different lengths: s={sizes}, axes={places}")
    ends = tuple(range(ndim - len(places), ndim))
    x = shaping.moveaxis(x, places, ends)
    lengths = _lengths(name, kind, x.aval.shape[ndim - len(places) :], sizes)
    x = _resized(x, (*lengths[:-1], lengths[-1] // 2 + 1) if kind is FftType.IRFFT and lengths else lengths)
    if kind is FftType.RFFT and x.aval.dtype not in COMPLEXES | {FLOAT64} and x.aval.dtype.itemsize < 4:
        x = convert(x, FLOAT32)
    factor = _factor(name, kind, lengths, norm)
    # Of real numbers, that is half as many products as of complex ones.
    before = kind is not FftType.IRFFT and x.aval.dtype in (FLOAT32, FLOAT64)
    y = lax.fft(x * factor if before and factor != 1 else x, kind, lengths)
    return shaping.moveaxis(y if before else _scaled(y, factor), ends, places)


def _lengths(name: str, kind: FftType, given: tuple[int, ...], sizes: tuple[int, ...] | None) -> tuple[int, ...]:
    """The sizes of the transform along the last axes."""
    least = 0 if kind in (FftType.FFT, FftType.IFFT) and sizes is None else 1
    lengths = sizes
    if lengths is None:
        lengths = (*given[:-1], 2 * (given[-1] - 1)) if kind is FftType.IRFFT and given else given
    if any(length < least for length in lengths):
        raise ShapeError(f"{name}: Shape should be positive: an axis has at least 1 element, got {lengths}")
    return lengths


def _resized(x: Array, sizes: tuple[int, ...]) -> Array:
    """x with this many elements along its last axes: the first ones, and zeros after them."""
    given = x.aval.shape[x.aval.ndim - len(sizes) :]
    if given == sizes:
        return x
    config = [(0, 0, 0)] * (x.aval.ndim - len(sizes))
    config += [(0, wanted - size, 0) for wanted, size in zip(sizes, given, strict=True)]
    return lax.pad(x, constant_like(x, 0), config)


#: What each norm makes of a sum over n elements, and of one that is divided by n.
_NORMS: Final[dict[str | None, tuple[Callable[[int], float], Callable[[int], float]]]] = {
    None: (lambda n: 1, lambda n: 1),
    "backward": (lambda n: 1, lambda n: 1),
    "ortho": (lambda n: 1 / math.sqrt(n), math.sqrt),
    "forward": (lambda n: 1 / n, float),
}


def _factor(name: str, kind: FftType, lengths: tuple[int, ...], norm: str | None) -> float:
    """By what the norm multiplies."""
    given: object = norm
    if not isinstance(given, str | None) or norm not in _NORMS:
        raise ChoiceError(f'{name}: norm is "backward", "ortho" or "forward", got {norm!r}')
    n = math.prod(lengths)
    if not n:
        return 1
    inverse = name.startswith("i")
    factor = _NORMS[norm][inverse](n)
    if inverse != (kind in (FftType.IFFT, FftType.IRFFT)):  # computed by the transform that divides otherwise
        factor = factor / n if inverse else factor * n
    return factor


def _scaled(x: Array, factor: float) -> Array:
    """x times a number, which is a product for each part of a complex one."""
    if factor == 1:
        return x
    return lax.complex(lax.real(x) * factor, lax.imag(x) * factor) if x.aval.dtype in COMPLEXES else x * factor
