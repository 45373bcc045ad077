"""Python's integers with a dtype are what NumPy makes of them, or refused as it refuses them."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import numpy as tnp
from tinyjax.errors import InputError, IntegerSizeError, TypingError

WIDTHS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]

MAKERS: dict[str, tuple[Callable[[int, str], tj.Array], Callable[[int, str], object]]] = {
    "scalar": (tnp.asarray, np.asarray),
    "list": (lambda n, dtype: tnp.asarray([n], dtype), lambda n, dtype: np.asarray([n], dtype)),
    "nested": (lambda n, dtype: tnp.array([[1, 0], (n, 1)], dtype), lambda n, dtype: np.array([[1, 0], (n, 1)], dtype)),
    "beside numbers": (
        lambda n, dtype: tnp.array([tnp.int8(1), n], dtype),
        lambda n, dtype: np.array([np.int8(1), n], dtype),
    ),
    "staged": (lambda n, dtype: tj.jit(lambda: tnp.asarray([n], dtype))(), lambda n, dtype: np.asarray([n], dtype)),
    "full": (lambda n, dtype: tnp.full((2,), n, dtype), lambda n, dtype: np.full((2,), n, dtype)),
    "full_like": (
        lambda n, dtype: tnp.full_like(tnp.zeros(2, dtype), n),
        lambda n, dtype: np.full_like(np.zeros(2, dtype), n),
    ),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("dtype", WIDTHS)
def test_python_integers_fit_or_are_refused(maker: str, dtype: str) -> None:
    ours, numpys = MAKERS[maker]
    limits = np.iinfo(dtype)
    for n in (int(limits.min) - 1, int(limits.min), 0, int(limits.max), int(limits.max) + 1, 2**70, -(2**70)):
        try:
            expected = numpys(n, dtype)
        except OverflowError:
            with pytest.raises(IntegerSizeError, match=f"the integer {n} doesn't fit in {dtype}"):
                ours(n, dtype)
        else:
            np.testing.assert_array_equal(np.asarray(ours(n, dtype)), np.asarray(expected), strict=True)


def test_without_a_dtype_they_have_64_bits() -> None:
    with pytest.raises(IntegerSizeError, match="9223372036854775808 doesn't fit in int64"):
        tnp.asarray([2**63, 1])
    with pytest.raises(OverflowError, match="argument x of <lambda>: the integer 18446744073709551616"):
        tj.jit(lambda x: x)(2**64)


@pytest.mark.parametrize("dtype", ["bool", "float32", "float64", "complex64", "complex128"])
def test_others_take_integers_of_any_size(dtype: str) -> None:
    for n in (2**63, 2**70, -(2**70)):
        np.testing.assert_array_equal(
            np.asarray(tnp.asarray(n, dtype)), np.asarray(float(n)).astype(dtype), strict=True
        )


def test_an_integer_that_no_float_reaches() -> None:
    with pytest.raises(OverflowError, match="0 doesn't fit in f64"):
        tnp.asarray(10**400, "float64")


def test_four_bits_fit_or_are_refused() -> None:
    assert int(tnp.asarray(15, ml_dtypes.uint4)) == 15
    with pytest.raises(IntegerSizeError, match="16 doesn't fit in uint4"):
        tnp.asarray([16], ml_dtypes.uint4)


def test_complex_numbers_among_floats() -> None:
    with pytest.raises(InputError, match="complex"):
        tnp.asarray([1 + 2j], "float32")


def test_arrays_of_keys_have_a_dtype_that_can_be_asked_for() -> None:
    key = tj.random.key(7)
    words = np.asarray(tj.random.key_data(key))

    def check(keys: tj.Array, expected: np.ndarray[tuple[int, ...], np.dtype[np.uint32]]) -> None:
        assert keys.dtype == key.dtype
        np.testing.assert_array_equal(np.asarray(tj.random.key_data(keys)), expected)

    check(tnp.array(key, dtype=key.dtype), words)
    check(tnp.full((3,), key, dtype=key.dtype), np.stack([words] * 3))
    check(tj.jit(lambda k: tnp.full_like(tnp.stack([k, k]), k, dtype=k.dtype))(key), np.stack([words] * 2))
    check(tnp.full((2,), 9, dtype=key.dtype), np.full((2, 2), 9, np.uint32))
    check(key.astype(key.dtype), words)
    check(tj.jit(lambda k: tnp.astype(k, k.dtype, copy=True))(key), words)
    check(tnp.stack([key, key], dtype=key.dtype), np.stack([words] * 2))
    check(tnp.hstack([tnp.stack([key])] * 2, dtype=key.dtype), np.stack([words] * 2))
    other = tj.random.key(7, impl="rbg").dtype
    for x, dtype in ((key, np.dtype("uint32")), (key, other), (tnp.ones(2), other)):
        with pytest.raises(TypingError, match="key"):
            x.astype(dtype)
    for make, value in ((tnp.zeros, 0), (tnp.ones, 1), (tnp.empty, 0)):
        check(make((2,), dtype=key.dtype), np.full((2, 2), value, np.uint32))
    with pytest.raises(TypingError, match="key"):
        tnp.asarray([1.0], dtype=key.dtype)
    with pytest.raises(TypingError, match="wrap_key_data"):
        tnp.zeros(2, "uint32").astype(key.dtype)


@pytest.mark.parametrize("kind", [int, float, complex])
def test_only_a_scalar_is_a_number_of_pythons(kind: Callable[[tj.Array], object]) -> None:
    assert kind(tnp.asarray(2)) == 2
    for shape in ((1,), (2,), (0,), (1, 1), (2, 2)):
        with pytest.raises(TypeError, match="only scalar arrays can be converted"):
            kind(tnp.ones(shape))
