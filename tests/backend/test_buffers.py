"""Arrays on a device: what goes there comes back, whatever jax's switch for 64-bit types says."""

from __future__ import annotations

import subprocess
import sys

import jax
import numpy as np
import numpy.typing as npt
import pytest
from typing_extensions import CapsuleType

import tinyjax as tj
from tests.hlo.test_text import DTYPES, random_bits
from tinyjax import backend
from tinyjax.backend import DeviceBuffer
from tinyjax.errors import DeletedBufferError
from tinyjax.ir.dtypes import BFLOAT16, BOOL, FLOAT0, FLOAT32, FLOAT64, INT64, SHORT_NAMES, DType
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import Buffer, ConcreteValue


def put(x: npt.ArrayLike) -> ConcreteValue:
    return backend.device_put(ConcreteValue.of(np.asarray(x)))


def buffer(value: ConcreteValue) -> DeviceBuffer:
    assert isinstance(value.data, DeviceBuffer)
    return value.data


@pytest.mark.parametrize("x64", [True, False])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (4, 5)])
@pytest.mark.parametrize("dtype", DTYPES, ids=SHORT_NAMES.__getitem__)
def test_there_and_back(dtype: DType, shape: Shape, x64: bool) -> None:
    array = random_bits(shape, dtype)
    with jax.enable_x64(x64):
        value = backend.device_put(ConcreteValue(array, array_type(shape, dtype)))
        found = buffer(value)
        assert isinstance(found, Buffer)
        assert (found.shape, found.dtype, value.aval) == (shape, dtype, array_type(shape, dtype))
        back = np.asarray(found)
        assert jax.config.read("jax_enable_x64") or not x64
    assert (back.shape, back.dtype) == (shape, dtype)
    assert back.tobytes() == array.tobytes()


def test_arrays_in_any_memory() -> None:
    base = np.arange(24.0).reshape(4, 6)
    read_only = base.copy()
    read_only.flags.writeable = False
    for array in (base[::2, 1::2].T, base[::-1], np.asfortranarray(base), read_only, np.broadcast_to(base[0], (3, 6))):
        np.testing.assert_array_equal(np.asarray(put(array).data), array)
    big_endian = np.arange(5, dtype=">f8")
    value = backend.device_put(ConcreteValue(big_endian, array_type((5,), FLOAT64)))
    assert np.asarray(value.data).tolist() == [0, 1, 2, 3, 4]


def test_later_writes_do_not_reach_the_device() -> None:
    array = np.zeros(1000)
    value = put(array)
    array[:] = 1
    assert not np.asarray(value.data).any()


def test_conversion_to_numpy() -> None:
    value = put(np.arange(3, dtype=INT64))
    assert np.asarray(value.data, FLOAT32).dtype == FLOAT32
    copy = np.array(value.data)
    copy[0] = 7
    assert np.asarray(value.data).tolist() == [0, 1, 2]


def test_what_is_there_stays() -> None:
    value = put([1.0, 2.0])
    assert backend.device_put(value) is value
    empty = ConcreteValue(np.zeros(3, FLOAT0), array_type((3,), FLOAT0))
    assert backend.device_put(empty) is empty


def test_platforms() -> None:
    assert backend.platform(ConcreteValue.of(1.0)) == "host"
    assert backend.platform(put(1.0)) == jax.default_backend()
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        assert backend.platform(put(1.0)) == "cpu"
    with jax.default_device("cpu"):
        assert backend.platform(put(1.0)) == "cpu"


def test_waiting() -> None:
    backend.block_until_ready(put(1.0))
    backend.block_until_ready(ConcreteValue.of(1.0))


def test_deleted_buffers() -> None:
    value = put([1.0, 2.0])
    assert not backend.is_deleted(value)
    backend.delete(value)
    assert backend.is_deleted(value)
    message = r"^the array f64\[2\] on .* was used after it had been donated or deleted"
    with pytest.raises(DeletedBufferError, match=message):
        np.asarray(value.data)
    with pytest.raises(DeletedBufferError, match=message):
        backend.block_until_ready(value)
    with pytest.raises(DeletedBufferError, match=message):
        backend.to_dlpack(value, None, None, None, None)
    backend.delete(value)
    host = ConcreteValue.of(1.0)
    backend.delete(host)
    assert not backend.is_deleted(host)


