"""Shapes and dtypes as users give them."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tinyjax.errors import ChoiceError, ConcretizationError, InputError, ShapeError, TypingError
from tinyjax.ir.dtypes import DType, printed_dtype

Shape: TypeAlias = tuple[int, ...]
#: Names of axes of a mesh, in alphabetical order. What types say along them is written so, too: `x` for an axis along
#: which devices have their own values, and with a mark for one along which values are terms of a sum, or its result.
Axes: TypeAlias = tuple[str, ...]
UNREDUCED: Final = "U:"
REDUCED: Final = "R:"
MARKS: Final = (UNREDUCED, REDUCED)


#: The largest size that XLA and NumPy count to.
_MOST: Final = 2**63 - 1


def as_shape(shape: Iterable[int] | int) -> Shape:
    """A shape as a tuple of Python ints; a ShapeError if it is not one."""
    try:
        sizes = (operator.index(shape),) if isinstance(shape, int) else tuple(operator.index(size) for size in shape)
    except ConcretizationError:  # a traced size, of which it says where it comes from
        raise
    except TypeError:
        raise ShapeError(f"a shape is a sequence of integers, got {shape!r}") from None
    if any(not 0 <= size <= _MOST for size in sizes):
        which = "at least 0" if min(sizes) < 0 else "less than 2**63"
        raise ShapeError(f"the sizes of a shape are {which}, got {sizes}")
    return sizes


def as_axes(names: Iterable[str]) -> Axes:
    """Names of axes, each once and in order; an InputError if they aren't names."""
    found = tuple(names) if not isinstance(names, str) else (names,)
    if not found:
        return ()
    if not all(isinstance(name, str) for name in found):
        raise InputError(f"axes of a mesh have strings as names, got {found}")
    return tuple(sorted({*found}))


def marked(varying: Axes, unreduced: Axes, reduced: Axes) -> Axes:
    """Axes along which a value varies, or is a term of a sum, or the result of one; a TypingError for both."""
    found = [*varying, *[UNREDUCED + name for name in unreduced], *[REDUCED + name for name in reduced]]
    plain = [*varying, *unreduced, *reduced]
    if twice := sorted({name for name in plain if plain.count(name) > 1}):
        raise TypingError(f"a type says one thing along an axis, but two along {twice[0]!r}: {axes_text(tuple(found))}")
    return tuple(sorted(found))


def unmarked(axes: Axes) -> tuple[Axes, Axes, Axes]:
    """The axes along which a value varies, those along which it is unreduced, and those along which it is reduced."""
    parts: dict[str, list[str]] = {"": [], UNREDUCED: [], REDUCED: []}
    for name in axes:
        mark = name[:2] if name.startswith(MARKS) else ""
        parts[mark].append(name[len(mark) :])
    varying, unreduced, reduced = map(tuple, parts.values())
    return varying, unreduced, reduced


def axes_text(axes: Axes) -> str:
    """What types say along axes of a mesh, as they are printed: `{V:(x,y), U:z}`."""
    if not axes:
        return ""
    marked = [(name[:2], name[2:]) if name.startswith(MARKS) else ("V:", name) for name in axes]
    parts = {mark: [name for own, name in marked if own == mark] for mark in ("V:", UNREDUCED, REDUCED)}
    listed = {mark: names[0] if len(names) == 1 else f"({','.join(names)})" for mark, names in parts.items() if names}
    return "{" + ", ".join([mark + names for mark, names in listed.items()]) + "}"


def inserted(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    """A shape, or what else there is for each axis, with one axis more."""
    return (*values[:at], value, *values[at:])


def dtype_of(dtype: npt.DTypeLike) -> DType:
    if dtype is None:  # which is float64 to NumPy
        raise ChoiceError("a type needs a dtype, such as 'float32'; got None")
    try:
        return printed_dtype(dtype)
    except (TypeError, ValueError):
        raise InputError(f"{dtype!r} is not a dtype") from None


def as_weak(mark: object) -> bool:
    """Whether a type is weak: True or False, or NumPy's, or 1 or 0, which would be other parameters than these."""
    if mark is True or mark is False:
        return mark
    if not isinstance(mark, np.bool_ | int) or mark not in (0, 1):
        raise InputError(f"ShapedArray: weak_type is True or False, not {mark!r}")
    return bool(mark)
