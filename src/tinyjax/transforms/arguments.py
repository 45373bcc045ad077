"""What transformations are told of each input or output: as many entries as there are of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import ClosedJaxpr, Jaxpr

T = TypeVar("T")
#: More names than this aren't listed.
_LISTED = 16


def one_each(
    what: str, entries: Sequence[T], count: int, of: str, program: Jaxpr | ClosedJaxpr | None = None
) -> tuple[T, ...]:
    """The entries as a tuple; an InputError unless there are `count` of them. `program`: whose inputs they are for."""
    if len(entries) != count:
        names = () if program is None else program.input_names
        listed = ", ".join(name or "_" for name in names) if any(names) and len(names) <= _LISTED else ""
        which = f" ({listed})" if listed else ""
        raise InputError(f"{what} has {len(entries)} entries, but the program has {count} {of}{which}")
    return tuple(entries)


def check_axes(what: str, axes: Sequence[int | None], avals: Sequence[ShapedArray]) -> None:
    """An InputError unless each axis can be one more axis of its array."""
    for i, (axis, aval) in enumerate(zip(axes, avals, strict=True)):
        if axis is not None and not 0 <= axis <= aval.ndim:
            raise InputError(f"{what}[{i}] is {axis}, but {aval} can have one more axis at 0 to {aval.ndim} only")
