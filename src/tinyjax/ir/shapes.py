"""Shapes and dtypes as users give them."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TypeAlias

import numpy.typing as npt

from tinyjax.errors import ConcretizationError, InputError, ShapeError
from tinyjax.ir.dtypes import DType, printed_dtype

Shape: TypeAlias = tuple[int, ...]


def as_shape(shape: Iterable[int] | int) -> Shape:
    """A shape as a tuple of Python ints; a ShapeError if it is not one."""
    try:
        sizes = (operator.index(shape),) if isinstance(shape, int) else tuple(operator.index(size) for size in shape)
    except ConcretizationError:  # a traced size, of which it says where it comes from
        raise
    except TypeError:
        raise ShapeError(f"a shape is a sequence of integers, got {shape!r}") from None
    if any(size < 0 for size in sizes):
        raise ShapeError(f"the sizes of a shape are at least 0, got {sizes}")
    return sizes


def inserted(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    """A shape, or what else there is for each axis, with one axis more."""
    return (*values[:at], value, *values[at:])


def dtype_of(dtype: npt.DTypeLike) -> DType:
    try:
        return printed_dtype(dtype)
    except TypeError:
        raise InputError(f"{dtype!r} is not a dtype") from None
