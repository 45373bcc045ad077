"""Scalars are spelled to the bit."""

from __future__ import annotations

import math
import re
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ir.examples import bits
from tests.strategies import literals
from tinyjax.ir import Literal, Scalar, ShapedArray
from tinyjax.ir.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT64,
    SHORT_NAMES,
    SUPPORTED,
    DType,
    real_dtype,
)
from tinyjax.ir.literals import python_scalar
from tinyjax.ir.printing.spelling import format_literal

_NUMBER = r"(?:-?(?:nan\(0x[0-9a-f]{16}\)|inf|nan|[0-9.]+(?:e[+-]?[0-9]+)?))"
_COMPLEX = re.compile(rf"\(({_NUMBER})([+-]{_NUMBER})j\)|({_NUMBER})j")


def _read_float(text: str) -> float:
    if "(" in text:
        return bits(int(text[text.index("(") + 1 : -1], 16))
    return float(text)


def _read(text: str) -> Literal:
    """What a literal's spelling says."""
    number, _, name = text.partition(":")
    value: Scalar
    if number in ("True", "False"):
        value = number == "True"
    elif number.endswith(("j", "j)")):
        found = _COMPLEX.fullmatch(number)
        assert found is not None
        real, imag, only = found.groups()
        value = complex(0.0, _read_float(only)) if only else complex(_read_float(real), _read_float(imag.lstrip("+")))
    elif re.fullmatch(r"-?[0-9]+", number):
        value = int(number)
    else:
        value = _read_float(number)
    if not name:
        return Literal.of(value)
    dtypes = {short: dtype for dtype, short in SHORT_NAMES.items()}
    dtype = dtypes[name.strip("~[]")]
    return Literal(_rounded(value, dtype), ShapedArray((), dtype, name.startswith("~")))


def _rounded(value: Scalar, dtype: DType) -> Scalar:
    """The value in the dtype; nan keeps its bits."""
    if isinstance(value, complex):
        return complex(_rounded(value.real, real_dtype(dtype)), _rounded(value.imag, real_dtype(dtype)))
    if isinstance(value, float) and math.isnan(value):
        return value
    return python_scalar(value, dtype)


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        (Literal.of(2.0), "2.0"),
        (Literal.of(3), "3"),
        (Literal.of(True), "True"),
        (Literal.of(1 + 2j), "(1+2j)"),
        (Literal.of(2j), "2j"),
        (Literal.of(-2j), "(-0-2j)"),
        (Literal.of(complex(0.0, -2.0)), "-2j"),
        (Literal.of(complex(1.5, -0.0)), "(1.5-0j)"),
        (Literal.of(complex(float("nan"), float("-inf"))), "(nan-infj)"),
        (Literal.of(complex(bits(0xFFF8000000000000), 1.0)), "(nan(0xfff8000000000000)+1j)"),
        (Literal.of(-0.0), "-0.0"),
        (Literal.of(float("inf")), "inf"),
        (Literal.of(float("-inf")), "-inf"),
        (Literal.of(float("nan")), "nan"),
        (Literal(bits(0x7FF8000000000001), ShapedArray((), FLOAT64, weak_type=True)), "nan(0x7ff8000000000001)"),
        (Literal.of(0.1 + 0.2), "0.30000000000000004"),
        (Literal.of(1e300), "1e+300"),
        (Literal.of(5e-324), "5e-324"),
        (Literal.of(2.0, FLOAT32), "2.0:f32[]"),
        (Literal.of(0.1, FLOAT32), "0.1:f32[]"),
        (Literal.of(0.1, FLOAT16), "0.1:f16[]"),
        (Literal.of(0.1, BFLOAT16), "0.1:bf16[]"),
        (Literal.of(16777216.0, FLOAT32), "16777216.0:f32[]"),
        (Literal.of(2.0, FLOAT64), "2.0:f64[]"),
        (Literal.of(np.int32(3)), "3:i32[]"),
        (Literal.of(np.bool_(True)), "True"),
        (Literal.of(3, INT64), "3:i64[]"),
        (Literal.of(0.1 + 0.1j, COMPLEX64), "(0.1+0.1j):c64[]"),
        (Literal.of(1j, COMPLEX128), "1j:c128[]"),
        (Literal(2.0, ShapedArray((), FLOAT32, weak_type=True)), "2.0:~f32[]"),
        (Literal(-7, ShapedArray((), INT8, weak_type=True)), "-7:~i8[]"),
        (Literal(True, ShapedArray((), BOOL, weak_type=True)), "True:~bool[]"),
        (Literal(1, ShapedArray((), FLOAT64, weak_type=True)), "1:~f64[]"),
        (Literal(np.float64(2.0), ShapedArray((), FLOAT64, weak_type=True)), "2.0"),
    ],
)
def test_literals(literal: Literal, text: str) -> None:
    assert format_literal(literal) == text


@given(st.sampled_from(sorted(SUPPORTED, key=SHORT_NAMES.__getitem__)).flatmap(literals))
@settings(max_examples=200, deadline=None)
def test_literals_can_be_read_back(literal: Literal) -> None:
    assert _read(format_literal(literal)) == literal


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
@settings(max_examples=100, deadline=None)
def test_every_bit_can_be_read_back(first: int, second: int) -> None:
    for value in (bits(first), complex(bits(first), bits(second))):
        literal = Literal(value, ShapedArray((), FLOAT64 if isinstance(value, float) else COMPLEX128, weak_type=True))
        assert _read(format_literal(literal)) == literal


@pytest.mark.parametrize("scalar", [np.float16, ml_dtypes.bfloat16])
def test_short_floats_are_spelled_shortly(scalar: type[np.generic]) -> None:
    dtype: DType = np.dtype(scalar)
    patterns = np.arange(0, 2**16, 17, dtype=np.uint16).view(dtype)
    for pattern in patterns:
        value = float(pattern)
        if np.isfinite(value):
            text = format_literal(Literal(value, ShapedArray((), dtype)))
            assert _read(text).value == value
            assert len(re.sub(r"e.*|[^0-9]", "", text.partition(":")[0]).strip("0")) <= 5


def test_no_two_bit_patterns_share_a_spelling() -> None:
    patterns = [0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000000, 0, 1 << 63]
    values = [struct.unpack("<d", struct.pack("<Q", pattern))[0] for pattern in patterns]
    assert len({format_literal(Literal(value, ShapedArray((), FLOAT64))) for value in values}) == len(patterns)
