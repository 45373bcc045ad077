"""Python's numbers as arguments of programs that have been traced for other types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tinyjax.arrays.elementwise import convert
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES, FLOATS, INTEGERS
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray

_KINDS: Final = (INTEGERS, FLOATS, COMPLEXES)


def adapted(arrays: Sequence[Array], avals: Sequence[ShapedArray]) -> list[Array]:
    """The arguments of a program for these types: numbers that are weakly typed take the dtype that is asked for, if it
    is of their own kind and an integer fits. Others are left as they are."""
    if len(arrays) != len(avals):
        return list(arrays)
    return [_adapted(array, aval) for array, aval in zip(arrays, avals, strict=True)]


def _adapted(array: Array, aval: ShapedArray) -> Array:
    own = array.aval
    if own.dtype == aval.dtype or not own.weak_type or own.shape or aval.shape or not isinstance(array, ConcreteArray):
        return array
    if not any(own.dtype in kind and aval.dtype in kind for kind in _KINDS):
        return array
    try:
        return convert(array, aval.dtype, aval.weak_type)
    except InputError:  # an integer that doesn't fit
        return array
