"""Convolutions and what is defined by them, against jax.lax."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tests.numpy.oracle import agree, numbers
from tinyjax import lax
from tinyjax.errors import InputError, ShapeError, TinyjaxError, TypingError

X, W = numbers("float32", 2, 5, 6, 4), numbers("float32", 3, 2, 4, 3)
TWO = ("NHWC", "HWIO", "NHWC")
ONE = numbers("float64", 2, 3, 6)
KERNEL = numbers("float64", 4, 3, 2)

#: What is called, with `lax` as the argument.
CALLS: dict[str, Callable[[Any], Any]] = {
    "same": lambda m: m.conv_general_dilated(X, W, (2, 1), "SAME", None, (1, 2), TWO),
    "same-lower": lambda m: m.conv_general_dilated(X, W, (2, 1), "SAME_LOWER", None, (1, 2), TWO),
    "valid": lambda m: m.conv_general_dilated(X, W, (1, 1), "valid", dimension_numbers=TWO),
    "pairs": lambda m: m.conv_general_dilated(X, W, (1, 1), [(1, -1), (0, 2)], (1, 2), None, TWO),
    "numbers": lambda m: m.conv_general_dilated(
        X, W, (1, 1), "SAME", dimension_numbers=m.ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (1, 0, 2, 3))
    ),
    "plain": lambda m: m.conv(ONE, KERNEL, (2,), "SAME", "highest"),
    "general": lambda m: m.conv_with_general_padding(ONE, KERNEL, (1,), [(3, 1)], (2,), (2,)),
    "float64": lambda m: m.conv(X[0], X[0], (1,), "VALID", preferred_element_type="float64"),
    "transposed-same": lambda m: m.conv_transpose(X, W, (2, 3), "SAME"),
    "transposed-valid": lambda m: m.conv_transpose(X, W, (2, 1), "VALID", (2, 1)),
    "transposed-large-stride": lambda m: m.conv_transpose(X, W, (4, 5), "SAME"),
    "transposed-pairs": lambda m: m.conv_transpose(X, W, (2, 1), [(1, 2), (0, 1)]),
    "transposed-consistent": lambda m: m.conv_transpose(X, W, (2, 1), ((1, 2), (0, 1)), use_consistent_padding=True),
    "transposed-kernel": lambda m: m.conv_transpose(
        ONE, KERNEL.swapaxes(0, 1), (2,), "SAME", None, ("NCH", "OIH", "NCH"), transpose_kernel=True
    ),
    "no-space": lambda m: m.conv_transpose(X[0, 0], W[0, 0], (), "SAME"),
    "patches": lambda m: m.conv_general_dilated_patches(X, (2, 3), (1, 2), "SAME", None, (2, 1), TWO),
    "patches-order": lambda m: m.conv_general_dilated_patches(
        ONE, (3,), (2,), [(1, 1)], dimension_numbers=("CNH", "OIH", "HCN")
    ),
    "patches-of-bools": lambda m: m.conv_general_dilated_patches(ONE > 0, (3,), (2,), "SAME"),
    "local": lambda m: m.conv_general_dilated_local(ONE, numbers("float64", 4, 6, 5), (1,), "VALID", (2,)),
    "local-order": lambda m: m.conv_general_dilated_local(
        X, numbers("float32", 16, 6, 3, 3), (1, 2), "SAME", (2, 2), dimension_numbers=("NHWC", "IWHO", "CWNH")
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions(name: str) -> None:
    expected = CALLS[name](jax.lax)
    agree(CALLS[name](lax), expected)


def test_paddings() -> None:
    for name in ("SAME", "valid", "SAME_LOWER"):
        for shape, window, strides in [((5, 6), (3, 2), (2, 1)), ((1, 7), (4, 4), (3, 5)), ((0,), (3,), (1,))]:
            expected = jax.lax.padtype_to_pads(np.array(shape), np.array(window), np.array(strides), name)
            assert lax.padtype_to_pads(shape, window, strides, name) == list(map(tuple, expected))


def test_dimension_numbers() -> None:
    for given in (None, TWO, ("CWNH", "IOHW", "HCWN")):
        found = lax.conv_dimension_numbers(X.shape, W.shape, given)
        assert tuple(found) == tuple(jax.lax.conv_dimension_numbers(X.shape, W.shape, given))
        assert lax.conv_dimension_numbers(X.shape, W.shape, tuple(found)) == found


def test_under_transformations() -> None:
    def loss(module: ModuleType) -> Callable[[Any, Any], Any]:
        return lambda x, w: (module.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=TWO) ** 2).sum()

    ours, theirs = loss(lax), loss(jax.lax)
    agree(tj.jit(tj.grad(ours, (0, 1)))(X, W), jax.grad(theirs, (0, 1))(X, W), scale=100)
    kernels = numbers("float32", 3, *W.shape)
    agree(tj.vmap(tj.jit(ours), (None, 0))(X, kernels), jax.vmap(theirs, (None, 0))(X, kernels), scale=100)


def convolve(x: Any = X, w: Any = W, strides: Any = (1, 1), padding: Any = "SAME", **more: Any) -> Any:
    return lax.conv_general_dilated(x, w, strides, padding, **{"dimension_numbers": TWO, **more})


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: convolve(w=W[0]), ShapeError, r"lhs and rhs must have as many axes"),
        (lambda: convolve(w=W.astype("float64")), TypingError, r"one dtype, got lhs f32\[2,5,6,4\] and rhs f64"),
        (
            lambda: convolve(w=W[:, :, :3]),
            ShapeError,
            r"4 features in 1 groups \(axis 3\), but rhs .* takes 3 \(axis 2",
        ),
        (lambda: convolve(strides=(1,)), ShapeError, r"window_strides needs 2 numbers .*, got \(1,\)"),
        (lambda: convolve(strides=(1, 0)), ShapeError, r"window_strides must be at least 1, got \(1, 0\)"),
        (lambda: convolve(strides=(1, 0.5)), ShapeError, "a stride is an integer, got 0.5"),
        (lambda: convolve(rhs_dilation=(1, -1)), ShapeError, "rhs_dilation must be at least 1"),
        (lambda: convolve(lhs_dilation=(2, 2)), InputError, "no meaning where lhs is dilated.* conv_transpose"),
        (lambda: convolve(padding="FULL"), InputError, "padding is 'VALID', 'SAME', .*got 'FULL'"),
        (lambda: convolve(padding=(3, 3)), ShapeError, r"padding argument is a string, .* got \(3, 3\)"),
        (lambda: convolve(padding=[(1, 1)]), ShapeError, r"padding needs 2 pairs of numbers"),
        (lambda: convolve(padding=[(-9, 1), (0, 0)]), ShapeError, r"removes more elements than f32"),
        (lambda: convolve(feature_group_count=3), ShapeError, "feature_group_count 3 must divide the features, 4 in"),
        (lambda: convolve(feature_group_count=2), ShapeError, "feature_group_count 2 must divide .*, 3 in rhs"),
        (
            lambda: convolve(batch_group_count=3),
            ShapeError,
            "batch_group_count 3 must divide the size of",
        ),
        (lambda: convolve(batch_group_count=0), ShapeError, "batch_group_count must be at least 1, got 0"),
        (lambda: convolve(dimension_numbers=("NHWC", "HWIO")), InputError, "dimension_numbers is three strings"),
        (lambda: convolve(dimension_numbers=("NHWC", "HWIO", "NHC")), InputError, "'NHC' must have a letter for each"),
        (
            lambda: convolve(dimension_numbers=("NHWC", "HWII", "NHWC")),
            InputError,
            "'HWII' must have the letters O and",
        ),
        (lambda: convolve(dimension_numbers=("NHXC", "HWIO", "NHWC")), InputError, "the same letters for spatial axes"),
        (
            lambda: convolve(dimension_numbers=lax.ConvDimensionNumbers((0, 0, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))),
            ShapeError,
            r"lhs_spec of dimension_numbers must name each of the 4 axes once, got \(0, 0, 1, 2\)",
        ),
        (lambda: convolve(preferred_element_type="int32"), TypingError, "preferred_element_type i32 can't hold"),
        (lambda: lax.conv_transpose(X, W, (1,), "SAME"), ShapeError, "strides and rhs_dilation need 2 numbers"),
        (lambda: lax.conv_transpose(X, W, (1, 1), "FULL"), InputError, "padding"),
    ],
)
def test_errors(call: Callable[[], object], error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
