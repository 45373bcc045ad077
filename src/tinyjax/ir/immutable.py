"""What is the same for all values that never change."""

from __future__ import annotations

from typing import Self


class Immutable:
    """A value that never changes, nor anything that it holds: a copy of it, deep or not, is the value itself."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self
