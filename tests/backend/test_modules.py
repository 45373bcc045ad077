"""Modules that were written by others, compiled."""

from __future__ import annotations

import numpy as np
import pytest

from tinyjax import backend
from tinyjax.errors import InputError, XlaError

SCALED = """
func.func public @main(%x: tensor<2x3xf32>, %n: tensor<i32>) -> (tensor<2x3xf32>, tensor<i1>) {
  %0 = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %2 = stablehlo.multiply %x, %1 : tensor<2x3xf32>
  %3 = stablehlo.compare GT, %n, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  return %2, %3 : tensor<2x3xf32>, tensor<i1>
}
"""
INS = [((2, 3), "float32"), ((), "int32")]
OUTS = [((2, 3), "float32"), ((), "bool")]


def test_values_and_dtypes() -> None:
    run = backend.compile_module(SCALED, INS, OUTS)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    scaled, greater = run([x, np.asarray(3, np.int32)])
    np.testing.assert_array_equal(scaled, 3 * x)
    assert (str(scaled.dtype), str(greater.dtype), bool(greater)) == ("float32", "bool", False)


@pytest.mark.parametrize(
    "args",
    [[], [np.zeros((2, 3), np.float32)], [np.zeros((2, 3)), np.int32(1)], [np.zeros(3, np.float32), np.int32(1)]],
)
def test_other_arguments_are_refused(args: list[np.ndarray]) -> None:
    run = backend.compile_module(SCALED, INS, OUTS, "scaled")
    with pytest.raises(InputError, match=r"'scaled' was compiled for \(f32\[2,3\], i32\[\]\), got \("):
        run(args)


def test_text_that_is_no_module() -> None:
    with pytest.raises(XlaError, match="could not compile 'nonsense'"):
        backend.compile_module("func.func @main() {", [], [], "nonsense")
