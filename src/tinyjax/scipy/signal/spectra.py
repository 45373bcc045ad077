"""Spectra of signals, by Fourier transforms of segments of them.

P. D. Welch, "The use of fast Fourier transform for the estimation of power spectra" (1967).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, final

import numpy as np
from attrs import frozen

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.arrays.shaping import canonical_axis, integer
from tinyjax.errors import ChoiceError, InputError, ShapeError
from tinyjax.ir.dtypes import COMPLEXES, DType, complex_dtype, real_dtype
from tinyjax.numpy.signatures import PadMode
from tinyjax.scipy.signal.trends import detrend as without_trend
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.transforms.arguments import flag

#: A window by its name, by its name and parameters, or by its elements.
Window: TypeAlias = str | tuple[str] | tuple[str, float] | tuple[str, float, float] | ArrayLike
#: How the trend of each segment is taken away: by name, by a function, or not at all.
Detrend: TypeAlias = str | Callable[[Array], Array] | bool


def stft(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """The short-time Fourier transform of a signal: frequencies, times, and the transforms of the segments.

    `nperseg` elements make a segment, of which it shares `noverlap` (half of them) with the next one; it is multiplied
    by the window, and filled up with zeros to `nfft`. `fs` is the sampling frequency. At the ends there is what
    `boundary` says: "even", "odd", "constant", "zeros", or None; `padded` fills up the last segment.

    Raises:
      InputError: the lengths don't fit together.
      ChoiceError: there is no such boundary, or no such detrending.

    >>> import numpy as np
    >>> f, t, z = stft(np.ones(8), nperseg=4)
    >>> f, z.shape
    (Array([0.  , 0.25, 0.5 ], dtype=float64), (3, 5))
    """
    (signal,) = promote_inexact(as_array(x))
    at = canonical_axis(axis, signal.ndim, "stft")
    if not signal.size:
        nothing = tnp.zeros(signal.shape, real_dtype(signal.dtype))
        return nothing, nothing, nothing.astype(complex_dtype(nothing.dtype))
    segments = _segments("stft", signal, signal.shape[at], window, nperseg, noverlap, nfft, detrend, at)
    onesided = return_onesided and signal.dtype not in COMPLEXES
    moved = _extended(tnp.moveaxis(signal, at, -1), segments, boundary)
    if padded:
        moved = _filled(moved, segments)
    rate = as_array(fs)
    found = segments.transform(moved, onesided) / tnp.sum(segments.window)
    times = tnp.arange(found.shape[-1], dtype=segments.window.dtype) * segments.step
    if boundary is None:
        times = times + len(segments.window) / 2
    return segments.frequencies(rate, onesided), times / rate, tnp.moveaxis(found, -2, at)


def csd(
    x: ArrayLike,
    y: ArrayLike | None,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The cross power spectral density of two signals, by Welch's method: frequencies, and the density.

    `scaling` "density" gives power for each unit of frequency, "spectrum" power. `average` is "mean" or "median". For
    the other arguments see `stft`. The shorter signal is filled up with zeros.

    Raises:
      InputError: the lengths don't fit together.
      ChoiceError: there is no such scaling, average or detrending.

    >>> import numpy as np
    >>> f, density = csd(np.array([1.0, -1.0] * 4), np.array([1.0, -1.0] * 4), nperseg=4)
    >>> density.round(6)
    Array([0.      +0.j, 1.333333+0.j, 2.666667+0.j], dtype=complex128)
    """
    if scaling not in ("density", "spectrum"):
        raise ChoiceError(f"csd: scaling is 'density' or 'spectrum', got {scaling!r}")
    if average not in ("mean", "median"):
        raise ChoiceError(f"csd: average is 'mean' or 'median', got {average!r}")
    one, *others = promote_inexact(as_array(x), *([] if y is None else [as_array(y)]))
    other = others[0] if others else one
    at = canonical_axis(axis, one.ndim, "csd")
    first, second = tnp.moveaxis(one, at, -1), tnp.moveaxis(other, at, -1)
    if not (first.size and second.size):
        shape = (*tnp.broadcast_shapes(first.shape[:-1], second.shape[:-1]), min(first.shape[-1], second.shape[-1]))
        nothing = tnp.moveaxis(tnp.zeros(shape, real_dtype(one.dtype)), -1, at)
        return nothing, nothing if y is None else nothing.astype(complex_dtype(nothing.dtype))
    length = max(first.shape[-1], second.shape[-1])
    segments = _segments("csd", one, length, window, nperseg, noverlap, nfft, detrend, at)
    onesided = return_onesided and one.dtype not in COMPLEXES
    spectrum = segments.transform(_padded(first, length), onesided)
    matched = spectrum if y is None else segments.transform(_padded(second, length), onesided)
    weights = segments.window
    rate = as_array(fs)
    scale = rate * tnp.sum(weights**2) if scaling == "density" else tnp.sum(weights) ** 2
    power = spectrum.conj() * matched / scale
    if onesided:  # what is left out is the same again, except of the frequency 0, and of the highest of an even number
        power = power.at[..., 1 : None if segments.nfft % 2 else -1, :].multiply(2)
    if y is None:
        power = power.real
    density = tnp.mean(power, -1) if average == "mean" else _median(power)
    return segments.frequencies(rate, onesided), tnp.moveaxis(density, -1, at)


