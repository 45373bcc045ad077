"""Small arrays on devices that are this process's CPU: NumPy reads their elements where they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, final
from weakref import WeakValueDictionary

import numpy as np

from tinyjax.backend.handlers import is_foreign
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray

if TYPE_CHECKING:
    from jaxlib import _jax

    from tinyjax.backend.buffers import RawBuffer

#: The most elements of an array that is worth it: XLA takes several cores for more.
LARGEST: Final = 1024


@final
class Nearby:
    """Elements that nobody writes to, and the device that they belong to.

    None, if the memory that they were in has been given away since.
    """

    __slots__ = ("__weakref__", "device", "elements")

    def __init__(self, elements: HostArray, device: _jax.Device) -> None:
        self.elements: HostArray | None = elements
        self.device: _jax.Device = device


#: What is being read, by the identity of the buffer: memory that somebody reads can't be given away.
_READ: Final[WeakValueDictionary[int, Nearby]] = WeakValueDictionary()


def read_nearby(buffer: RawBuffer) -> Nearby | None:
    """The elements of a buffer, without a copy; None unless it is small, computed, and on one device of the CPU."""
    dtype = buffer.dtype
    if buffer.size > LARGEST or dtype.isbuiltin != 1 or buffer.is_deleted() or not buffer.is_ready():
        return None
    devices = buffer.devices()
    if len(devices) != 1:
        return None
    (device,) = devices
    if device.platform != "cpu":
        return None
    found = _READ.get(id(buffer))
    if found is None:
        try:
            buffer.block_until_ready()  # or to read what could not be computed ends the process
            found = _READ[id(buffer)] = Nearby(np.asarray(buffer), device)
        except RuntimeError as error:
            if is_foreign(error):
                raise
            return None
    return found


def is_default(device: _jax.Device) -> bool:
    """Whether computations on arrays of the host are made there."""
    return _default_device()() is device


@lru_cache(maxsize=1)
def _default_device() -> Callable[[], _jax.Device]:
    from tinyjax.backend.devices import default_device

    return default_device


def give_away(buffer: RawBuffer) -> None:
    """Before the memory of a buffer is donated."""
    found = _READ.pop(id(buffer), None)
    if found is not None:
        found.elements = None


def placed(near: Nearby, aval: ShapedArray) -> RawBuffer:
    """Elements that were computed on the host, on the device that they belong to."""
    from tinyjax.backend.devices import jax_type, put_array

    assert near.elements is not None
    return put_array(near.elements, jax_type(aval.shape, aval.dtype), near.device)
