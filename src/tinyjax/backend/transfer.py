"""What can be done with a value wherever its elements are. Needs no jax at import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from typing_extensions import CapsuleType

from tinyjax.backend.buffers import Freed, ShardedBuffer, StoredBuffer
from tinyjax.backend.handlers import is_foreign
from tinyjax.errors import AddressError, InputError, TypingError
from tinyjax.ir.dtypes import BFLOAT16, FLOAT0, KEYS, SUPPORTED, DType, HostArray, short_name
from tinyjax.ir.program import Jaxpr, Var
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes.device import Device
from tinyjax.meshes.sharding import Sharding

if TYPE_CHECKING:
    import jax
    from jaxlib._jax import ArrayImpl

#: The DLPack number of the host, and its only device.
_HOST: Final = (1, 0)


def block_until_ready(value: ConcreteValue) -> None:
    """Waits until the elements are there. Nothing to do for host arrays, but to see that there are any."""
    if isinstance(value.data, StoredBuffer):
        value.data.block_until_ready()
    elif isinstance(value.data, Freed):
        value.data.check_alive()


def delete(value: ConcreteValue) -> None:
    """Frees the memory on a device at once. Nothing to do for host arrays."""
    if isinstance(value.data, StoredBuffer):
        value.data.delete()


def freed(value: ConcreteValue) -> ConcreteValue:
    """What is left of a value that is deleted: whoever asks for elements is told. Others may have the same elements on
    the host, but those on a device are nobody's any more."""
    delete(value)
    return ConcreteValue(Freed(value.shape, value.dtype), value.aval) if value.on_host else value


def is_deleted(value: ConcreteValue) -> bool:
    """Whether the value has been deleted, or was on a device and has been donated."""
    return isinstance(value.data, Freed) or (isinstance(value.data, StoredBuffer) and value.data.is_deleted())


def address(value: ConcreteValue) -> int:
    """Where the elements begin in memory. An AddressError for those on several devices."""
    if not isinstance(value.data, StoredBuffer):
        return int(np.asarray(value.data).ctypes.data)
    value.data.check_alive()
    try:
        return int(value.data.array.unsafe_buffer_pointer())
    except (RuntimeError, ValueError) as error:
        if is_foreign(error):
            raise
        raise AddressError(f"{value.aval} has no one address: {error}") from error


def is_ready(value: ConcreteValue) -> bool:
    """Whether the elements are there already. A DeletedBufferError if there are none any more."""
    if isinstance(value.data, Freed):
        value.data.check_alive()
    if not isinstance(value.data, StoredBuffer):
        return True
    value.data.check_alive()
    return value.data.array.is_ready()


def start_copy_to_host(value: ConcreteValue) -> None:
    """Has the elements copied to the host while other things are done, for who asks for them later. Nothing to do for
    host arrays, nor for elements of other processes."""
    if isinstance(value.data, StoredBuffer):
        value.data.check_alive()
        value.data.array.copy_to_host_async()


def size_on_devices(value: ConcreteValue) -> int:
    """How many bytes the elements take on all devices of this process together, or on the host."""
    if not isinstance(value.data, StoredBuffer):
        return np.asarray(value.data).nbytes
    value.data.check_alive()
    return sum(shard.data.on_device_size_in_bytes() for shard in value.data.array.addressable_shards)


def copied(value: ConcreteValue) -> ConcreteValue:
    """The value in other memory, at the same place."""
    if not isinstance(value.data, StoredBuffer):
        return ConcreteValue(np.array(value.data), value.aval)
    from tinyjax.backend.executor import execute

    x = Var(0, value.aval)
    (copy,) = execute(Jaxpr((x,), (), (x,)), (value,), "copy")
    return copy


def platform(value: ConcreteValue) -> str:
    """Where the elements are: "host" for NumPy arrays, else the platform of the device, such as "cpu" or "gpu"."""
    return value.data.platform if isinstance(value.data, StoredBuffer) else "host"


def device_put(value: ConcreteValue) -> ConcreteValue:
    """The value on a device: itself if it is on one, or on several, or if it is a tangent that holds nothing (float0);
    else on jax's default device."""
    if value.dtype == FLOAT0 or isinstance(value.data, StoredBuffer):
        return value
    from tinyjax.backend.devices import default_device, to_device

    return to_device(value, default_device())


def put_on(value: ConcreteValue, sharding: Sharding, what: str = "the array") -> ConcreteValue:
    """The value where a sharding with devices says; itself if it is there. A ShardingError, which calls it `what`, if
    it can't lie so."""
    if value.dtype == FLOAT0:
        return value
    from tinyjax.backend.shardings import put

    return put(value, sharding, what)


