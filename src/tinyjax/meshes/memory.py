"""Which memory an array is to be in, wherever it lies."""

from __future__ import annotations

from enum import Enum
from typing import final

from tinyjax.errors import ChoiceError


@final
class Space(Enum):
    """A memory, as `device_put` takes it: that of the devices, or of the host beside them. `Any` leaves it open.

    >>> from tinyjax import device_put
    >>> device_put([1.0, 2.0], Space.Host)[0].sharding.memory_kind
    'pinned_host'
    """

    Device = 1
    Host = 2
    Any = 3

    @property
    def kind(self) -> str:
        """The `memory_kind` of a sharding there.

        Raises:
          ChoiceError: it is left open.
        """
        if self is Space.Any:
            raise ChoiceError("device_put: Space.Any leaves open where to: use Space.Device or Space.Host")
        return "device" if self is Space.Device else "pinned_host"
