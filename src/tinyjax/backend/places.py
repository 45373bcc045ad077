"""Where the elements of arrays are, as values that can be compared and passed on. Needs no jax at import."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np

from tinyjax.backend.buffers import DeviceBuffer, ShardedBuffer, StoredBuffer, value_of_buffer
from tinyjax.backend.early import EARLY, without_jax
from tinyjax.backend.process import PROCESS
from tinyjax.errors import ChoiceError, DeviceError, DistributedError, InputError, ShardingError
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes.device import HOST, TRACED, Device, OneDevice
from tinyjax.meshes.sharding import Index, Sharding, SingleDeviceSharding

if TYPE_CHECKING:
    from jaxlib import _jax


@runtime_checkable
class SeveralDevices(Protocol):
    """A sharding of jax."""

    @property
    def device_set(self) -> Collection[OneDevice]: ...


#: What says where an array is to be: a device, its name ("host", "cpu", "gpu:1"), or jax's sharding over one device.
DeviceLike: TypeAlias = Device | str | OneDevice | SeveralDevices


def as_device(device: DeviceLike) -> Device:
    """The device that is meant; a DeviceError if there is none such."""
    if isinstance(device, SeveralDevices):
        places = device.device_set
        if len(places) != 1:
            raise InputError(f"an array is on one device here, not on the {len(places)} of {device}")
        (device,) = places
    if isinstance(device, str):
        platform, _, number = device.partition(":")
        if device in (HOST.platform, TRACED.platform):
            return Device(device)
        if not number.isdigit() and number:
            raise ChoiceError(f"a device is named like 'host', 'cpu' or 'gpu:1', not {device!r}")
        device = Device(platform, int(number or 0))
    if isinstance(device, OneDevice):
        found = Device(device.platform, device.id)
        return found if found in (HOST, TRACED) else named_device(physical(found))
    raise ChoiceError(f"a device is one of {_names(local_devices())}, or its name, not {device!r}")


def place_of(value: ConcreteValue) -> Device | Sharding:
    """Where the elements are; the sharding, if they are on several devices."""
    data = value.data
    if isinstance(data, ShardedBuffer):
        return data.sharding
    return named_device(data.device) if isinstance(data, DeviceBuffer) else HOST


def sharding_of_value(value: ConcreteValue) -> Sharding:
    """How a value lies on devices."""
    data = value.data
    if not isinstance(data, StoredBuffer):
        return SingleDeviceSharding(HOST)
    from tinyjax.backend.shardings import sharding_of

    return sharding_of(data.array.sharding)


#: A device, which part of an array it has, how many before it have the same, and what it has, if it is of this process.
Part: TypeAlias = tuple[Device, Index, int, ConcreteValue | None]


def shards(value: ConcreteValue) -> list[Part]:
    """The parts of a value on all its devices."""
    data, ndim = value.data, value.aval.ndim
    if not isinstance(data, StoredBuffer):
        return [(HOST, (slice(None),) * ndim, 0, value)]
    data.check_alive()
    if not isinstance(data, ShardedBuffer):
        return [(place, (slice(None),) * ndim, 0, value) for place in sharding_of_value(value).flat_devices]
    sharding = data.sharding
    aval = array_type(sharding.shard_shape(value.aval.shape), value.aval.dtype, value.aval.weak_type)
    own = {shard.device.id: value_of_buffer(shard.data, aval) for shard in data.array.addressable_shards}
    places = zip(sharding.flat_devices, sharding.indices(value.aval.shape), sharding.replica_ids(ndim), strict=True)
    return [(device, index, replica, own.get(device.id)) for device, index, replica in places]


def move(value: ConcreteValue, device: Device | Sharding) -> ConcreteValue:
    """The value at another place; itself if it is there, or if it is a tangent that holds nothing (float0)."""
    if device == TRACED or value.dtype == FLOAT0 or place_of(value) == device:
        return value
    if isinstance(device, Sharding):
        from tinyjax.backend.shardings import put

        return put(value, device)
    if device == HOST:
        return ConcreteValue(np.asarray(value.data), value.aval)
    from tinyjax.backend.devices import to_device

    return to_device(value, physical(device), committed=True)


def is_committed(value: ConcreteValue) -> bool:
    """Whether something said that the elements are to be where they are: computations go there. Elsewhere than on the
    default device, they are there because something said so."""
    data = value.data
    if not isinstance(data, DeviceBuffer):
        return isinstance(data, ShardedBuffer)
    if data.array.committed:
        return True
    from tinyjax.backend.devices import default_device

    return data.device is not default_device()


def check_compiled_for(args: Sequence[ConcreteValue], shardings: Sequence[Sharding], name: str, first: int = 0) -> None:
    """A ShardingError if something has put an argument on other devices than a program was compiled for. Of the `first`
    ones, which are moved, nothing is asked; nor of what is to lie on a mesh, and does on several devices."""
    for i, (arg, sharding) in enumerate(zip(args[first:], shardings[first:], strict=True)):
        data = arg.data
        if not isinstance(data, StoredBuffer) or not is_committed(arg):
            continue
        if isinstance(data, ShardedBuffer) and not isinstance(sharding, SingleDeviceSharding):
            continue
        if isinstance(data, DeviceBuffer) and not sharding.has_devices:
            here = False
        else:
            here = {named_device(device) for device in data.array.devices()} == sharding.device_set
        if not here:
            wanted = sharding.device if isinstance(sharding, SingleDeviceSharding) else sharding
            raise ShardingError(
                f"argument {i} of {name!r} is on {place_of(arg)}, but the program was compiled for {wanted}. Move it "
                "first, by tinyjax.device_put, or call what jit returns, which compiles for its arguments."
            )


def default_place() -> Device:
    """The device on which programs run if nothing else says where."""
    from tinyjax.backend.devices import default_device

    return named_device(default_device())


def local_devices() -> tuple[Device, ...]:
    """The host, and the devices that this process can use."""
    return (HOST, *map(named_device, own_devices()))


def own_devices(platform: str | None = None) -> Sequence[_jax.Device]:
    """The devices of this process, of a platform or of the default one; a RuntimeError if there is no such platform."""
    if without_jax():
        if platform in ("cpu", None):
            return EARLY.client().local_devices()
        raise RuntimeError(f"no platform {platform} here")
    import jax

    found: list[_jax.Device] = jax.local_devices(backend=platform)
    return found


def all_devices(platform: str | None = None) -> tuple[Device, ...]:
    """The devices of a platform, or of the default one, of all processes; a DeviceError if there is none such."""
    try:
        return tuple(map(named_device, own_devices(platform) if without_jax() else _of_all_processes(platform)))
    except RuntimeError:
        raise DeviceError(f"there is no device {platform} here, only {_names(local_devices())}") from None


def _of_all_processes(platform: str | None) -> Sequence[_jax.Device]:
    import jax

    found: list[_jax.Device] = jax.devices(platform)
    return found


def process_index() -> int:
    """The number of this process among those that work together."""
    if without_jax():
        return 0
    import jax

    index: int = jax.process_index()
    return index


def process_count() -> int:
    """How many processes work together."""
    if without_jax():
        return 1
    import jax

    count: int = jax.process_count()
    return count


def tell(content: bytes, what: str) -> list[bytes]:
    """What all processes say, in order, once they have come to the same place; a DistributedError if one is gone."""
    if PROCESS.group is not None:
        return PROCESS.group.gather(content, what)
    if process_count() > 1:
        raise DistributedError(f"{what}: processes meet here after tinyjax.distributed.initialize(...) only")
    return [content]


def named_device(device: _jax.Device) -> Device:
    """What this device is called here."""
    return Device(device.platform, device.id, device.process_index)


def physical(device: Device) -> _jax.Device:
    """The device as jax has it; a DeviceError if there is none such."""
    if device == HOST:
        raise ChoiceError(f"{device} is where NumPy computes: XLA has no memory of it")
    try:
        for found in own_devices(device.platform):
            if found.id == device.id:
                return found
    except RuntimeError:  # no such platform
        pass
    raise DeviceError(f"there is no device {device} here, only {_names(local_devices())}")


def _names(found: Iterable[Device]) -> str:
    return ", ".join(repr(str(device)) for device in found)