def assemble(
    shape: Shape, dtype: DType, sharding: Sharding, places: Sequence[Device], parts: Sequence[ConcreteValue]
) -> ConcreteValue:
    """The value whose parts these are, on these devices of this process; each is put there if it isn't."""
    from tinyjax.backend.shardings import assemble

    return assemble(shape, dtype, sharding, places, parts)


def is_spread(value: ConcreteValue) -> bool:
    """Whether some of the elements are on devices of other processes."""
    return isinstance(value.data, ShardedBuffer) and not value.data.array.is_fully_addressable


def whole(value: ConcreteValue) -> HostArray:
    """The elements of a value that each device has all of."""
    data = value.data
    if not isinstance(data, ShardedBuffer):
        return np.asarray(value)
    data.block_until_ready()
    elements: HostArray = np.asarray(data.array.addressable_shards[0].data)
    return elements if data.keys is None else elements.view(data.keys)


def from_jax(x: object) -> ConcreteValue | None:
    """The value of a concrete jax.Array on one device, without a copy; None if x isn't one."""
    # The name tells what is no jax.Array for certain, without importing jax.
    if type(x).__name__ not in ("ArrayImpl", "PRNGKeyArray"):
        return None
    from tinyjax.backend.devices import value_of_jax

    return value_of_jax(x)


def converts_itself(x: object) -> bool:
    """Whether x has `__jax_array__`, and isn't one of JAX's tracers, whose classes are known without importing jax."""
    return hasattr(type(x), "__jax_array__") and not any(
        base.__name__ == "Tracer" and base.__module__ == "jax._src.core" for base in type(x).__mro__
    )


def as_jax(value: ConcreteValue) -> jax.Array:
    """The same as `to_jax`, for keys, too."""
    if value.dtype not in KEYS:
        return to_jax(value)
    from tinyjax.backend.devices import keys_in_jax

    return keys_in_jax(value)


def to_jax(value: ConcreteValue) -> ArrayImpl:
    """A jax.Array with these elements: without a copy if they are on a device, else on jax's default device."""
    from tinyjax.backend.devices import jax_array

    return jax_array(value)


def to_dlpack(
    value: ConcreteValue,
    stream: int | None,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> CapsuleType:
    """A DLPack capsule of the elements, where they are. Host arrays that can't be written to are copied for consumers
    that don't know of such arrays (before version 1 of DLPack)."""
    data = value.data
    if isinstance(data, StoredBuffer):
        return data.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
    array: np.ndarray[Any, Any] = np.asarray(data)  # Any: NumPy's types let nothing but numbers be exported
    if array.dtype == BFLOAT16:  # not known to NumPy's DLPack
        return to_jax(value).__dlpack__(stream=None, max_version=max_version, dl_device=dl_device, copy=copy)
    if not array.flags.writeable and (max_version is None or max_version < (1, 0)):
        array = array.copy()
    return array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


def dlpack_device(value: ConcreteValue) -> tuple[int, int]:
    """Where the elements are, in DLPack's numbers."""
    data = value.data
    if isinstance(data, StoredBuffer):
        return data.__dlpack_device__()
    if value.dtype == BFLOAT16:
        kind, number = to_jax(value).__dlpack_device__()
        return int(kind), number
    return _HOST


def from_dlpack(x: object, copy: bool | None) -> ConcreteValue:
    """The elements of another library's array, on the device where they are.

    Memory of the host, which may be written to, is copied unless `copy` is False; memory of devices is shared.
    """
    place = getattr(x, "__dlpack_device__", None)
    if place is None or not hasattr(x, "__dlpack__"):
        raise InputError(f"from_dlpack takes an array with the methods __dlpack__ and __dlpack_device__, got {type(x)}")
    if place()[0] == _HOST[0]:
        try:
            elements: HostArray = np.from_dlpack(x)
        except (BufferError, RuntimeError, ValueError) as error:
            return _through_jax(x, copy, error)
        if elements.dtype not in SUPPORTED:
            raise TypingError(f"from_dlpack: arrays can't have the dtype {short_name(elements.dtype)}")
        kept = elements.view() if copy is False else elements.copy()
        kept.flags.writeable = False
        return ConcreteValue(kept, array_type(kept.shape, kept.dtype))
    return _through_jax(x, copy, None)


def _through_jax(x: object, copy: bool | None, cause: Exception | None) -> ConcreteValue:
    """For dtypes that NumPy's DLPack doesn't have, and for devices."""
    from jax import dlpack

    from tinyjax.backend.devices import value_of_jax

    found = value_of_jax(dlpack.from_dlpack(x, copy=copy or None))
    if found is None:
        raise TypingError(f"from_dlpack: {x!r} is no array of a dtype that arrays can have, on one device") from cause
    return found
