"""What all shardings have: which part of an array is on which device."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Self, TypeAlias, final

import numpy as np
from attrs import field, frozen
from typing_extensions import override

from tinyjax.deferred import PROCESS_INDEX
from tinyjax.errors import ChoiceError, ShardingError
from tinyjax.ir.immutable import Immutable
from tinyjax.ir.shapes import Shape
from tinyjax.meshes.device import HOST, Device, OneDevice, plain_device

if TYPE_CHECKING:
    import numpy.typing as npt

#: Where a shard is within its array.
Index: TypeAlias = tuple[slice, ...]


class Sharding(Immutable, ABC):
    """How an array lies on devices: equal blocks, each on one device or on several. Immutable, compared by content."""

    __slots__ = ()

    #: What JAX's functions ask of where an array lies that they are given. They can make nothing there by themselves.
    _is_concrete: ClassVar[bool] = False

    @property
    @abstractmethod
    def memory_kind(self) -> str | None:
        """The kind of memory, such as "device", which is the usual one, or "pinned_host". None on the host, and where
        devices aren't known, for the usual one."""

    @property
    @abstractmethod
    def flat_devices(self) -> tuple[Device, ...]:
        """The devices in order; a ShardingError if they aren't known yet."""

    @property
    @abstractmethod
    def num_devices(self) -> int:
        """How many devices there are."""

    @property
    @abstractmethod
    def has_devices(self) -> bool:
        """Whether the devices are known."""

    @property
    @abstractmethod
    def is_fully_replicated(self) -> bool:
        """Whether each device has the whole array."""

    @abstractmethod
    def blocks(self, ndim: int) -> tuple[int, ...]:
        """Into how many blocks each axis of an array with so many axes is divided."""

    @abstractmethod
    def coordinates(self, ndim: int) -> npt.NDArray[np.int64]:
        """Which of the blocks each device has: a row for each device, a column for each axis."""

    @abstractmethod
    def partial_sums(self) -> npt.NDArray[np.int64]:
        """Which of the terms each device has, where the array is a sum yet to be made; zeros otherwise."""

    @abstractmethod
    def check(self, shape: Shape, what: str) -> None:
        """A ShardingError that names `what`, the axis and the sizes unless an array of this shape can lie so."""

    @abstractmethod
    def with_memory_kind(self, kind: str | None) -> Self:
        """The same in another kind of memory."""

    @property
    def device_set(self) -> set[Device]:
        """The devices."""
        return set(self.flat_devices)

    @property
    def addressable_devices(self) -> set[Device]:
        """The devices of this process."""
        here = PROCESS_INDEX.use()
        return {d for d in self.flat_devices if d.process_index == here or d.platform == HOST.platform}

    @property
    def has_addressable_devices(self) -> bool:
        """Whether any of the devices is of this process."""
        return bool(self.addressable_devices)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices are of this process."""
        return len(self.addressable_devices) == self.num_devices

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """A ShardingError, a ValueError, unless an array of this shape can lie so."""
        self.check(tuple(aval_shape), "the array")

    def shard_shape(self, global_shape: Sequence[int]) -> Shape:
        """The shape of each device's block; a ShardingError if an axis can't be divided equally."""
        shape = tuple(global_shape)
        self.check(shape, "the array")
        return tuple([size // count for size, count in zip(shape, self.blocks(len(shape)), strict=True)])

    def devices_indices_map(self, global_shape: Sequence[int]) -> Mapping[Device, Index]:
        """For each device, which part of an array of this shape it has: a slice for each axis."""
        shape = tuple(global_shape)
        return dict(zip(self.flat_devices, self.indices(shape), strict=True))

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> Mapping[Device, Index]:
        """The same for the devices of this process."""
        own = self.addressable_devices
        return {device: index for device, index in self.devices_indices_map(global_shape).items() if device in own}

    def indices(self, shape: Shape) -> list[Index]:
        """Which part of an array of this shape each device has, in the order of the devices. Needs no devices."""
        block = self.shard_shape(shape)
        counts = self.blocks(len(shape))
        rows: list[list[int]] = self.coordinates(len(shape)).tolist()
        return [
            tuple(
                [
                    slice(None) if count == 1 else slice(at * size, (at + 1) * size)
                    for at, size, count in zip(row, block, counts, strict=True)
                ]
            )
            for row in rows
        ]

    def replica_ids(self, ndim: int) -> list[int]:
        """For each device, how many devices before it have the same part of the array."""
        counts: dict[tuple[int, ...], int] = {}
        found: list[int] = []
        for row in self.coordinates(ndim).tolist():
            at = tuple(row)
            found.append(counts.get(at, 0))
            counts[at] = found[-1] + 1
        return found

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from tinyjax.meshes.notebooks import html_of_blocks, sharding_blocks

        return html_of_blocks(sharding_blocks(self))

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether arrays with so many axes lie alike: the same part on the same device, each in the same place of the
        order of devices."""
        if self is other:
            return True
        if self.memory_kind != other.memory_kind or self.num_devices != other.num_devices:
            return False
        if self.has_devices != other.has_devices or (self.has_devices and self.flat_devices != other.flat_devices):
            return False
        if self.blocks(ndim) != other.blocks(ndim):
            return False
        return np.array_equal(self.coordinates(ndim), other.coordinates(ndim)) and np.array_equal(
            self.partial_sums(), other.partial_sums()
        )


