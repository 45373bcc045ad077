"""How the user's NumPy arrays come into a program that is being staged."""

from __future__ import annotations

from typing import final
from weakref import WeakValueDictionary

import numpy as np

from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.value import frozen_elements


@final
class Intake:
    """Takes arrays in once: the same array, met again with the same elements, is one constant of the program.

    An array that was written to in between is another one. Copies that nothing uses are forgotten.
    """

    __slots__ = ("_copies",)

    _copies: WeakValueDictionary[int, HostArray] | None

    def __init__(self) -> None:
        self._copies = None

    def take(self, array: HostArray) -> HostArray:
        """These elements where nobody can write to them."""
        elements = frozen_elements(array)
        if elements is array:
            return array
        if self._copies is None:
            self._copies = WeakValueDictionary()
        known = self._copies.get(id(array))
        if known is not None and _same_bits(known, elements):
            return known
        self._copies[id(array)] = elements
        return elements


def _same_bits(x: HostArray, y: HostArray) -> bool:
    """Whether two contiguous arrays are equal to the bit."""
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    return np.array_equal(x.reshape(-1).view(np.uint8), y.reshape(-1).view(np.uint8))
