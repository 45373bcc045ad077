"""What transformations are told of each input or output: as many entries as there are of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray

T = TypeVar("T")


def one_each(what: str, entries: Sequence[T], count: int, of: str) -> tuple[T, ...]:
    """The entries as a tuple; an InputError unless there are `count` of them."""
    if len(entries) != count:
        raise InputError(f"{what} has {len(entries)} entries, but the program has {count} {of}")
    return tuple(entries)


def check_axes(what: str, axes: Sequence[int | None], avals: Sequence[ShapedArray]) -> None:
    """An InputError unless each axis can be one more axis of its array."""
    for i, (axis, aval) in enumerate(zip(axes, avals, strict=True)):
        if axis is not None and not 0 <= axis <= aval.ndim:
            raise InputError(f"{what}[{i}] is {axis}, but {aval} can have one more axis at 0 to {aval.ndim} only")
