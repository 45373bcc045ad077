"""`tinyjax.scipy.signal`, `fft`, `ndimage` and `cluster` against SciPy, their derivatives against JAX's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.scipy.signal
import numpy as np
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.ndimage
import scipy.signal

from tinyjax import Array, grad, jit, vmap
from tinyjax.errors import ChoiceError, InputError, ShapeError, UnsupportedError
from tinyjax.ir.dtypes import HostArray
from tinyjax.scipy import cluster, fft, ndimage, signal

SHAPES = [((7,), (3,)), ((3,), (7,)), ((6,), (4,)), ((6, 5), (3, 2)), ((2, 3), (5, 4)), ((4, 4, 3), (2, 1, 3))]
MODES = ("full", "same", "valid")


def numbers(shape: tuple[int, ...], complex_: bool = False) -> HostArray:
    rng = np.random.default_rng(sum(shape))
    real: HostArray = rng.normal(size=shape)
    return real + 1j * rng.normal(size=shape) if complex_ else real


def close(found: Any, expected: Any) -> None:
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), 1e-9, 1e-9)


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_convolutions(mode: Any, complex_: bool) -> None:
    for first, second in SHAPES:
        x, y = numbers(first, complex_), numbers(second, complex_)
        close(signal.convolve(x, y, mode), scipy.signal.convolve(x, y, mode))
        close(signal.convolve(x, y, mode, "fft"), scipy.signal.convolve(x, y, mode))
        close(signal.correlate(x, y, mode), scipy.signal.correlate(x, y, mode))
        if x.ndim == 2:
            close(signal.convolve2d(x, y, mode), scipy.signal.convolve2d(x, y, mode))
            close(signal.correlate2d(x, y, mode), scipy.signal.correlate2d(x, y, mode))
    x, y = numbers((4, 6), complex_), numbers((4, 3), complex_)
    close(signal.fftconvolve(x, y, mode, axes=1), scipy.signal.fftconvolve(x, y, mode, axes=1))
    close(signal.fftconvolve(x, y[:1], mode, axes=[1]), scipy.signal.fftconvolve(x, y[:1], mode, axes=1))


SEGMENTS: list[dict[str, Any]] = [
    {"nperseg": 16},
    {"nperseg": 16, "noverlap": 3, "fs": 10.0},
    {"nperseg": 16, "nfft": 20},
    {"nperseg": 15, "detrend": "linear"},
    {"nperseg": 8, "window": ("kaiser", 3.0)},
    {"nperseg": 8, "window": np.arange(1.0, 9.0)},
    {"nperseg": 16, "return_onesided": False},
]


@pytest.mark.filterwarnings("ignore:Input data is complex")
@pytest.mark.parametrize("given", SEGMENTS, ids=str)
def test_spectra(given: dict[str, Any]) -> None:
    for x in (numbers((3, 50)), numbers((2, 50), complex_=True), numbers((50,))):
        for boundary, padded in itertools.product(("zeros", "even", "odd", "constant", None), (True, False)):
            options = {**given, "boundary": boundary, "padded": padded}
            for found, expected in zip(signal.stft(x, **options), scipy.signal.stft(x, **options), strict=True):
                close(found, expected)
        y = x[..., ::-1][..., :40]
        for scaling, average in itertools.product(("density", "spectrum"), ("mean", "median")):
            options = {**given, "scaling": scaling, "average": average}
            for found, expected in zip(signal.csd(x, y, **options), scipy.signal.csd(x, y, **options), strict=True):
                close(found, expected)
            for found, expected in zip(signal.welch(x, **options), scipy.signal.welch(x, **options), strict=True):
                close(found, expected)


def test_densities_keep_the_precision_of_the_signal() -> None:
    x = numbers((50,)).astype("float32")
    for average in ("mean", "median"):
        for found in (*signal.welch(x, nperseg=8, average=average), *signal.csd(x, x[::-1], average=average)):
            assert found.dtype in ("float32", "complex64")


@pytest.mark.filterwarnings("ignore:NOLA")
@pytest.mark.parametrize("given", [{"nperseg": 16}, {"nperseg": 15}, {"nperseg": 16, "noverlap": 12}, {"nperseg": 9}])
def test_signals_come_back(given: dict[str, Any]) -> None:
    for x, onesided in ((numbers((3, 50)), True), (numbers((50,)), True), (numbers((2, 50), complex_=True), False)):
        z = scipy.signal.stft(x, return_onesided=onesided, **given)[2]
        for boundary in (True, False):
            options = {"input_onesided": onesided, "boundary": boundary, **given}
            for found, expected in zip(signal.istft(z, **options), scipy.signal.istft(z, **options), strict=True):
                close(found, expected)
    z = scipy.signal.stft(numbers((3, 50)), **given)[2]
    for order, when, which in (((2, 1, 0), 0, 1), ((1, 2, 0), 1, 0), ((1, 0, 2), 2, 0)):
        options = {"time_axis": when, "freq_axis": which, **given}
        moved = z.transpose(order)
        close(signal.istft(moved, **options)[1], scipy.signal.istft(moved, **options)[1])


def test_other_axes_and_functions_for_trends() -> None:
    x = numbers((50, 3))

    def centred(part: Any) -> Any:
        return part - part.mean()

    for options in ({"nperseg": 8}, {"nperseg": 8, "detrend": centred}):
        close(signal.stft(x, axis=0, **options)[2], scipy.signal.stft(x, axis=0, **options)[2])
    close(signal.welch(x, nperseg=8, axis=0)[1], scipy.signal.welch(x, nperseg=8, axis=0)[1])


@pytest.mark.parametrize("kind", ["constant", "linear"])
def test_detrend(kind: Any) -> None:
    x = numbers((6, 9))
    points: Any
    for axis, points in itertools.product((0, 1), (0, [1, 4])):
        close(signal.detrend(x, axis, kind, points), scipy.signal.detrend(x, axis, kind, points))
    z = numbers((7,), complex_=True)
    close(signal.detrend(z, type=kind), scipy.signal.detrend(z, type=kind))


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
def test_cosine_transforms(norm: Any) -> None:
    for n, axis, complex_ in itertools.product((None, 3, 9), (0, 1, -1), (False, True)):
        x = numbers((5, 6), complex_)
        close(fft.dct(x, 2, n, axis, norm), scipy.fft.dct(x, 2, n, axis, norm))
        close(fft.idct(x, 2, n, axis, norm), scipy.fft.idct(x, 2, n, axis, norm))
    x = numbers((3, 4, 5))
    cases: list[tuple[Any, Any]] = [(None, None), ((2, 7), None), (None, (0, 2)), ((4, 4), (1, 0)), (3, 2)]
    for s, axes in cases:
        close(fft.dctn(x, 2, s, axes, norm), scipy.fft.dctn(x, 2, s, axes, norm))
        close(fft.idctn(x, 2, s, axes, norm), scipy.fft.idctn(x, 2, s, axes, norm))
    assert fft.dct(x.astype("float32")).dtype == fft.idct(x.astype("float32")).dtype == np.float32


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
def test_map_coordinates(mode: str, order: int) -> None:
    at = [np.random.default_rng(i).uniform(-9, 12, (3, 2)) for i in range(2)]
    places: Any = at
    chosen: Any = order
    scipys: Any = {"constant": "grid-constant", "wrap": "grid-wrap"}.get(mode, mode)
    for shape in ((5, 4), (1, 3)):
        x = numbers(shape)
        expected = scipy.ndimage.map_coordinates(x, places, order=chosen, mode=scipys, cval=3.5)
        close(ndimage.map_coordinates(x, at, order, mode, 3.5), expected)
        close(jit(lambda x, mode=mode: ndimage.map_coordinates(x, at, order, mode, 3.5))(x), expected)
    rounded = ndimage.map_coordinates(np.arange(20).reshape(5, 4), at, order, mode)
    assert rounded.dtype == np.int64


def test_codes_of_observations() -> None:
    x, book = numbers((20, 3)), numbers((4, 3))
    for points, codes in ((x, book), (x[:, 0], book[:, 0])):
        for found, expected in zip(cluster.vq.vq(points, codes), scipy.cluster.vq.vq(points, codes), strict=True):
            close(found, expected)


@pytest.mark.sweep
def test_derivatives() -> None:
    x, y = numbers((12,)), numbers((5,))

    def ours(x: Any, y: Any) -> Array:
        filtered = signal.fftconvolve(x, y, "same") + signal.convolve(x, y, "same")
        back = signal.istft(signal.stft(signal.detrend(filtered), nperseg=4)[2])[1]
        return (fft.idct(fft.dct(back) ** 2) * signal.welch(filtered, nperseg=4)[1].sum()).sum()

    def theirs(x: Any, y: Any) -> Any:
        import jax.scipy as jsp

        filtered = jsp.signal.fftconvolve(x, y, "same") + jsp.signal.convolve(x, y, "same")
        back = jsp.signal.istft(jsp.signal.stft(jsp.signal.detrend(filtered), nperseg=4)[2])[1]
        return (jsp.fft.idct(jsp.fft.dct(back) ** 2) * jsp.signal.welch(filtered, nperseg=4)[1].sum()).sum()

    expected = jax.grad(theirs, (0, 1))(x, y)
    for run in (grad(ours, (0, 1)), jit(grad(ours, (0, 1)))):
        for found, wanted in zip(run(x, y), expected, strict=True):
            np.testing.assert_allclose(found, wanted, 1e-7, 1e-7)
    batch = np.stack([x, 2 * x])
    close(vmap(lambda x: signal.convolve(x, y))(batch), np.stack([scipy.signal.convolve(one, y) for one in batch]))


@pytest.mark.parametrize(
    ("run", "error", "said"),
    [
        (lambda x: signal.convolve(x, x[0]), ShapeError, "the same number of dimensions"),
        (lambda x: signal.convolve(x, x, "half"), ChoiceError, "'full', 'same', 'valid', got 'half'"),
        (lambda x: signal.convolve(x, x, method="slow"), ChoiceError, "'auto', 'direct' or 'fft'"),
        (lambda x: signal.convolve(x[0, :0], x[0]), ShapeError, "no elements"),
        (lambda x: signal.convolve(x[:1], x[:, :1], "valid"), ShapeError, "the larger one in all dimensions"),
        (lambda x: signal.convolve2d(x, x, boundary="wrap"), UnsupportedError, "pad the first array"),
        (lambda x: signal.stft(x, nperseg=2, noverlap=2), InputError, "noverlap .2. must be less than nperseg"),
        (lambda x: signal.stft(x, nperseg=0), InputError, "nperseg must be positive"),
        (lambda x: signal.stft(x, nperseg=3, nfft=2), InputError, "nfft .2. must not be less"),
        (lambda x: signal.stft(x, nperseg=2, boundary="sea"), ChoiceError, "boundary is 'even'"),
        (lambda x: signal.stft(x, window=np.ones(3), nperseg=2), InputError, "a segment has 2 elements"),
        (lambda x: signal.welch(x, scaling="none"), ChoiceError, "'density' or 'spectrum'"),
        (lambda x: signal.istft(x, time_axis=0, freq_axis=0), ShapeError, "both 0"),
        (lambda x: signal.detrend(x, bp=9), InputError, "breakpoints are between 0 and"),
        (lambda x: fft.dct(x, 3), UnsupportedError, "of type 2"),
        (lambda x: fft.dct(x, norm="odd"), ChoiceError, "norm is one of None, 'backward'"),
        (lambda x: fft.dctn(x, s=(2, 2), axes=1), ShapeError, "2 sizes for axes"),
        (lambda x: ndimage.map_coordinates(x, [x], 1), ShapeError, "2 dimensions need as many coordinates"),
        (lambda x: ndimage.map_coordinates(x, [x, x], 3), UnsupportedError, "order is 0"),
        (lambda x: ndimage.map_coordinates(x, [x, x], 1, "sea"), UnsupportedError, "mode 'sea'"),
        (lambda x: cluster.vq.vq(x, x[:, :1]), ShapeError, "rows of the same length"),
    ],
)
def test_bad_input(run: Callable[[HostArray], object], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        run(np.ones((2, 4)))