#: The kind of memory in which arrays are unless something else is said, and all kinds that devices may have.
USUAL_KIND: Final = "device"
_KINDS: Final = (USUAL_KIND, "pinned_host", "unpinned_host")


@final
@frozen
class SingleDeviceSharding(Sharding):
    """The whole array on one device.

    >>> SingleDeviceSharding(Device("cpu")).is_fully_replicated
    True
    """

    device: Device = field(converter=plain_device)
    memory_kind: str | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "memory_kind", kind_of_memory(self.memory_kind, self.device != HOST))

    @property
    @override
    def flat_devices(self) -> tuple[Device, ...]:
        return (self.device,)

    @property
    @override
    def num_devices(self) -> int:
        return 1

    @property
    @override
    def has_devices(self) -> bool:
        return True

    @property
    @override
    def is_fully_replicated(self) -> bool:
        return True

    @override
    def blocks(self, ndim: int) -> tuple[int, ...]:
        return (1,) * ndim

    @override
    def coordinates(self, ndim: int) -> npt.NDArray[np.int64]:
        return np.zeros((1, ndim), np.int64)

    @override
    def partial_sums(self) -> npt.NDArray[np.int64]:
        return np.zeros(1, np.int64)

    @override
    def check(self, shape: Shape, what: str) -> None:
        pass

    @override
    def with_memory_kind(self, kind: str | None) -> SingleDeviceSharding:
        return SingleDeviceSharding(self.device, memory_kind=kind)


def kind_of_memory(kind: str | None, placed: bool) -> str | None:
    """A kind of memory as shardings have it: of devices that are known, the default one is called so.

    Raises:
      ChoiceError: no devices have it.
    """
    if kind not in (None, *_KINDS):
        raise ChoiceError(f"Devices have the memory kinds {', '.join(_KINDS)}. Got memory kind: {kind}")
    return kind or USUAL_KIND if placed else None if kind == USUAL_KIND else kind


def make_single_device_sharding(device: OneDevice, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    """The whole array on this device: a SingleDeviceSharding.

    >>> import tinyjax as tj
    >>> make_single_device_sharding(tj.Device("cpu")) == SingleDeviceSharding(tj.Device("cpu"))
    True
    """
    return SingleDeviceSharding(plain_device(device), memory_kind=memory_kind)


def divides(size: int, count: int) -> bool:
    """Whether an axis of this size makes so many equal blocks."""
    return size % count == 0


def check_blocks(
    shape: Shape, axes: Sequence[Sequence[str]], sizes: Mapping[str, int], spec: object, what: str
) -> None:
    """A ShardingError unless the sizes of mesh axes divide those of an array's axes."""
    if len(axes) > len(shape):
        hint = " For a scalar, write P()." if not shape else ""
        raise ShardingError(
            f"{spec} has {len(axes)} parts, but {what} has the shape {shape}, with {len(shape)} axes.{hint}"
        )
    for axis, (size, names) in enumerate(zip(shape, axes, strict=False)):
        count = math.prod([sizes[name] for name in names])
        if not divides(size, count):
            along = " and ".join(f"{name!r} ({sizes[name]})" for name in names)
            raise ShardingError(
                f"{what} has the shape {shape}, whose axis {axis} of size {size} can't be divided equally by {count}: "
                f"{spec} divides it along the mesh {'axes' if len(names) > 1 else 'axis'} {along}. Pad it to "
                f"{-(-size // count) * count}, or divide another axis."
            )