def test_to_jax() -> None:
    value = put(np.arange(3, dtype=INT64))
    array = backend.to_jax(value)
    assert isinstance(array, jax.Array)
    assert array is buffer(value).array
    for x in (ConcreteValue.of(1.5), backend.device_put(ConcreteValue.of(1.5))):
        scalar = backend.to_jax(x)
        assert (scalar.dtype, scalar.weak_type, scalar.shape) == (FLOAT64, True, ())
        assert (scalar + np.ones(2, FLOAT32)).dtype == FLOAT32
        assert float(scalar) == 1.5
    assert not backend.to_jax(ConcreteValue.of(np.float64(1.5))).weak_type


def test_from_jax() -> None:
    array = jax.numpy.arange(3.0)
    value = backend.from_jax(array)
    assert value is not None
    assert buffer(value).array is array
    assert value.aval == array_type((3,), FLOAT64)
    weak = backend.from_jax(jax.numpy.asarray(2.5))
    assert weak is not None
    assert weak.aval == array_type((), FLOAT64, weak_type=True)


def test_what_is_no_jax_array() -> None:
    for x in (np.arange(3), 1.0, "array", jax.ShapeDtypeStruct((), FLOAT32)):
        assert backend.from_jax(x) is None
    seen: list[object] = []
    jax.make_jaxpr(lambda x: seen.append(backend.from_jax(x)))(1.0)
    assert seen == [None]


class _Capsule:
    """An object with DLPack's two methods."""

    def __init__(self, value: ConcreteValue) -> None:
        self.value = value

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        return backend.to_dlpack(self.value, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return backend.dlpack_device(self.value)


@pytest.mark.parametrize("dtype", [FLOAT32, INT64, BOOL, BFLOAT16], ids=SHORT_NAMES.__getitem__)
def test_dlpack(dtype: DType) -> None:
    array = np.asarray([0, 1, 2]).astype(dtype)
    array.flags.writeable = False
    host = ConcreteValue.of(array)
    for value in (host, backend.device_put(host)):
        there = jax.dlpack.from_dlpack(_Capsule(value))
        assert there.dtype == dtype
        np.testing.assert_array_equal(np.asarray(there), array)
        if dtype != BFLOAT16:
            np.testing.assert_array_equal(np.from_dlpack(_Capsule(value)), array)
            assert backend.to_dlpack(value, None, None, None, None) is not None  # before version 1


def test_jax_is_imported_at_first_need() -> None:
    code = (
        "import sys\n"
        "import numpy as np\n"
        "from tinyjax import backend\n"
        "from tinyjax.ir import ConcreteValue\n"
        "assert backend.from_jax(np.ones(3)) is None\n"
        "assert backend.platform(ConcreteValue.of(1.0)) == 'host'\n"
        "assert 'jax' not in sys.modules and 'jaxlib' not in sys.modules\n"
        "value = backend.device_put(ConcreteValue.of(np.asarray([0.1])))\n"
        "import jax\n"
        "assert not jax.config.jax_enable_x64\n"
        "assert np.asarray(value.data)[0] == 0.1 and value.data.dtype == np.float64\n"
        "assert backend.to_jax(value).dtype == np.float64\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_waiting_for_many() -> None:
    """Trees are waited for at once; an array that is no more is an error, and arrays of the host are ready."""
    make = tj.jit(lambda x: {"a": x + 1, "b": [x * 2, x]})
    found = make(np.ones(3))
    assert tj.block_until_ready(found) is found
    assert tj.block_until_ready({"host": tj.numpy.ones(2), "none": None, "text": "no array"})["text"] == "no array"
    found["b"][0].delete()
    with pytest.raises(DeletedBufferError, match="was used after it had been donated or deleted"):
        tj.block_until_ready(found)
