"""What computes a primitive where types are known: to the bit what computes it where they aren't."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax.ir import Primitive, ShapedArray
from tinyjax.ir.dtypes import as_dtype
from tinyjax.primitives.arithmetic import IntegerPow, Rem
from tinyjax.primitives.bitwise import ShiftRightArithmetic, ShiftRightLogical
from tinyjax.primitives.contractions import DotGeneral
from tinyjax.primitives.conversion import BitcastConvertType, ConvertElementType
from tinyjax.primitives.convolution import ConvDimensionNumbers, ConvGeneralDilated
from tinyjax.primitives.numpy_values import QUIET
from tinyjax.primitives.reductions import ReduceAnd, ReduceMax, ReduceMin, ReduceOr
from tinyjax.primitives.selection import SelectN
from tinyjax.primitives.shaping import Rev
from tinyjax.primitives.slicing import Concatenate, Pad

Array = np.ndarray[Any, Any]
DTYPES = (
    *("bool", "int8", "int32", "int64", "uint8", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
WHOLE = [dtype for dtype in DTYPES if "int" in dtype]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 2.5, -3.5, 1e3, -1e3, 6e4, math.inf, -math.inf, math.nan]


def numbers(dtype: str, shape: tuple[int, ...] = (12,)) -> Array:
    if "int" in dtype:
        info = np.iinfo(dtype)
        values = np.array([0, 1, 2, 3, 63, 64, 100, info.max, info.min, info.max - 1, info.min + 1, 5], dtype)
    elif dtype == "bool":
        values = np.array([0.0, 1.0, 1.0] * 4).astype(bool)
    else:
        values = np.array(NUMBERS).astype(as_dtype(dtype))
        if dtype.startswith("complex"):
            values.imag = values.real[::-1]
    return np.resize(values, shape).copy()


def check(primitive: Primitive, *operands: Array) -> None:
    avals = [ShapedArray(x.shape, x.dtype) for x in operands]
    (out,) = primitive.type_of(*avals)
    found = np.asarray(QUIET.copy().run(primitive.host_function(*avals), *operands))
    wanted = np.asarray(QUIET.copy().run(primitive.evaluate, *operands)[0])
    assert wanted.shape == found.shape == out.shape
    assert found.dtype in (wanted.dtype, out.dtype)
    assert found.astype(wanted.dtype).tobytes() == wanted.tobytes(), (primitive, found, wanted)


@pytest.mark.parametrize("old", DTYPES)
@pytest.mark.parametrize("shape", [(12,), (), (3, 4), (0,)])
def test_conversions(old: str, shape: tuple[int, ...]) -> None:
    x = numbers(old, shape)
    for new in DTYPES:
        check(ConvertElementType(as_dtype(new)), x)
        check(ConvertElementType(as_dtype(new)), x.T)


@pytest.mark.parametrize("old", ["float32", "float64"])
def test_floats_to_integers(old: str) -> None:
    """Those in range are converted as they are, so numbers next to the ends of it are looked at one by one too."""
    for new in WHOLE:
        info = np.iinfo(new)
        ends = np.array([info.min, info.max, 0], old)
        near = np.concatenate([np.nextafter(ends, np.array(end, old)) for end in (-np.inf, np.inf)])
        values = [*ends, *near, *ends + 1, *ends - 1, *ends + 0.5, *ends - 0.5, -0.75, 2.5, -0.0, np.nan, np.inf]
        for x in values:
            check(ConvertElementType(as_dtype(new)), np.array(x, old))
            check(ConvertElementType(as_dtype(new)), np.array([x, 1.0], old))
            check(ConvertElementType(as_dtype(new)), np.array([[1.0], [x]], old))


@pytest.mark.parametrize("old", [dtype for dtype in DTYPES if dtype != "bool" and "complex" not in dtype])
def test_bits(old: str) -> None:
    x = numbers(old, (3, 4))
    for new in (dtype for dtype in DTYPES if dtype != "bool" and "complex" not in dtype):
        if np.dtype(as_dtype(new)).itemsize <= x.dtype.itemsize:
            check(BitcastConvertType(as_dtype(new)), x)
            check(BitcastConvertType(as_dtype(new)), x.T)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("which", ["bool", "int32"])
def test_selections(dtype: str, which: str) -> None:
    shapes: Sequence[tuple[int, ...]] = ((12,), (3, 4), (), (0,))
    for shape in shapes:
        for on in {shape, ()}:
            for no in {shape, ()}:
                for yes in {shape, ()}:
                    for value in (0, 1):
                        chosen = np.array([value] * 12 if not on else [1, 0, 0] * 4, which)
                        selector = np.resize(chosen, on)
                        check(SelectN(), selector, numbers(dtype, no), np.resize(numbers(dtype)[3:], yes))
        check(SelectN(), np.zeros(shape, "bool"), numbers(dtype, shape))
        check(SelectN(), np.resize(np.array([2, 0, 7, -1], "int32"), shape), *[numbers(dtype, shape)] * 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_joining(dtype: str) -> None:
    x = numbers(dtype, (3, 4))
    for dimension in range(2):
        check(Concatenate(dimension), x)
        check(Concatenate(dimension), x, x[:, :4], x)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if "complex" not in dtype])
def test_extremes(dtype: str) -> None:
    for x in (numbers(dtype, (3, 4)), numbers(dtype)[:2].reshape(1, 2), numbers(dtype)[1::-1].reshape(2, 1)):
        for axes in ((), (0,), (1,), (0, 1)):
            check(ReduceMax(axes), x)
            check(ReduceMin(axes), x)
        check(ReduceMax((0,)), x.ravel())
        check(ReduceMin((0,)), x.ravel())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint64", "int8", "complex64", "float16"])
@pytest.mark.parametrize("padding", [0, 1, None])
@pytest.mark.parametrize("sizes", [(12, 3), (3, 12), (1, 1), (5, 5), (1, 4)])
def test_convolutions_along_one_axis(dtype: str, padding: int | None, sizes: tuple[int, int]) -> None:
    """They sum the same products in another order. Where a kernel isn't finite, padding isn't multiplied by it."""
    n, k = sizes
    around = k - 1 if padding is None else padding
    for infinite in (False, True):
        x, y = (np.arange(2, m + 2).astype(dtype).reshape(1, 1, m) for m in sizes)
        if infinite and "float" in dtype:
            y[..., 0] = np.inf
        if n + 2 * around < k:
            continue
        numbers = ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
        check(ConvGeneralDilated((1,), ((around, around),), (1,), (1,), numbers), x, y)
    batch = ConvGeneralDilated((1,), ((0, 0),), (1,), (1,), ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2)))
    check(batch, np.arange(4).astype(dtype).reshape(4, 1, 1), np.full((3, 1, 1), 2, dtype))


@pytest.mark.parametrize("dtype", [*WHOLE, "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_products_of_matrices(dtype: str, size: int) -> None:
    kind = as_dtype(dtype)
    x = np.random.default_rng(0).normal(0, 20, (3, size)).astype(kind)
    y = np.random.default_rng(1).normal(0, 20, (size, 4)).astype(kind)
    columns = np.ascontiguousarray(y.T).T
    for a, b in ((x, y), (x, columns), (x[:1], y), (x, y[:, :1]), (x, y[:, 0].copy()), (x[0], y), (x[0], x[1])):
        check(DotGeneral((((a.ndim - 1,), (0,)), ((), ()))), a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_padding(dtype: str) -> None:
    x = numbers(dtype, (3, 4))
    for config in (((0, 0, 0), (1, 2, 0)), ((2, 0, 0), (0, 0, 0)), ((1, 0, 1), (0, 0, 0)), ((-1, 1, 0), (0, 2, 0))):
        check(Pad(config), x, x[0, 1].reshape(()).copy())
        check(Pad(config), x[:0], x[0, 1].reshape(()).copy())


@pytest.mark.parametrize("dtype", DTYPES)
def test_other_ends(dtype: str) -> None:
    for dimensions in ((), (0,), (1,), (0, 1)):
        check(Rev(dimensions), numbers(dtype, (3, 4)))


@pytest.mark.parametrize("dtype", [*WHOLE, "bool"])
def test_bits_of_all(dtype: str) -> None:
    for axes in ((), (0,), (1,), (0, 1)):
        check(ReduceAnd(axes), numbers(dtype, (3, 4)))
        check(ReduceOr(axes), numbers(dtype, (3, 4)))


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "bool" and "complex" not in dtype])
def test_remainders(dtype: str) -> None:
    x = numbers(dtype)
    for y in x:
        check(Rem(), x, np.array(y))
    check(Rem(), x, x[::-1])


@pytest.mark.parametrize("dtype", WHOLE)
def test_shifts(dtype: str) -> None:
    x = numbers(dtype)
    for y in x:
        check(ShiftRightArithmetic(), x, np.array(y))
        check(ShiftRightLogical(), x, np.array(y))


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "bool"])
def test_powers(dtype: str) -> None:
    for y in range(0 if "int" in dtype else -4, 5):
        check(IntegerPow(y), numbers(dtype))


def test_a_result_that_is_an_operand_is_nobody_elses() -> None:
    """A choice by one truth value returns the array it chooses, a conversion to the same dtype the array itself."""
    x = tj.numpy.asarray(np.arange(3.0))
    for _ in range(3):
        chosen = tj.lax.select(tj.numpy.asarray(np.array(True)), x, -x)
        assert not np.asarray(chosen).flags.writeable
        np.testing.assert_array_equal(chosen, [0.0, 1.0, 2.0])
