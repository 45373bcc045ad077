"""Which devices there are."""

from __future__ import annotations

from tinyjax import backend
from tinyjax.tracebacks import filtered


@filtered
def devices(backend_name: str | None = None, /) -> list[backend.Device]:
    """The devices that programs can run on: those of the default platform, or of a platform such as "cpu".

    The host, where what isn't compiled is computed, is none of them.

    Raises:
      ChoiceError: there is no such platform.

    >>> devices("cpu")[0]
    Device('cpu:0')
    """
    found = [device for device in backend.local_devices() if device != backend.HOST]
    if backend_name is None:
        return found
    own = [device for device in found if device.platform == backend_name]
    return own or [backend.as_device(backend_name)]


@filtered
def device_count(backend_name: str | None = None, /) -> int:
    """How many devices there are.

    >>> device_count("cpu") == len(devices("cpu"))
    True
    """
    return len(devices(backend_name))


@filtered
def default_backend() -> str:
    """The platform of the default device: "cpu", "gpu" or "tpu".

    >>> default_backend() == devices()[0].platform
    True
    """
    return devices()[0].platform
