"""How what is outside comes into a program that is being staged: the user's NumPy arrays, and cells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, final
from weakref import WeakValueDictionary

import numpy as np

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.value import frozen_elements

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array


class Cell(ABC):
    """What holds an array that can be replaced: never a value of a program."""

    __slots__ = ()
    aval: ShapedArray

    @property
    @abstractmethod
    def lasting(self) -> bool:
        """Whether it was made outside of all transformations."""

    @abstractmethod
    def current(self) -> Array:
        """What it holds, for the innermost frame."""

    @abstractmethod
    def store(self, value: Array) -> None:
        """Replaces that."""


@final
class Cells:
    """The cells outside that a function reads or writes while it is staged: each is an input of its program, after the
    arguments, and a result, after the others."""

    __slots__ = ("_argument", "values")

    def __init__(self, argument: Callable[[ShapedArray], Array]) -> None:
        self._argument = argument
        self.values: dict[Cell, Array] = {}

    def value(self, cell: Cell) -> Array:
        """What a cell holds in the program by now."""
        if cell not in self.values:
            self.values[cell] = self._argument(cell.aval)
        return self.values[cell]


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
