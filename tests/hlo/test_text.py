"""Constants in StableHLO text are what they were, to the bit."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from tests.hlo.programs import run
from tinyjax.errors import LoweringError
from tinyjax.hlo import lower
from tinyjax.hlo.text import ELEMENT_TYPES, dense_text, scalar_text, type_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BOOL,
    COMPLEX128,
    FLOAT0,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT64,
    SHORT_NAMES,
    SUPPORTED,
    UINT64,
    WIDE,
    DType,
    HostArray,
    Scalar,
    all_numbers,
)
from tinyjax.ir.program import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.constant import Constant

DTYPES = [dtype for dtype in ELEMENT_TYPES if dtype in SUPPORTED]


def random_bits(shape: Shape, dtype: DType) -> HostArray:
    """An array of any bits: among floats nans of all kinds, infinities, and subnormal numbers."""
    rng = np.random.default_rng(0)
    size = math.prod(shape)
    if dtype == BOOL:
        return rng.integers(0, 2, shape).astype(BOOL)
    if dtype in WIDE:  # which leave bits of their bytes empty
        return rng.choice(all_numbers(dtype), shape)
    array = np.frombuffer(rng.bytes(size * dtype.itemsize), dtype).copy()
    if dtype in FLOATS and size > 4:
        array[:5] = np.asarray([-0.0, math.nan, math.inf, -math.inf, 0.1]).astype(dtype)
    return array.reshape(shape)


def returned(array: HostArray) -> HostArray:
    """What a program returns that consists of a constant."""
    constant = Constant(ConcreteValue.of(array))
    (aval,) = constant.type_of()
    out = Var(0, aval)
    (result,) = run(Jaxpr((), (Eqn(constant, (), (out,)),), (out,)))
    return result


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (3, 30), (0, 3), (3, 0)])
@pytest.mark.parametrize("dtype", DTYPES, ids=SHORT_NAMES.__getitem__)
def test_arrays_are_exact(dtype: DType, shape: Shape) -> None:
    array = random_bits(shape, dtype)
    result = returned(array)
    assert (result.shape, result.dtype) == (shape, dtype)
    assert result.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT32, FLOAT64], ids=SHORT_NAMES.__getitem__)
def test_short_decimals_are_exact(dtype: DType) -> None:
    unsigned = np.dtype(f"u{dtype.itemsize}")
    smallest = np.arange(3).astype(unsigned).view(dtype)  # zero, and the first subnormal numbers
    array = np.concatenate([smallest, np.asarray([0.1, -1 / 3, 1e-7, 6e4, -0.0]).astype(dtype)])
    assert '"' not in dense_text(array)
    assert returned(array).tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (-0.0, FLOAT64),
        (struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0], FLOAT64),
        (math.inf, FLOAT16),
        (1e-300, FLOAT64),
        (complex(-0.0, math.inf), COMPLEX128),
        (complex(math.nan, 1 / 3), COMPLEX128),
        (True, BOOL),
        (-(2**63), INT64),
        (2**64 - 1, UINT64),
    ],
)
def test_literals_are_exact(value: Scalar, dtype: DType) -> None:
    literal = Literal(value, array_type((), dtype))
    (result,) = run(Jaxpr((), (), (literal,)))
    assert result.dtype == dtype
    assert result.tobytes() == np.asarray(value, dtype).tobytes()


def test_arrays_in_memory_in_any_order() -> None:
    array = np.arange(120.0).reshape(4, 5, 6).transpose(2, 0, 1)[::-1]
    np.testing.assert_array_equal(returned(array), array)
    assert dense_text(np.arange(20, dtype=">i4")) == dense_text(np.arange(20, dtype="<i4"))


def test_constants_of_a_closed_jaxpr_are_spelled_out() -> None:
    x, y = Var(0, ShapedArray((2,), FLOAT32)), Var(1, ShapedArray((), INT64))
    closed = ClosedJaxpr(Jaxpr((x, y), (), (x, y)), (ConcreteValue.of(np.asarray([1.5, -2], FLOAT32)),))
    text = lower(closed)
    assert "stablehlo.constant dense<[1.5, -2.0]> : tensor<2xf32>" in text
    assert "@main(%arg0: tensor<i64>)" in text
    assert "@main(%arg0: tensor<2xf32>, %arg1: tensor<i64>)" in lower(closed.jaxpr)


def test_types() -> None:
    assert [type_text(ShapedArray((2,), dtype)) for dtype in DTYPES] == [
        f"tensor<2x{element}>"
        for element in (
            *("i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"),
            *("f16", "bf16", "f32", "f64", "complex<f32>", "complex<f64>"),
            *("f8E3M4", "f8E4M3", "f8E4M3B11FNUZ", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "f8E8M0FNU"),
            *("f4E2M1FN", "i4", "i2", "ui4", "ui2"),
        )
    ]
    assert type_text(ShapedArray((), FLOAT32, weak_type=True)) == "tensor<f32>"


def test_float0_is_neither_taken_nor_returned() -> None:
    x = Var(0, ShapedArray((3,), FLOAT0))
    for program in (Jaxpr((x,), (), (x,)), Jaxpr((x,), (), ())):
        with pytest.raises(LoweringError, match=r"no arrays of dtype float0.*drop them from the arguments"):
            lower(program)


def test_numbers_as_text() -> None:
    assert scalar_text(1e22, FLOAT64) == "1.0e+22"
    assert scalar_text(-1.5e-9, FLOAT64) == "-1.5e-09"
    assert scalar_text(-math.inf, FLOAT16) == "0xFC00"
