"""An array whose elements are stored: on the host, on a device, or both."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self, TypeVar

import numpy as np

from tinyjax import backend
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import KEYS, HostArray
from tinyjax.ir.value import ConcreteValue, frozen_elements
from tinyjax.meshes.sharding import Sharding

E = TypeVar("E", bound="StoredArray")


class StoredArray:
    """What holds the elements of an array, on the host or on a device.

    Nobody can write to them, with one exception: the operand of an operation that is evaluated at once (`as_operand`)
    may have the user's own array in `host`, until its `value` is asked for.

    What compiled functions return has a `buffer`, what is computed on the host has its elements in `host`, and the
    `value` is made when something asks for it. An array that was made of a value on a device gets its `buffer` when a
    compiled function needs it. What NumPy has computed of small arrays on a CPU device is `near`, and so are these. A
    `row` is a part of a stack that a compiled function has returned, or was given.
    """

    __slots__ = ("aval", "buffer", "host", "near", "row", "value")

    aval: ShapedArray
    #: The array on the device, for the backend.
    buffer: backend.RawBuffer | None
    #: The elements, if they are in a NumPy array.
    host: HostArray | None
    #: The elements, if the array is on a device and NumPy can read them all the same. Asked for anew if it is None.
    near: backend.Nearby | None
    #: The array as a part of another one, if it is.
    row: backend.Row | None
    value: ConcreteValue

    def __init__(self, value: ConcreteValue) -> None:
        self.value = value
        self.aval = value.aval
        self.buffer = None

    @property
    def evaluated(self) -> bool:
        """Whether operations on constants are evaluated now, rather than watched or staged."""
        return False

    @property
    def runs_prepared(self) -> bool:
        """The same, and whether nothing else is in force that programs depend on: no block's defaults."""
        return False

    def _wait(self) -> None:
        """Waits until the elements are there; the errors of the long way, which makes a value first."""
        if (buffer := self.buffer) is not None:
            done = backend.is_computed(buffer)
        elif self.row is not None:
            self.row.stack.block_until_ready()
            done = True
        else:
            done = self.host is not None or ((near := self.near) is not None and near.elements is not None)
        if not done:
            backend.block_until_ready(self.value)

    def _placed(self, place: backend.Device | Sharding) -> Self:
        """The array at a place; itself if it is there."""
        moved = backend.move(self.value, place)
        return self if moved is self.value else type(self)(moved)

    def _free(self) -> None:
        """Frees the elements, on a device or the host. Numbers on the host are everybody's, and stay."""
        if self.value.on_host and not self.aval.shape:
            return
        self.value = value = backend.freed(self.value)
        if type(value.data) is not np.ndarray and self.buffer is None:
            self.host = None

    def __copy__(self) -> Self:
        """The same elements in other memory, as one of the two may be donated or deleted. Numbers on the host stay."""
        return self if self.value.on_host and not self.aval.shape else type(self)(backend.copied(self.value))

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self.__copy__()

    if not TYPE_CHECKING:  # or every attribute would seem to exist

        def __getattr__(self, name: str) -> object:
            """Fills a slot when it is asked for."""
            if name == "value":
                buffer, aval = self.buffer, self.aval
                if buffer is None and self.host is None and self.row is not None:
                    value = self.value = self.row.alone(aval)
                    if isinstance(data := value.data, backend.DeviceBuffer):
                        self.buffer = data.array
                    return value
                if buffer is None and self.host is None:
                    assert self.near is not None
                    buffer = self.buffer = backend.placed(self.near, aval)
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
            if name == "near":
                if self.buffer is None and isinstance(data := self.value.data, backend.DeviceBuffer):
                    self.buffer = data.array
                near = None if self.buffer is None or self.aval.dtype in KEYS else backend.read_nearby(self.buffer)
                if near is not None:
                    self.near = near
                return near
            if name == "row":
                self.row = None
                return None
            raise AttributeError(f"an array has no attribute {name!r}")


def of_host(kind: type[E], elements: HostArray, aval: ShapedArray) -> E:
    """An array with these elements, which nobody may write to."""
    out = new(kind)
    out.aval = aval
    out.host = elements
    out.buffer = None
    return out


def of_near(kind: type[E], elements: HostArray, aval: ShapedArray, near: backend.Nearby) -> E:
    """The same for an array that belongs to the device of another one."""
    out = new(kind)
    out.aval = aval
    out.buffer = None
    out.host = None
    out.near = backend.Nearby(elements, near.device)
    return out


def of_buffer(kind: type[E], buffer: backend.RawBuffer, aval: ShapedArray) -> E:
    """An array with its elements on a device."""
    out = new(kind)
    out.aval = aval
    out.buffer = buffer
    out.host = None
    return out


def of_row(kind: type[E], row: backend.Row, aval: ShapedArray) -> E:
    """An array that is part of another one."""
    out = new(kind)
    out.aval = aval
    out.buffer = None
    out.host = None
    out.row = row
    return out


def is_row(array: StoredArray, stack: backend.DeviceBuffer) -> bool:
    """Whether an array is a part of this one, and has no memory of its own."""
    return array.buffer is None and (row := array.row) is not None and row.stack is stack


def become_row(array: StoredArray, row: backend.Row) -> None:
    """An array whose elements have been copied into a stack is its row: its own memory is free, if nobody else has it.

    Whoever asks for its value has it in memory of its own again.
    """
    array.row = row
    array.host = None
    array.buffer = None
    for name in ("value", "near"):
        with suppress(AttributeError):
            delattr(array, name)


#: Makes an array without `__init__`, which wants a value. Defined last, as the class has no use for it.
new: Final = object.__new__
