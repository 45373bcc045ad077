"""Abstract values and dtypes."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from attrs.exceptions import FrozenInstanceError

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import InputError, ShapeError
from tinyjax.ir import ShapedArray
from tinyjax.ir.dtypes import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    FLOAT0,
    FLOAT32,
    FLOAT64,
    INT32,
    KEYS,
    SHORT_NAMES,
    SUPPORTED,
    DType,
    as_dtype,
    complex_dtype,
    real_dtype,
    short_name,
)
from tinyjax.ir.shapes import as_shape
from tinyjax.ir.shared_types import array_type


def test_a_type_has_a_shape_and_a_dtype() -> None:
    aval = ShapedArray((2, 3), "float32")
    assert aval.shape == (2, 3)
    assert aval.dtype == np.float32
    assert not aval.weak_type
    assert (aval.ndim, aval.size, aval.nbytes) == (2, 6, 24)
    assert ShapedArray((), np.int8).size == 1
    assert ShapedArray((4, 0), np.int8).size == 0


def test_types_are_values() -> None:
    assert ShapedArray((2, 3), "float32") == ShapedArray(np.asarray([2, 3]), np.float32)
    assert hash(ShapedArray((2,), "float32")) == hash(ShapedArray((2,), np.float32))
    assert ShapedArray((2,), "float32") != ShapedArray((2, 1), "float32")
    assert ShapedArray((2,), "float32") != ShapedArray((2,), "float64")
    assert ShapedArray((), float) != ShapedArray((), float, weak_type=True)
    with pytest.raises(FrozenInstanceError):
        setattr(ShapedArray((), float), "shape", (1,))  # noqa: B010
    assert all(type(size) is int for size in ShapedArray(np.asarray([2]), float).shape)


def test_shared_types_are_the_same_values() -> None:
    assert array_type((2,), FLOAT32) is array_type((2,), FLOAT32)
    assert array_type((2,), FLOAT32, True) == ShapedArray((2,), np.float32, weak_type=True)


def test_a_weak_mark_is_a_flag() -> None:
    """Caches take 1 for True: programs that say `weak_type=1` would be those of others who say True."""
    make: Callable[..., ShapedArray] = ShapedArray
    for mark in (1, np.True_):
        assert make((), float, mark).weak_type is True
    for other in (2, 1.0, "yes", None):
        with pytest.raises(InputError, match="weak_type is True or False, not"):
            make((), float, other)


def test_matching_is_blind_to_weakness() -> None:
    strong, weak = ShapedArray((), float), ShapedArray((), float, weak_type=True)
    assert strong.matches(weak)
    assert weak.strengthen() == strong
    assert strong.strengthen() is strong
    assert not strong.matches(ShapedArray((), "float32"))
    assert not strong.matches(ShapedArray((1,), float))


@pytest.mark.parametrize(
    ("aval", "text"),
    [
        (ShapedArray((), float), "f64[]"),
        (ShapedArray((2, 3), ml_dtypes.bfloat16), "bf16[2,3]"),
        (ShapedArray((), int, weak_type=True), "~i64[]"),
        (ShapedArray((0,), bool), "bool[0]"),
        (ShapedArray((1,), np.complex64), "c64[1]"),
        (ShapedArray((2,), np.uint8), "u8[2]"),
        (ShapedArray((2,), FLOAT0), "float0[2]"),
    ],
)
def test_how_types_are_printed(aval: ShapedArray, text: str) -> None:
    assert str(aval) == text
    assert repr(aval) == f"ShapedArray({text})"


@pytest.mark.parametrize("dtype", [*sorted(SUPPORTED, key=str), FLOAT0], ids=str)
def test_printed_dtypes_are_read(dtype: DType) -> None:
    aval = ShapedArray((3,), dtype)
    assert ShapedArray((3,), short_name(dtype)) == aval
    assert ShapedArray((3,), str(aval).partition("[")[0]) == aval
    if dtype != FLOAT0:
        assert ShapedArray((3,), dtype.name) == aval


#: Their numbers are bytes there, and bits here.
OF_NUMPY = "i8", "i4", "i2", "u8", "u4", "u2"


def test_functions_read_them_where_numpy_has_no_such_name() -> None:
    """NumPy counts bytes: the names that it has for other dtypes stay what NumPy users mean by them."""
    for dtype in SUPPORTED:
        expected = np.dtype(short_name(dtype)) if short_name(dtype) in OF_NUMPY else dtype
        assert as_dtype(short_name(dtype)) == expected
        assert tnp.zeros(3, short_name(dtype)).dtype == expected
        assert tnp.ones(3).astype(short_name(dtype)).dtype == expected
        assert lax.convert_element_type(1, short_name(dtype)).dtype == expected
    with pytest.raises(InputError, match="'f31' is not a dtype"):
        ShapedArray((3,), "f31")


def test_tangent_types() -> None:
    for dtype in (FLOAT32, BFLOAT16, COMPLEX64):
        aval = ShapedArray((2,), dtype, weak_type=True)
        assert aval.tangent is aval
    assert ShapedArray((2,), INT32).tangent == ShapedArray((2,), FLOAT0)
    assert ShapedArray((), bool).tangent == ShapedArray((), FLOAT0)


def test_the_tangent_type_of_integers_is_that_of_jax() -> None:
    import jax

    assert jax.dtypes.float0 == FLOAT0


@pytest.mark.parametrize(
    ("shape", "error"),
    [
        ((2, -1), r"the sizes of a shape are at least 0, got \(2, -1\)"),
        ((2.0,), r"a shape is a sequence of integers, got \(2.0,\)"),
        (("2",), "a shape is a sequence of integers"),
        (None, "a shape is a sequence of integers, got None"),
    ],
)
def test_wrong_shapes(shape: tuple[int, ...], error: str) -> None:
    with pytest.raises(ShapeError, match=error):
        ShapedArray(shape, float)


def test_shapes() -> None:
    assert as_shape(3) == (3,)
    assert as_shape(iter([1, 2])) == (1, 2)
    assert as_shape(()) == ()


def test_wrong_dtypes() -> None:
    with pytest.raises(InputError, match="'float31' is not a dtype"):
        ShapedArray((), "float31")


def test_dtype_names_are_distinct() -> None:
    assert len(set(SHORT_NAMES.values())) == len(SHORT_NAMES)
    assert set(SHORT_NAMES) == SUPPORTED | {FLOAT0} | KEYS
    assert short_name(np.dtype("M8[s]")) == "datetime64[s]"


def test_real_and_complex_dtypes() -> None:
    assert real_dtype(COMPLEX64) == FLOAT32
    assert real_dtype(COMPLEX128) == FLOAT64
    assert real_dtype(INT32) == INT32
    assert complex_dtype(FLOAT32) == COMPLEX64
    assert complex_dtype(FLOAT64) == COMPLEX128
