"""Cells: what holds an array outside of programs, and what becomes of it where a function is transformed.

`A` are the arrays that users compute with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar, final

from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.typed import Typed

A = TypeVar("A")


class Cell(Typed, ABC, Generic[A]):
    """What holds an array that can be replaced: never a value of a program."""

    __slots__ = ()

    @property
    @abstractmethod
    def lasting(self) -> bool:
        """Whether it was made outside of all transformations."""

    @abstractmethod
    def current(self) -> A:
        """What it holds, for the innermost frame."""

    @abstractmethod
    def store(self, value: A) -> None:
        """Replaces that."""


class Cells(ABC, Generic[A]):
    """What becomes of cells outside of a frame that are read and written in it."""

    __slots__ = ()

    def inside(self, cell: Cell[A]) -> A | None:
        """What a cell holds here, if that is known without the frames around."""
        return None

    @abstractmethod
    def value(self, cell: Cell[A], outside: A) -> A:
        """What a cell holds here that holds `outside` in the frame around."""

    @abstractmethod
    def put(self, cell: Cell[A], value: A) -> A | None:
        """What is put into it in the frame around; None: nothing yet."""


@final
class Leaving(Cells[A]):
    """Arrays of the frame are put into cells as arrays of the frame around."""

    __slots__ = ("_leave",)

    def __init__(self, leave: Callable[[A], A]) -> None:
        self._leave = leave

    @override
    def value(self, cell: Cell[A], outside: A) -> A:
        return outside

    @override
    def put(self, cell: Cell[A], value: A) -> A:
        return self._leave(value)


@final
class Staged(Cells[A]):
    """Each cell is an input of the program that is staged, after the arguments, and a result, after the others."""

    __slots__ = ("_argument", "values")

    def __init__(self, argument: Callable[[ShapedArray], A]) -> None:
        self._argument = argument
        self.values: dict[Cell[A], A] = {}

    @override
    def inside(self, cell: Cell[A]) -> A | None:
        return self.values.get(cell)

    @override
    def value(self, cell: Cell[A], outside: A) -> A:
        if cell not in self.values:
            self.values[cell] = self._argument(cell.aval)
        return self.values[cell]

    @override
    def put(self, cell: Cell[A], value: A) -> None:
        self.value(cell, value)  # it is an input, too
        self.values[cell] = value


def written(jaxpr: Jaxpr, count: int) -> list[bool]:
    """Which of the last inputs of a program, so many, it doesn't return as they are, as its last results."""
    first = len(jaxpr.invars) - count, len(jaxpr.outvars) - count
    return [x != y for x, y in zip(jaxpr.invars[first[0] :], jaxpr.outvars[first[1] :], strict=True)]
