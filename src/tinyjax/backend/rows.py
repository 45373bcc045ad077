"""Stacks that calls put together of arrays, and arrays that are rows of stacks until somebody needs them alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, final

import numpy as np
from attrs import frozen

from tinyjax.backend.buffers import DeviceBuffer
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.slots import made_by_slots
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxlib._jax import Device

    from tinyjax.ir.dtypes import HostArray


@final
@made_by_slots
@frozen(eq=False)
class Row:
    """The part at `at` of the leading axis of an array on a CPU device; there are `count` of them."""

    stack: DeviceBuffer
    count: int
    at: int

    def alone(self, aval: ShapedArray) -> ConcreteValue:
        """It as an array of its own, of this type. If the memory of all has been donated, so has its own."""
        if self.stack.is_deleted():
            return ConcreteValue(self.stack, aval)
        return _put(np.asarray(self.stack)[self.at : self.at + 1].reshape(aval.shape), aval, self.stack.device)


def stacked(values: Sequence[ConcreteValue | Row], aval: ShapedArray) -> ConcreteValue | None:
    """The stack, of this type, of values that are on one CPU device or on the host. Where they are all rows of a stack
    in order, it is that one. None if they are elsewhere."""
    first = values[0]
    if isinstance(first, Row) and _follow(values, first):
        first.stack.check_alive()
        if len(values) == first.count:
            return ConcreteValue(first.stack, aval)
        return _put(np.asarray(first.stack)[first.at : first.at + len(values)], aval, first.stack.device)
    parts: list[HostArray] = []
    device: Device | None = None
    for value in values:
        data = value.stack if isinstance(value, Row) else value.data
        if isinstance(data, DeviceBuffer):
            if data.platform != "cpu" or (device is not None and data.device is not device):
                return None
            device = data.device
        elif not isinstance(data, np.ndarray):
            return None
        elements = np.asarray(data)
        parts.append(elements[value.at] if isinstance(value, Row) else elements)
    together = np.stack(parts)
    if device is not None:
        return _put(together, aval, device)
    together.flags.writeable = False
    return ConcreteValue(together, aval)


def _follow(values: Sequence[ConcreteValue | Row], first: Row) -> bool:
    """Whether they are rows of one stack, one after the other."""
    stack = first.stack.array
    return all(
        isinstance(value, Row) and value.stack.array is stack and value.at == at
        for at, value in enumerate(values, first.at)
    )


def _put(elements: HostArray, aval: ShapedArray, device: Device) -> ConcreteValue:
    return ConcreteValue(_putting()(elements, aval, device), aval)


@lru_cache(maxsize=1)
def _putting() -> Callable[[HostArray, ShapedArray, Device], DeviceBuffer]:
    from tinyjax.backend.devices import jax_type, put_array

    def put(elements: HostArray, aval: ShapedArray, device: Device) -> DeviceBuffer:
        return DeviceBuffer(put_array(elements, jax_type(aval.shape, aval.dtype), device), device)

    return put
