"""Which devices there are."""

from __future__ import annotations

from tinyjax import backend as places
from tinyjax.backend import Device
from tinyjax.tracebacks import filtered


@filtered
def devices(backend: str | None = None) -> list[Device]:
    """The devices that programs can run on: those of the default platform, or of a platform such as "cpu"; of all
    processes, if several work together.

    The host, where what isn't compiled is computed, is none of them.

    Raises:
      DeviceError: there is no such platform.

    >>> devices("cpu")[0]
    Device('cpu:0')
    """
    return list(places.all_devices(backend))


@filtered
def device_count(backend: str | None = None) -> int:
    """How many devices there are.

    >>> device_count("cpu") == len(devices("cpu"))
    True
    """
    return len(devices(backend))


@filtered
def default_backend() -> str:
    """The platform of the default device: "cpu", "gpu" or "tpu".

    >>> default_backend() == devices()[0].platform
    True
    """
    return devices()[0].platform


@filtered
def local_devices(process_index: int | None = None, backend: str | None = None) -> list[Device]:
    """The devices of this process, or of another one; of the default platform, or of a platform such as "cpu".

    Raises:
      DeviceError: there is no such platform.

    >>> local_devices(backend="cpu") == devices("cpu")
    True
    """
    here = places.process_index() if process_index is None else process_index
    return [device for device in places.all_devices(backend) if device.process_index == here]


@filtered
def local_device_count(backend: str | None = None) -> int:
    """How many devices this process has.

    >>> local_device_count("cpu") == len(local_devices(backend="cpu"))
    True
    """
    return len(local_devices(backend=backend))


@filtered
def process_index(backend: str | None = None) -> int:
    """The number of this process among those that work together: 0 if it is alone. It is the same for each platform.

    >>> process_index()
    0
    """
    return places.process_index()


@filtered
def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of the processes that have devices, of a platform if `backend` names one.

    >>> process_indices()
    [0]
    """
    return sorted({device.process_index for device in places.all_devices(backend)})


@filtered
def process_count(backend: str | None = None) -> int:
    """How many processes work together, on any platform.

    >>> process_count()
    1
    """
    return places.process_count()
