"""Shapes and dtypes as users give them."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Final, TypeAlias

import numpy.typing as npt

from tinyjax.errors import ChoiceError, ConcretizationError, InputError, ShapeError
from tinyjax.ir.dtypes import DType, printed_dtype

Shape: TypeAlias = tuple[int, ...]
#: Names of axes of a mesh, in alphabetical order.
Axes: TypeAlias = tuple[str, ...]


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


def axes_text(axes: Axes) -> str:
    """Axes along which values of a type vary, as types are printed."""
    if not axes:
        return ""
    return f"{{V:{axes[0]}}}" if len(axes) == 1 else f"{{V:({','.join(axes)})}}"


def inserted(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    """A shape, or what else there is for each axis, with one axis more."""
    return (*values[:at], value, *values[at:])


def dtype_of(dtype: npt.DTypeLike) -> DType:
    if dtype is None:  # which is float64 to NumPy
        raise ChoiceError("a type needs a dtype, such as 'float32'; got None")
    try:
        return printed_dtype(dtype)
    except TypeError:
        raise InputError(f"{dtype!r} is not a dtype") from None
