"""`tinyjax.numpy.fft` against NumPy, and its types, derivatives and batches against JAX."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyjax.numpy as tnp
from tinyjax import Array, grad, jit, lax, make_jaxpr, vmap
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.ir.dtypes import BFLOAT16, FLOAT16, HostArray
from tinyjax.tracing.array import ArrayLike

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MANY = ("fftn", "ifftn", "rfftn", "irfftn")
TWO = ("fft2", "ifft2", "rfft2", "irfft2")
NORMS = (None, "backward", "ortho", "forward")
REAL = ("rfft", "ihfft", "rfftn", "rfft2")


def numbers(shape: Sequence[int], dtype: str) -> HostArray:
    rng = np.random.default_rng(len(shape))
    x: HostArray = rng.normal(size=shape) * 3
    return (x + 1j * rng.normal(size=shape)).astype(dtype) if dtype.startswith("complex") else x.astype(dtype)


def close(found: object, expected: HostArray) -> None:
    array = np.asarray(found)
    assert array.shape == expected.shape
    tolerance = 1e-10 if array.dtype in (np.float64, np.complex128) else 2e-4
    np.testing.assert_allclose(array, expected, tolerance, tolerance)


@pytest.mark.parametrize("name", ONE)
def test_along_any_axis(name: str) -> None:
    """Sizes that cut and that add zeros, and every norm."""
    x = numbers((4, 5, 3), "float64" if name in REAL else "complex128")
    for n, axis, norm in itertools.product((None, 1, 2, 8), (-1, 0, 1), NORMS):
        found = getattr(tnp.fft, name)(x, n, axis, norm)
        close(found, getattr(np.fft, name)(x, n, axis, norm))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(MANY), st.lists(st.integers(2, 4), min_size=2, max_size=5), st.sampled_from(NORMS), st.data())
def test_over_any_axes(name: str, shape: list[int], norm: str | None, data: st.DataObject) -> None:
    """More than three, too, in any order."""
    axes = data.draw(st.none() | st.lists(st.sampled_from(range(len(shape))), min_size=1, unique=True))
    chosen = range(len(shape)) if axes is None else axes
    s = data.draw(st.none() | st.tuples(*[st.integers(1, 5) for _ in chosen])) if axes else None
    x = numbers(shape, "float64" if name in REAL else "complex128")
    found = getattr(tnp.fft, name)(x, s, axes, norm)
    close(found, getattr(np.fft, name)(x, s, axes, norm))


@pytest.mark.parametrize("name", TWO)
def test_over_two(name: str) -> None:
    x = numbers((3, 2, 4), "float64" if name in REAL else "complex128")
    for s, axes in (((4, 5), (-2, -1)), (None, (2, 0))):
        close(getattr(tnp.fft, name)(x, s, axes), getattr(np.fft, name)(x, s, axes))


@pytest.mark.parametrize("name", ONE)
def test_types(name: str) -> None:
    """Those of JAX; and half precision, which it refuses for some, is computed in single."""
    dtypes = ["bool", "int8", "uint32", "int64", "float32", "float64"]
    for dtype in dtypes if name in REAL else [*dtypes, "complex64", "complex128"]:
        x = np.ones((4,), dtype)
        assert getattr(tnp.fft, name)(x).dtype == jax.eval_shape(getattr(jnp.fft, name), x).dtype
    for half in (FLOAT16, BFLOAT16):
        assert getattr(tnp.fft, name)(np.ones(4, half)).dtype == getattr(tnp.fft, name)(np.ones(4, "float32")).dtype


@pytest.mark.parametrize("name", ["fft", "ihfft", "hfft", "rfftn", "irfftn", "fft2"])
def test_within_transformations(name: str) -> None:
    """Compiled, differentiated twice, and mapped."""
    x = numbers((3, 4), "float64")
    ours, theirs = getattr(tnp.fft, name), getattr(jnp.fft, name)
    w = np.cos(np.arange(20.0))[: np.asarray(ours(x)).shape[1]]
    close(jit(ours)(x), np.asarray(ours(x)))

    def first(x: ArrayLike) -> Array:
        return tnp.sum(grad(lambda x: tnp.sum(tnp.abs(ours(tnp.square(x))) ** 2 * w))(x) ** 2)

    def first_of_jax(x: jax.Array) -> jax.Array:
        return jnp.sum(jax.grad(lambda x: jnp.sum(jnp.abs(theirs(x * x)) ** 2 * w))(x) ** 2)

    found, expected = grad(first)(x), np.asarray(jax.jit(jax.grad(first_of_jax))(x))
    np.testing.assert_allclose(np.asarray(found), expected, 1e-8, 1e-8)
    stacked = np.stack([x, 2 * x], 1)
    close(vmap(ours, in_axes=1)(stacked), np.stack([np.asarray(ours(x)), np.asarray(ours(2 * x))]))


def test_frequencies() -> None:
    for n, d in ((1, 1.0), (4, 0.5), (5, 2.0), (6, 3)):
        close(tnp.fft.fftfreq(n, d), np.fft.fftfreq(n, d))
        close(tnp.fft.rfftfreq(n, d), np.fft.rfftfreq(n, d))
        close(tnp.fft.fftfreq(n, d, dtype="float32"), np.fft.fftfreq(n, d))
    assert tnp.fft.rfftfreq(4, np.float32(2)).dtype == np.float64
    assert tnp.fft.fftfreq(4, dtype="float32").dtype == np.float32
    slope = grad(lambda d: tnp.sum(tnp.fft.fftfreq(5, d) ** 2))(2.0)
    np.testing.assert_allclose(np.asarray(slope), -np.sum(np.fft.fftfreq(5, 2.0) ** 2))


def test_shifts() -> None:
    x = np.arange(30).reshape(2, 3, 5)
    for axes in (None, 0, -1, (0, 2), (1, 1), ()):
        close(tnp.fft.fftshift(x, axes), np.fft.fftshift(x, axes))
        close(tnp.fft.ifftshift(x, axes), np.fft.ifftshift(x, axes))


def test_how_many_equations() -> None:
    """One, where sizes and axes are as they are; more than three axes are transformed in turns."""
    x = np.ones((2, 2, 2, 2), np.complex64)
    assert len(make_jaxpr(lambda x: tnp.fft.fftn(x, axes=(1, 2, 3)))(x).eqns) == 1
    names = [eqn.primitive.name for eqn in make_jaxpr(tnp.fft.ifftn)(x).eqns]
    assert names == ["fft", "transpose", "fft", "transpose"]
    assert tnp.fft.fft(np.zeros((2, 0), np.complex64)).shape == (2, 0)
    assert lax.fft(np.float32(2), "fft", ()).dtype == np.complex64


X = np.ones((2, 3))
#: Called with arguments that type checkers refuse.
FFT: Callable[..., object] = tnp.fft.fft
FFTFREQ: Callable[..., object] = tnp.fft.fftfreq


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: tnp.fft.fft(X, norm="both"),
            ChoiceError,
            'fft: norm is "backward", "ortho" or "forward", got',
        ),
        (lambda: tnp.fft.fft(X, axis=2), ShapeError, "fft: axis 2 is out of range"),
        (
            lambda: FFT(X, axis=(0, 1)),
            ShapeError,
            r"does not support multiple axes. Please use fftn. Got",
        ),
        (lambda: tnp.fft.rfft(X, 0), ShapeError, "rfft: Shape should be positive"),
        (lambda: tnp.fft.irfft(np.ones((2, 1))), ShapeError, r"irfft: .* at least 1 element, got \(0,\)"),
        (lambda: tnp.fft.fftn(X, axes=(1, -1)), ShapeError, "fftn does not support repeated axes"),
        (
            lambda: tnp.fft.fftn(X, (2, 3, 4)),
            ShapeError,
            r"has more sizes than f64\[2,3\] has axes",
        ),
        (lambda: tnp.fft.fftn(X, (2,), (0, 1)), ShapeError, "Shape and axes have different lengths"),
        (lambda: tnp.fft.fft2(X, axes=(0,)), ShapeError, "fft2 only supports 2 axes. .* For others there is fftn"),
        (lambda: tnp.fft.rfft(X + 1j), ChoiceError, "only real valued inputs supported for rfft, got c128"),
        (lambda: FFTFREQ([1]), ShapeError, r"The n argument of fftfreq only takes an int. Got n = \[1\]"),
        (lambda: tnp.fft.fftfreq(0), ShapeError, "at least 1, got 0"),
        (lambda: FFTFREQ(3, [1.0]), ShapeError, "The d argument of fftfreq only takes a single value"),
        (lambda: tnp.fft.fftfreq(3, np.ones(2)), ShapeError, r"one real number, got f64\[2\]"),
        (lambda: lax.fft(X, "dct", (3,)), ChoiceError, "fft_type is one of FFT, IFFT, RFFT, IRFFT.* got 'dct'"),
        (lambda: lax.fft(X, "fft", (1, 2, 3)), ShapeError, r"FFT input shape \(2, 3\) must have at least as many"),
        (lambda: lax.fft(X, "rfft", 4), ShapeError, r"minor dimensions must be equal to fft_lengths \(4,\)"),
        (lambda: lax.fft(X, "irfft", (3, 4)), ShapeError, "all except the last fft_length"),
        (lambda: lax.fft(X, "irfft", 3), ShapeError, r"has 3 elements along its last axis, where .* takes 2"),
        (lambda: lax.fft(X.astype("float16"), "rfft", 3), ChoiceError, "must be float32 or float64, got float16"),
    ],
)
def test_errors(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_frequencies_are_of_the_dtype_that_is_asked_for() -> None:
    for dtype in ("complex64", "float32", "int64"):
        found = tnp.fft.fftfreq(5, 0.2, dtype=dtype)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, np.fft.fftfreq(5, 0.2).astype(dtype), 1e-4)