def welch(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The power spectral density of a signal, by Welch's method: frequencies, and the density. See `csd`.

    >>> import numpy as np
    >>> welch(np.array([1.0, -1.0] * 4), nperseg=4)[1].round(6)
    Array([0.      , 1.333333, 2.666667], dtype=float64)
    """
    return csd(x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)


def istft(
    Zxx: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """What undoes `stft`: times and the signal that these transforms are of. For the arguments see there.

    Raises:
      InputError: the lengths don't fit together.
      ShapeError: there are less than two axes, or both are the same.

    >>> import numpy as np
    >>> istft(stft(np.arange(6.0), nperseg=4)[2])[1].round(6)
    Array([0., 1., 2., 3., 4., 5.], dtype=float64)
    """
    z = as_array(Zxx)
    z = z.astype(tnp.result_type(z.dtype, "complex64"))
    if z.ndim < 2:
        raise ShapeError(f"istft takes transforms along two axes, got shape {z.shape}")
    when, which = canonical_axis(time_axis, z.ndim, "istft"), canonical_axis(freq_axis, z.ndim, "istft")
    if when == which:
        raise ShapeError(f"istft: time_axis and freq_axis are both {when}")
    input_onesided = flag("istft: input_onesided", input_onesided)
    count = 2 * (z.shape[which] - 1) if input_onesided else z.shape[which]
    length = _length("istft: nperseg", nperseg, count)
    size = _length("istft: nfft", nfft, count + (input_onesided and length == count + 1))
    overlap = _length("istft: noverlap", noverlap, length // 2)
    _check_lengths("istft", length, overlap, size)
    weights = _window("istft", window, length, real_dtype(z.dtype))
    moved = tnp.moveaxis(z, (which, when), (-2, -1))
    back = tnp.fft.irfft(moved, size, -2) if input_onesided else tnp.fft.ifft(moved, size, -2)
    parts = tnp.moveaxis(back[..., :length, :], -1, -2) * tnp.sum(weights) * weights
    step = length - overlap
    squares = tnp.broadcast_to(weights**2, parts.shape[-2:])
    signal, norm = _overlapped(parts, step), _overlapped(squares, step)
    if boundary and length > 1:
        signal, norm = (part[..., length // 2 : -(length // 2)] for part in (signal, norm))
    signal = signal / tnp.where(norm > 1e-10, norm, 1)
    if signal.ndim > 1:
        signal = tnp.moveaxis(signal, -1, when - (which < when))
    return tnp.arange(signal.shape[0], dtype=weights.dtype) / as_array(fs), signal


@final
@frozen(eq=False)
class _Segments:
    """How a signal is divided, and what is transformed."""

    window: Array
    step: int
    nfft: int
    detrend: Callable[[Array], Array]

    def transform(self, x: Array, onesided: bool) -> Array:
        """The transforms of all segments of the last axis: frequencies before times."""
        size = self.window.shape[0]
        starts = np.arange(0, x.shape[-1] - size + 1, self.step)
        along, batch = x.ndim - 1, x.shape[:-1]
        dims = lax.GatherDimensionNumbers((*range(along), along + 1), (), (along,))
        # By where segments start: of these there are fewer than of elements, and derivatives keep them.
        segments = lax.gather(x, starts[:, None], dims, (*batch, size), mode="promise_in_bounds")
        parts = self.detrend(segments) * self.window
        found = tnp.fft.rfft(parts, self.nfft) if onesided else tnp.fft.fft(parts, self.nfft)
        return tnp.moveaxis(found, -1, -2)

    def frequencies(self, fs: Array, onesided: bool) -> Array:
        found = tnp.fft.rfftfreq(self.nfft) if onesided else tnp.fft.fftfreq(self.nfft)
        return (found * fs).astype(self.window.dtype)


def _segments(
    name: str,
    x: Array,
    length: int,
    window: Window,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    detrend: Detrend,
    axis: int,
) -> _Segments:
    named = isinstance(window, str | tuple)
    size = _length(f"{name}: nperseg", nperseg, 256 if named else as_array(window).size)
    if named and size > length:
        size = length
    elif size > length:
        raise InputError(f"{name}: the window is longer ({size}) than the signal ({length})")
    overlap = _length(f"{name}: noverlap", noverlap, size // 2)
    total = _length(f"{name}: nfft", nfft, size)
    _check_lengths(name, size, overlap, total)
    weights = _window(name, window, size, real_dtype(x.dtype))
    return _Segments(weights, size - overlap, total, _detrending(name, detrend, axis, x.ndim))


def _length(what: str, given: int | None, usual: int) -> int:
    return usual if given is None else integer(given, what)


def _check_lengths(name: str, size: int, overlap: int, total: int) -> None:
    if size < 1:
        raise InputError(f"{name}: nperseg must be positive, got {size}")
    if overlap >= size:
        raise InputError(f"{name}: noverlap ({overlap}) must be less than nperseg ({size})")
    if total < size:
        raise InputError(f"{name}: nfft ({total}) must not be less than nperseg ({size})")


def _window(name: str, window: Window, size: int, dtype: DType) -> Array:
    if isinstance(window, str | tuple):
        import scipy.signal  # at first need, because it takes a while

        try:
            return tnp.asarray(scipy.signal.get_window(window, size).astype(dtype))
        except (ValueError, TypeError, IndexError) as error:
            raise ChoiceError(f"{name}: there is no window {window!r} in SciPy: {error}") from None
    found = as_array(window)
    if found.shape != (size,):
        raise InputError(f"{name}: the window has shape {found.shape}, but a segment has {size} elements")
    return found.astype(dtype)


def _detrending(name: str, detrend: Detrend, axis: int, ndim: int) -> Callable[[Array], Array]:
    if isinstance(detrend, str):
        return lambda parts: without_trend(parts, type=detrend)
    if callable(detrend):
        # A function of the user's finds the elements on the axis where they are in the signal.
        at = axis if axis < ndim - 1 else -1
        return lambda parts: tnp.moveaxis(detrend(tnp.moveaxis(parts, -1, at)), at, -1)
    if detrend is not False:
        raise ChoiceError(f"{name}: detrend is 'constant', 'linear', a function, or False, not {detrend!r}")
    return lambda parts: parts


def _extended(x: Array, segments: _Segments, boundary: str | None) -> Array:
    modes: Mapping[str, PadMode] = {"even": "reflect", "constant": "edge", "zeros": "constant"}
    n = segments.window.shape[0] // 2
    ends: Sequence[tuple[int, int]] = [(0, 0)] * (x.ndim - 1) + [(n, n)]
    if boundary is None:
        return x
    if boundary == "odd":  # turned around the points at the ends
        return 2 * tnp.pad(x, ends, "edge") - tnp.pad(x, ends, "reflect")
    given: object = boundary
    if not isinstance(given, str) or given not in modes:
        raise ChoiceError(f"stft: boundary is 'even', 'odd', 'constant', 'zeros' or None, got {boundary!r}")
    return tnp.pad(x, ends, modes[boundary])


def _filled(x: Array, segments: _Segments) -> Array:
    """With zeros at the end, so that segments cover it all."""
    size = segments.window.shape[0]
    return _padded(x, x.shape[-1] + (-(x.shape[-1] - size) % segments.step) % size)


def _padded(x: Array, length: int) -> Array:
    return tnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, length - x.shape[-1])])


def _median(power: Array) -> Array:
    """The median over segments, of both parts of complex numbers, divided by its bias for noise."""
    count = power.shape[-1]
    even = 2 * np.arange(1.0, (count - 1) // 2 + 1)
    bias = float(1 + np.sum(1 / (even + 1) - 1 / even))  # weak: it decides no dtype
    if power.dtype in COMPLEXES:
        return (tnp.median(power.real, -1) + 1j * tnp.median(power.imag, -1)) / bias
    return tnp.median(power, -1) / bias


def _overlapped(parts: Array, step: int) -> Array:
    """Segments, the rows of the last axis, added up where they are."""
    count, size = parts.shape[-2:]
    places = step * np.arange(count)[:, None] + np.arange(size)
    out = tnp.zeros((*parts.shape[:-2], step * (count - 1) + size), parts.dtype)
    return out.at[..., places].add(parts)
