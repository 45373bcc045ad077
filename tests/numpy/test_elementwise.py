"""Functions of each element, against jax.numpy, for every dtype that goes in."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax.numpy as tnp
from tests.numpy.oracle import DTYPES, Function, compare, sample

UNARY = """
    abs absolute acos acosh angle arccos asin asinh atan atanh bitwise_count bitwise_invert cbrt ceil conj cos cosh
    deg2rad exp exp2 expm1 fabs floor imag isfinite isinf isnan isneginf isposinf iscomplex isreal log log10 log1p log2
    logical_not modf nan_to_num negative positive rad2deg real reciprocal rint round sign signbit sin sinc sinh
    sqrt square tan tanh trunc
""".split()
BINARY = """
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide divmod equal
    float_power floor_divide fmax fmin fmod greater greater_equal heaviside hypot isclose less less_equal logaddexp
    logaddexp2 logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal power remainder subtract
""".split()
PAIRS = [(dtype, dtype) for dtype in DTYPES] + [
    ("int8", "uint8"),
    ("bool", "int32"),
    ("uint32", "int8"),
    ("int32", "float32"),
    ("float32", "int64"),
    ("bfloat16", "float16"),
    ("float64", "complex64"),
]


def _functions(names: list[str]) -> dict[str, tuple[Function, Function]]:
    return {name: (getattr(tnp, name), getattr(jnp, name)) for name in names}


@pytest.mark.parametrize("dtype", DTYPES)
def test_unary(dtype: str) -> None:
    x = sample(dtype)
    compare(_functions(UNARY), [x], [x])


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_binary(left: str, right: str) -> None:
    x, y = np.meshgrid(sample(left), sample(right))
    compare(_functions(BINARY), [x, y], [x, y])
