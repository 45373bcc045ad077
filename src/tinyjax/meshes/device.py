"""Devices, by name: values that can be compared, passed on and saved."""

from __future__ import annotations

from typing import Final, Protocol, final, runtime_checkable

from attrs import field, frozen
from typing_extensions import override

from tinyjax.ir.immutable import Immutable


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
