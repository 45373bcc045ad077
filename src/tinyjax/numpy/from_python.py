"""What `array` and `full` make of Python's scalars and lists, and of arrays that are to have another dtype."""

from __future__ import annotations

from array import array as PythonArray  # noqa: N812 (a class)
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from tinyjax.arrays.elementwise import apply, astype, user_dtype
from tinyjax.arrays.lossy import warn_of_imaginary_parts
from tinyjax.arrays.promotion import result_type
from tinyjax.arrays.shaping import stack
from tinyjax.errors import ChoiceError, InputError, IntegerSizeError, ShapeError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BOOL,
    FLOAT64,
    INTEGERS,
    KEYS,
    PYTHON_DTYPES,
    SUPPORTED,
    UINT64,
    DType,
    integer_limits,
    short_name,
)
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue, frozen_elements
from tinyjax.primitives import conversion as conversion_primitives
from tinyjax.primitives.numpy_values import convert
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import ConcreteArray, as_array


def element_dtype(dtype: npt.DTypeLike | None) -> DType | None:
    """A dtype argument of what moves elements and computes nothing: it may be that of keys, too."""
    return dtype if isinstance(dtype, np.dtype) and dtype in KEYS else user_dtype(dtype)


def array_of(x: object, dtype: DType | None, copy: bool) -> Array:
    """An array of what has elements, with a dtype if one is given; a Python integer that it doesn't have is refused."""
    if isinstance(x, list | tuple):
        return _from_sequence(x, dtype)
    if dtype is not None and isinstance(x, int):
        return _of_integer(x, dtype)
    if x is None:
        raise _none()
    if isinstance(x, memoryview | bytearray | PythonArray | range):
        x = np.asarray(x)
    if isinstance(x, Array):
        known = x if dtype is None else astype(x, dtype)
        return apply(conversion_primitives.copy, x) if copy and known is x else known
    found = as_array(x)
    if dtype is None:
        return found
    value = found.concrete()
    if value is None or not isinstance(value.data, np.ndarray):
        return astype(found, dtype)
    warn_of_imaginary_parts(value.data.dtype, dtype)
    elements = frozen_elements(convert(value.data, dtype))
    return ConcreteArray(ConcreteValue(elements, array_type(value.shape, dtype)))


def _none() -> ChoiceError:
    """The error for None, of which NumPy makes an object, or nan."""
    return ChoiceError("None is not a valid value for array: write nan, or another number, for what is missing")


def _of_integer(x: int, dtype: DType) -> Array:
    """A Python integer with a dtype: one of any size as a float, else it must fit."""
    if dtype in INTEGERS:
        _check_size([x], dtype)
        return array_of(np.asarray(x, dtype), None, False)
    try:
        return array_of(as_array(x), dtype, False)
    except IntegerSizeError:
        try:
            return array_of(np.asarray(float(x)), dtype, False)
        except OverflowError:
            raise IntegerSizeError(f"array: {x} doesn't fit in {short_name(dtype)}") from None


def _check_size(leaves: Iterable[object], dtype: DType) -> None:
    """An IntegerSizeError for a Python integer that an integer dtype doesn't have."""
    low, high = integer_limits(dtype)
    for leaf in leaves:
        if isinstance(leaf, int) and not low <= leaf <= high:
            raise IntegerSizeError(
                f"array: the integer {leaf} doesn't fit in {dtype.name}, which ends at {low if leaf < low else high}"
            )


def _from_sequence(items: list[object] | tuple[object, ...], dtype: DType | None) -> Array:
    leaves = list(_leaves(items))
    if dtype is None:
        dtype = result_type(_kinds(leaves))[0] if leaves else FLOAT64
    if any(isinstance(leaf, Array) for leaf in leaves):
        parts = [array_of(item, dtype, False) for item in items]
        if len({part.aval.shape for part in parts}) > 1:
            raise ShapeError(f"array: the items differ in shape: {', '.join(str(part.aval) for part in parts)}")
        return stack(parts, 0)
    if dtype in INTEGERS:
        _check_size(leaves, dtype)
    exact = dtype == UINT64 and all(isinstance(leaf, int) for leaf in leaves)
    try:
        elements = np.asarray(items, None if not exact and (dtype in INTEGERS or dtype == BOOL) else dtype)
    except ValueError as error:
        raise ShapeError(f"array: {error}") from None
    except TypeError as error:
        raise InputError(f"array: {error}") from None
    if elements.dtype == object:
        raise IntegerSizeError(f"array: an integer doesn't fit in 64 bits, in {items!r}")
    return array_of(elements, dtype, False)


def _leaves(items: Iterable[object]) -> Iterator[object]:
    for item in items:
        if isinstance(item, list | tuple):
            yield from _leaves(item)
        elif item is None:
            raise _none()
        elif isinstance(item, Array) or not hasattr(item, "__jax_array__"):
            yield item
        else:
            yield as_array(item)


def _kinds(leaves: Iterable[object]) -> list[ShapedArray]:
    """The distinct types of the leaves, as scalars."""
    kinds = {type(leaf) if type(leaf) in PYTHON_DTYPES else as_array(leaf).aval for leaf in leaves}
    return [array_type((), PYTHON_DTYPES[kind], kind is not bool) if isinstance(kind, type) else kind for kind in kinds]


def filling(value: ArrayLike, dtype: DType | None) -> Array:
    """A value to fill an array with."""
    if dtype is None:
        return as_array(value)
    if isinstance(value, int) and dtype in SUPPORTED:
        return _of_integer(value, dtype)
    return astype(as_array(value), dtype)
