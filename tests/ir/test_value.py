"""Concrete values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tests.ir.examples import bits
from tinyjax.ir import Buffer, ConcreteValue, HostArray, Shape, ShapedArray
from tinyjax.ir.dtypes import BFLOAT16, FLOAT32, FLOAT64, DType


class OnDevice:
    """A buffer of some device."""

    def __init__(self, array: HostArray) -> None:
        self._array = array

    @property
    def shape(self) -> Shape:
        return self._array.shape

    @property
    def dtype(self) -> DType:
        return self._array.dtype

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        return self._array


@pytest.mark.parametrize(
    ("x", "aval"),
    [
        (True, ShapedArray((), bool)),
        (1, ShapedArray((), int, weak_type=True)),
        (1.0, ShapedArray((), float, weak_type=True)),
        (1j, ShapedArray((), complex, weak_type=True)),
        (np.float64(1.0), ShapedArray((), float)),
        (np.float32(1.0), ShapedArray((), np.float32)),
        (np.ones((2, 3), BFLOAT16), ShapedArray((2, 3), BFLOAT16)),
    ],
)
def test_types_of_values(x: HostArray | float, aval: ShapedArray) -> None:
    value = ConcreteValue.of(x)
    assert value.aval == aval
    assert (value.shape, value.dtype) == (aval.shape, aval.dtype)
    assert value.on_host
    assert np.asarray(value).dtype == aval.dtype
    assert np.array_equal(np.asarray(value), np.asarray(x))


def test_values_are_compared_by_content_to_the_bit() -> None:
    nan = float("nan")
    assert ConcreteValue.of(np.asarray([1.0, nan])) == ConcreteValue.of(np.asarray([1.0, nan]))
    assert hash(ConcreteValue.of(np.asarray([1.0, nan]))) == hash(ConcreteValue.of(np.asarray([1.0, nan])))
    assert ConcreteValue.of(np.asarray([nan])) != ConcreteValue.of(np.asarray([bits(0x7FF8000000000001)]))
    assert ConcreteValue.of(0.0) != ConcreteValue.of(-0.0)
    assert ConcreteValue.of(1.0) != ConcreteValue.of(np.float64(1.0))
    assert ConcreteValue.of(np.zeros(2)) != ConcreteValue.of(np.zeros((2, 1)))
    assert ConcreteValue.of(np.zeros(2)) != ConcreteValue.of(np.zeros(2, np.int64))
    matrix = np.arange(6.0).reshape(2, 3)
    assert ConcreteValue.of(matrix) == ConcreteValue.of(np.asfortranarray(matrix))


def test_values_on_a_device_equal_those_on_the_host() -> None:
    buffer: Buffer = OnDevice(np.arange(3.0))
    aval = ShapedArray((3,), float)
    value = ConcreteValue(buffer, aval)
    assert not value.on_host
    assert value == ConcreteValue.of(np.arange(3.0))
    assert hash(value) == hash(ConcreteValue.of(np.arange(3.0)))
    assert value.frozen_copy() is value
    assert np.array_equal(np.asarray(value), np.arange(3.0))


def test_a_frozen_copy_does_not_follow_the_array() -> None:
    array = np.arange(3.0)
    value = ConcreteValue.of(array)
    kept = value.frozen_copy()
    array[0] = 7.0
    assert np.array_equal(np.asarray(kept), [0.0, 1.0, 2.0])
    assert isinstance(kept.data, np.ndarray)
    assert not kept.data.flags.writeable
    assert kept.frozen_copy() is kept
    with pytest.raises(ValueError, match="read-only"):
        kept.data[0] = 1.0


def test_conversion_to_numpy() -> None:
    value = ConcreteValue.of(np.arange(3.0))
    assert value.__array__(FLOAT32).dtype == FLOAT32
    assert np.asarray(value).dtype == FLOAT64
    copied = np.array(value)
    copied[0] = 5.0
    assert np.asarray(value)[0] == 0.0
