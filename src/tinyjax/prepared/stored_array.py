"""An array whose elements are stored: on the host, on a device, or both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self, TypeVar

import numpy as np

from tinyjax import backend
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.value import ConcreteValue, frozen_elements
from tinyjax.meshes.sharding import Sharding

E = TypeVar("E", bound="StoredArray")


class StoredArray:
    """What holds the elements of an array, on the host or on a device.

    Nobody can write to them, with one exception: the operand of an operation that is evaluated at once (`as_operand`)
    may have the user's own array in `host`, until its `value` is asked for.

    What compiled functions return has a `buffer`, what is computed on the host has its elements in `host`, and the
    `value` is made when something asks for it. An array that was made of a value on a device gets its `buffer` when a
    compiled function needs it.
    """

    __slots__ = ("aval", "buffer", "host", "value")

    aval: ShapedArray
    #: The array on the device, for the backend.
    buffer: backend.RawBuffer | None
    #: The elements, if they are in a NumPy array.
    host: HostArray | None
    value: ConcreteValue

    def __init__(self, value: ConcreteValue) -> None:
        self.value = value
        self.aval = value.aval
        self.buffer = None

    @property
    def evaluated(self) -> bool:
        """Whether operations on constants are evaluated now, rather than watched or staged."""
        return False

    def _placed(self, place: backend.Device | Sharding) -> Self:
        """The array at a place; itself if it is there."""
        moved = backend.move(self.value, place)
        return self if moved is self.value else type(self)(moved)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Other memory on devices, as one of the two may be donated; nobody writes to what is on the host."""
        return self if backend.place_of(self.value) == backend.HOST else type(self)(backend.copied(self.value))

    if not TYPE_CHECKING:  # or every attribute would seem to exist

        def __getattr__(self, name: str) -> object:
            """Fills a slot when it is asked for."""
            if name == "value":
                buffer, aval = self.buffer, self.aval
                if buffer is None:
                    host = self.host = frozen_elements(self.host)
                    value = ConcreteValue(host, aval)
                else:
                    value = backend.value_of_buffer(buffer, aval)
                self.value = value
                return value
            if name == "host":
                data = self.value.data if self.buffer is None else None
                host = self.host = data if type(data) is np.ndarray else None
                return host
            raise AttributeError(f"an array has no attribute {name!r}")


def of_host(kind: type[E], elements: HostArray, aval: ShapedArray) -> E:
    """An array with these elements, which nobody may write to."""
    out = _new(kind)
    out.aval = aval
    out.host = elements
    out.buffer = None
    return out


def of_buffer(kind: type[E], buffer: backend.RawBuffer, aval: ShapedArray) -> E:
    """An array with its elements on a device."""
    out = _new(kind)
    out.aval = aval
    out.buffer = buffer
    out.host = None
    return out


# Without `__init__`, which wants a value.
_new: Final = object.__new__
