"""What the inputs of a program are called. Names are for readers: no part of a program's value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final


@final
class InputNames:
    """The names of a program's inputs, found when they are first asked for; "" for an input without one."""

    __slots__ = ("_found", "_make")

    def __init__(self, make: Callable[[], Sequence[str]]) -> None:
        self._make: Callable[[], Sequence[str]] | None = make
        self._found: tuple[str, ...] = ()

    @property
    def found(self) -> tuple[str, ...]:
        make = self._make
        if make is not None:
            self._found = tuple(make())
            self._make = None
        return self._found


def named_types(names: Sequence[str], avals: Sequence[object]) -> str:
    """Types with the names of what they are types of: `params['w']: f64[3], f64[]`."""
    return ", ".join(f"{name}: {aval}" if name else str(aval) for name, aval in zip(names, avals, strict=True))


def names_for(names: Sequence[str], count: int) -> tuple[str, ...]:
    """One name for each of `count` inputs: "" for those that are left."""
    return (*names[:count], *[""] * (count - len(names)))


def names_at(names: InputNames, positions: Sequence[int | None]) -> InputNames:
    """The names of inputs at these positions; None: of one that has no name. Not looked at yet."""
    return InputNames(lambda: ["" if i is None else names_for(names.found, i + 1)[i] for i in positions])
