"""Devices, by name: values that can be compared, passed on and saved."""

from __future__ import annotations

from typing import Final, Protocol, final, runtime_checkable

from attrs import field, frozen
from typing_extensions import override

from tinyjax.deferred import PHYSICAL
from tinyjax.errors import ChoiceError
from tinyjax.ir.immutable import Immutable


class Memory(Protocol):
    """A memory of a device."""

    @property
    def kind(self) -> str: ...
    @property
    def platform(self) -> str: ...


class Physical(Protocol):
    """A device as XLA has it: what can be asked of it."""

    @property
    def device_kind(self) -> str: ...
    @property
    def local_hardware_id(self) -> int | None: ...
    def memory_stats(self) -> dict[str, int] | None: ...
    def default_memory(self) -> Memory: ...
    def addressable_memories(self) -> list[Memory]: ...


@final
@frozen(repr=False)
class Device(Immutable):
    """Where the elements of an array are: on the host, where NumPy has them, or on a device of a platform.

    >>> Device("host"), Device("gpu", 1)
    (Device('host'), Device('gpu:1'))
    """

    platform: str
    id: int = 0
    #: The process that it belongs to. The numbers of devices are the same in all processes, so this tells none apart.
    process_index: int = field(default=0, eq=False)

    @property
    def device_kind(self) -> str:
        """What it is, as its vendor calls it: "NVIDIA H100 80GB HBM3", say; "cpu" for a CPU, and "host" for the host.

        >>> Device("host").device_kind
        'host'
        """
        return self.platform if self in (HOST, TRACED) else PHYSICAL.use(self).device_kind

    @property
    def local_hardware_id(self) -> int | None:
        """Its number in this computer, where the platform knows it."""
        return None if self in (HOST, TRACED) else PHYSICAL.use(self).local_hardware_id

    def memory_stats(self) -> dict[str, int] | None:
        """How its memory is used, such as "bytes_in_use" and "bytes_limit"; None where the platform doesn't count."""
        return None if self in (HOST, TRACED) else PHYSICAL.use(self).memory_stats()

    def default_memory(self) -> Memory:
        """The memory in which its arrays are, unless a sharding's `memory_kind` says otherwise. It has a `kind`."""
        return PHYSICAL.use(self).default_memory()

    def addressable_memories(self) -> list[Memory]:
        """The memories that it has, or can read."""
        return PHYSICAL.use(self).addressable_memories()

    def memory(self, kind: str) -> Memory:
        """Its memory of this kind.

        Raises:
          ChoiceError: it has none such.
        """
        found = self.addressable_memories()
        for memory in found:
            if memory.kind == kind:
                return memory
        raise ChoiceError(f"{self} has no memory {kind!r}, only {', '.join(repr(memory.kind) for memory in found)}")

    @override
    def __str__(self) -> str:
        return self.platform if self in (HOST, TRACED) else f"{self.platform}:{self.id}"

    @override
    def __repr__(self) -> str:
        return f"Device({str(self)!r})"


HOST: Final = Device("host")
#: Where the elements of an array are that are only known when a program runs.
TRACED: Final = Device("traced")


@runtime_checkable
class OneDevice(Protocol):
    """A device of ours or of jax."""

    @property
    def platform(self) -> str: ...
    @property
    def id(self) -> int: ...


def device_named(name: str) -> Device:
    """The device that is written so.

    >>> device_named("gpu:1"), device_named("host")
    (Device('gpu:1'), Device('host'))
    """
    platform, _, number = name.partition(":")
    return Device(platform, int(number or 0))


def plain_device(device: OneDevice) -> Device:
    """The device as a value of ours."""
    if isinstance(device, Device):
        return device
    return Device(device.platform, device.id, getattr(device, "process_index", 0))
