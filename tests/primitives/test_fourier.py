"""Fourier transforms: types, values, derivatives, batching; and that the transpose undoes what it should."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax import numpy as jnp

from tests.primitives.array_catalog import Case, aval, case, cases
from tests.primitives.array_checks import check_all, check_batch, check_transpose, check_value, samples
from tinyjax import hlo, jit, make_jaxpr
from tinyjax.errors import ShapeError, TinyjaxError, TypingError
from tinyjax.primitives.fourier import Fft, FftType


@pytest.mark.parametrize("example", cases("fft"), ids=lambda example: example.name)
@pytest.mark.sweep
def test_catalog(example: Case) -> None:
    check_all(example)


@pytest.mark.sweep
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(FftType),
    st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple),
    st.lists(st.integers(0, 2), max_size=1).map(tuple),
)
def test_of_any_size(kind: FftType, lengths: tuple[int, ...], rows: tuple[int, ...]) -> None:
    last = lengths[-1] // 2 + 1 if kind is FftType.IRFFT else lengths[-1]
    dtype = "float64" if kind is FftType.RFFT else "complex128"
    types = f"{dtype}[{','.join(map(str, (*rows, *lengths[:-1], last)))}]"
    example = case("", Fft(kind, lengths), types, lambda x: jnp.asarray(lax.fft(x, kind.name, lengths)), (0,))
    rng = np.random.default_rng(len(types))
    args = samples(example.avals, rng)
    check_value(example, args)
    check_batch(example.primitive, example.avals, rng)
    check_transpose(example, args, rng)


@pytest.mark.parametrize(
    ("primitive", "types", "error", "message"),
    [
        (Fft(FftType.FFT, (3,)), "float32[3]", TypingError, "fft of type FFT does not accept f32 operands"),
        (Fft(FftType.RFFT, (3,)), "complex64[3]", TypingError, "fft of type RFFT does not accept c64 operands"),
        (Fft(FftType.RFFT, (3,)), "float16[3]", TypingError, "does not accept f16 operands"),
        (Fft(FftType.FFT, (4,)), "complex64[3]", ShapeError, r"the last axes of c64\[3\] don't have the sizes"),
        (Fft(FftType.IRFFT, (4,)), "complex64[4]", ShapeError, r"of which IRFFT takes \(3,\)"),
        (Fft(FftType.FFT, (3, 3)), "complex64[3]", ShapeError, "the last axes"),
        (Fft(FftType.FFT, ()), "complex64[3]", ShapeError, "1 to 3 axes"),
        (Fft(FftType.FFT, (1, 1, 1, 1)), "complex64[1,1,1,1]", ShapeError, "1 to 3 axes"),
        (Fft(FftType.IRFFT, (0,)), "complex64[1]", ShapeError, "too small for IRFFT"),
    ],
)
def test_errors(primitive: Fft, types: str, error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        primitive.type_of(aval(types))


def test_of_nothing() -> None:
    """Nothing is transformed to nothing, compiled too."""
    from tinyjax import lax as ours

    empty = np.zeros((2, 0), np.complex64)
    for found in (ours.fft(empty, "fft", (0,)), jit(lambda x: ours.fft(x, "ifft", (0,)))(empty)):
        assert found.shape == (2, 0)
        assert found.dtype == np.complex64


def test_several_axes_of_irfft_on_gpu() -> None:
    """Those but the last are transformed apart there, and the result is the same: as the rule's program says."""
    from tinyjax import lax as ours

    x = np.ones((2, 3, 3), np.complex64)
    program = make_jaxpr(lambda x: ours.fft(x, "irfft", (3, 4)))(x)
    text = hlo.lower(program, platform="cuda")
    assert "type = IFFT, length = [3]" in text
    assert "type = IRFFT, length = [4]" in text
    assert "type = IRFFT, length = [3, 4]" in hlo.lower(program)
