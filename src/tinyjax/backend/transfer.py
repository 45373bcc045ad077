"""What can be done with a value wherever its elements are. Needs no jax at import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from typing_extensions import CapsuleType

from tinyjax.backend.buffers import DeviceBuffer
from tinyjax.ir.dtypes import BFLOAT16, FLOAT0
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from jaxlib._jax import ArrayImpl

#: The DLPack number of the host, and its only device.
_HOST: Final = (1, 0)


def block_until_ready(value: ConcreteValue) -> None:
    """Waits until the elements are there. Nothing to do for host arrays."""
    if isinstance(value.data, DeviceBuffer):
        value.data.block_until_ready()


def delete(value: ConcreteValue) -> None:
    """Frees the memory on a device at once. Nothing to do for host arrays."""
    if isinstance(value.data, DeviceBuffer):
        value.data.delete()


def is_deleted(value: ConcreteValue) -> bool:
    """Whether the value was on a device and has been donated or deleted."""
    return isinstance(value.data, DeviceBuffer) and value.data.is_deleted()


def platform(value: ConcreteValue) -> str:
    """Where the elements are: "host" for NumPy arrays, else the platform of the device, such as "cpu" or "gpu"."""
    return value.data.platform if isinstance(value.data, DeviceBuffer) else "host"


def device_put(value: ConcreteValue) -> ConcreteValue:
    """The value on jax's default device; itself if it is there, or if it is a tangent that holds nothing (float0)."""
    if value.dtype == FLOAT0:
        return value
    from tinyjax.backend.devices import default_device, to_device

    return to_device(value, default_device())


def from_jax(x: object) -> ConcreteValue | None:
    """The value of a concrete jax.Array on one device, without a copy; None if x isn't one."""
    # The name tells what is no jax.Array for certain, without importing jax.
    if type(x).__name__ != "ArrayImpl":
        return None
    from tinyjax.backend.devices import value_of_jax

    return value_of_jax(x)


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
    if isinstance(data, DeviceBuffer):
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
    if isinstance(data, DeviceBuffer):
        return data.__dlpack_device__()
    if value.dtype == BFLOAT16:
        kind, number = to_jax(value).__dlpack_device__()
        return int(kind), number
    return _HOST
