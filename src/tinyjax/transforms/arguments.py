"""What transformations are told of each input or output: as many entries as there are of them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.tangents import has_tangent

T = TypeVar("T")
#: More names than this aren't listed.
_LISTED = 16


def one_each(
    what: str, entries: Sequence[T], count: int, of: str, program: Jaxpr | ClosedJaxpr | None = None
) -> tuple[T, ...]:
    """The entries as a tuple; an InputError unless there are `count` of them. `program`: whose inputs they are for."""
    given: object = entries
    vector = isinstance(given, np.ndarray) and given.ndim == 1
    if not vector and (not isinstance(given, Sequence) or isinstance(given, str | bytes)):
        raise InputError(f"{what} is a tuple or list with an entry for each of the {count} {of}, not {entries!r}")
    if len(entries) != count:
        names = () if program is None else program.input_names
        listed = ", ".join(name or "_" for name in names) if any(names) and len(names) <= _LISTED else ""
        which = f" ({listed})" if listed else ""
        raise InputError(f"{what} has {len(entries)} entries, but the program has {count} {of}{which}")
    return tuple(entries)


def marks(
    what: str, entries: Sequence[object], count: int, of: str, program: Jaxpr | ClosedJaxpr | None = None
) -> tuple[bool, ...]:
    """The same, of what is True or False each, or NumPy's: numbers would be positions."""
    found = one_each(what, entries, count, of, program)
    for i, mark in enumerate(found):
        if type(mark) is not bool and not isinstance(mark, np.bool_):
            raise InputError(f"{what}[{i}] is True or False, not {mark!r}")
    return tuple(map(bool, found))


def flag(what: str, value: object) -> bool:
    """What must be True or False, or NumPy's, or 1 or 0 as other libraries write them."""
    if not isinstance(value, bool | np.bool_ | int | np.integer) or value not in (0, 1):
        raise InputError(f"{what} is True or False, not {value!r}")
    return bool(value)


def whole(what: str, value: object) -> int:
    """What must be an integer."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{what} is an integer, not {value!r}")
    return int(value)


def function(what: str, value: object) -> None:
    """An InputError unless this can be called."""
    if not callable(value):
        raise InputError(f"{what} is a function, not {value!r}")


def axes_each(
    what: str,
    entries: Sequence[int | None],
    avals: Sequence[ShapedArray],
    of: str,
    program: Jaxpr | ClosedJaxpr | None = None,
) -> tuple[int | None, ...]:
    """An axis, or None, for each array; an InputError unless it can be one more axis of its array."""
    axes: list[int | None] = []
    for i, (axis, aval) in enumerate(zip(one_each(what, entries, len(avals), of, program), avals, strict=True)):
        try:
            number = None if axis is None else operator.index(axis)
        except TypeError:
            raise InputError(f"{what}[{i}] is the number of an axis, or None, not {axis!r}") from None
        if isinstance(axis, bool):
            raise InputError(f"{what}[{i}] is {axis}; write the number of the axis, or None for what isn't mapped")
        if number is not None and not 0 <= number <= aval.ndim:
            raise InputError(f"{what}[{i}] is {number}, but {aval} can have one more axis at 0 to {aval.ndim} only")
        axes.append(number)
    return tuple(axes)


def check_axis(what: str, axis: object) -> None:
    """An InputError unless this says what is mapped over."""
    if not isinstance(axis, BatchAxis):
        raise InputError(f"{what} is a BatchAxis, such as `tinyjax.ir.BatchAxis(3)` for 3 elements, not {axis!r}")
    if whole(f"{what}: the size of a BatchAxis", axis.size) < 0:
        raise InputError(f"{what}: the size of a BatchAxis is a number of elements, not {axis.size!r}")
    if not isinstance(axis.name, str | None):
        raise InputError(f"{what}: the name of a BatchAxis is a string, or None, not {axis.name!r}")


def differentiable(jaxpr: Jaxpr | ClosedJaxpr) -> tuple[bool, ...]:
    """Which inputs have tangents: those of floating-point and complex types."""
    return tuple(map(has_tangent, jaxpr.in_avals))


def tangent_marks(what: str, jaxpr: Jaxpr | ClosedJaxpr, nonzero: Sequence[bool] | None) -> tuple[bool, ...]:
    """`nonzero`, or by default every input that can have a tangent; an InputError if another one is marked."""
    possible = differentiable(jaxpr)
    if nonzero is None:
        return possible
    found = marks(f"{what}: nonzero", nonzero, len(possible), "inputs", jaxpr)
    for i, (mark, can) in enumerate(zip(found, possible, strict=True)):
        if mark and not can:
            named = jaxpr.input_names[i] and f" ({jaxpr.input_names[i]})"
            raise InputError(f"{what}: nonzero marks input {i}{named}, {jaxpr.in_avals[i]}, which can't have a tangent")
    return found
