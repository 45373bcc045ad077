"""Products of operands of few bits, against NumPy with the dtypes of ml_dtypes."""

from __future__ import annotations

from typing import Any, Final, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import nn
from tinyjax.errors import ChoiceError, InputError, ShapeError

Floats = npt.NDArray[np.float32]
MODES: Final[tuple[Literal["mxfp8", "nvfp4"], ...]] = ("mxfp8", "nvfp4")


def rounded(x: Floats, mode: str, global_scale: float = 1.0) -> Floats:
    """What an operand [batch, rows, contracted] is rounded to."""
    size = 32 if mode == "mxfp8" else 16
    blocks = (x / np.float32(global_scale)).reshape(*x.shape[:-1], -1, size)
    if mode == "mxfp8":
        scales = np.max(np.abs(blocks), axis=-1, keepdims=True) / 448
        powers = np.exp2(np.ceil(np.log2(np.where(scales == 0, 1, scales)))).astype("float32")
        elements = np.clip(blocks / powers, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype("float32") * powers
    else:
        scales = (np.max(np.abs(blocks), axis=-1, keepdims=True) / 6).astype(ml_dtypes.float8_e4m3fn).astype("float32")
        safe = np.where(scales == 0, 1, scales)
        elements = np.clip(blocks / safe, -6, 6).astype(ml_dtypes.float4_e2m1fn).astype("float32") * scales
    whole: Floats = (elements * np.float32(global_scale)).reshape(x.shape).astype("float32")
    return whole


def arrays(*shapes: tuple[int, ...]) -> list[Floats]:
    rng = np.random.default_rng(len(shapes))
    return [(rng.normal(size=shape) * np.exp2(rng.integers(-4, 4, size=shape))).astype("float32") for shape in shapes]


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("mode", MODES)
def test_values(mode: Literal["mxfp8", "nvfp4"], scale: float) -> None:
    x, y = arrays((3, 5, 64), (3, 4, 64))
    x[0, 0, :32] = 0.0
    config = nn.get_scaled_dot_general_config(mode, None if mode == "mxfp8" else np.array([scale], "float32"))
    used = 1.0 if mode == "mxfp8" else scale
    found = nn.scaled_dot_general(x, y, (((2,), (2,)), ((0,), (0,))), configs=[config] * 3)
    right = np.einsum("bmk,bnk->bmn", rounded(x, mode, used), rounded(y, mode, used))
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-3)
    compiled = tj.jit(lambda x, y: nn.scaled_dot_general(x, y, (((2,), (2,)), ((0,), (0,))), configs=[config] * 3))
    np.testing.assert_allclose(compiled(x, y), right, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("left", "right", "numbers"),
    [
        ((5, 64), (64, 3), (((1,), (0,)), ((), ()))),
        ((4, 32, 2, 5), (2, 3, 4, 32), (((0, 1), (2, 3)), ((2,), (0,)))),
        ((32, 2), (3, 32), (((0,), (1,)), ((), ()))),
    ],
)
def test_dimensions_are_those_of_dot_general(left: Any, right: Any, numbers: Any) -> None:
    """Of what is exact in so few bits, it is the product itself."""
    rng = np.random.default_rng(0)
    x, y = (np.exp2(rng.integers(0, 2, size=shape)).astype("float32") for shape in (left, right))
    configs = [nn.get_scaled_dot_general_config("mxfp8")] * 3
    expected = tj.lax.dot_general(x, y, numbers)
    np.testing.assert_array_equal(nn.scaled_dot_general(x, y, numbers, configs=configs), expected)
    np.testing.assert_array_equal(nn.scaled_dot_general(x, y, numbers), expected)
    half = nn.scaled_dot_general(x, y, numbers, np.float16, configs)
    assert half.dtype == np.float16


@pytest.mark.parametrize("mode", MODES)
def test_derivatives(mode: Literal["mxfp8", "nvfp4"]) -> None:
    x, y, ct = arrays((2, 64, 32), (2, 32, 32), (2, 64, 32))
    configs = [nn.get_scaled_dot_general_config(mode)] * 3

    def f(x: Any, y: Any) -> tj.Array:
        return nn.scaled_dot_general(x, y, (((2,), (2,)), ((0,), (0,))), configs=configs)

    found = tj.vjp(f, x, y)[1](ct)
    if mode == "nvfp4":  # cotangents aren't rounded
        expected = [np.einsum("bmn,bnk->bmk", ct, y), np.einsum("bmn,bmk->bnk", ct, x)]
    else:
        swapped = np.swapaxes(ct, 1, 2)
        expected = [
            np.einsum("bmn,bkn->bmk", rounded(ct, mode), rounded(np.ascontiguousarray(np.swapaxes(y, 1, 2)), mode)),
            np.einsum(
                "bnm,bkm->bnk",
                rounded(np.ascontiguousarray(swapped), mode),
                rounded(np.ascontiguousarray(np.swapaxes(x, 1, 2)), mode),
            ),
        ]
    for derivative, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(derivative, right, rtol=1e-4, atol=2e-2)


def test_what_is_out_of_range_has_no_derivative() -> None:
    configs = [nn.get_scaled_dot_general_config("nvfp4")] * 3
    x = np.ones((1, 16), "float32")
    x[0, 3] = 1e4

    def f(x: Any) -> tj.Array:
        return tnp.sum(nn.scaled_dot_general(x, np.ones((1, 16), "float32"), (((1,), (1,)), ((), ())), configs=configs))

    np.testing.assert_array_equal(tj.grad(f)(x), np.where(x > 6 * 448, 0.0, 1.0))


def test_errors() -> None:
    mode: Any = "int8"
    with pytest.raises(ChoiceError, match="mode is 'nvfp4' or 'mxfp8', got 'int8'"):
        nn.get_scaled_dot_general_config(mode)
    configs = [nn.get_scaled_dot_general_config("mxfp8")] * 3
    x = np.ones((2, 40), "float32")
    numbers = (((1,), (1,)), ((), ()))
    with pytest.raises(ShapeError, match="blocks of 32 elements don't divide an axis of size 40"):
        nn.scaled_dot_general(x, x, numbers, configs=configs)
    with pytest.raises(InputError, match="got 2"):
        nn.scaled_dot_general(x, x, numbers, configs=configs[:2])
    with pytest.raises(ChoiceError, match="is float32, float16 or bfloat16, got float64"):
        nn.scaled_dot_general(x, x, numbers, np.float64, configs)
