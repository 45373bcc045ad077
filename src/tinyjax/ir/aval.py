"""Abstract values: what is known of an array before it has elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import final

import numpy.typing as npt
from attrs import field, frozen
from typing_extensions import override

from tinyjax.caching import bounded
from tinyjax.errors import ConcretizationError, InputError, ShapeError
from tinyjax.ir.dtypes import FLOAT0, INEXACT, DType, printed_dtype, short_name

Shape = tuple[int, ...]


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


def _as_dtype(dtype: npt.DTypeLike) -> DType:
    try:
        return printed_dtype(dtype)
    except TypeError:
        raise InputError(f"{dtype!r} is not a dtype") from None


@final
@frozen(cache_hash=True, repr=False)
class ShapedArray:
    """The set of arrays of one shape and dtype.

    `weak_type` marks values that came from Python scalars: they take the dtype of the other operand. A dtype may be
    spelled as programs print it, so "i8" is int8, or as NumPy does.

    >>> ShapedArray((2, 3), "float32"), ShapedArray((2, 3), "f32")
    (ShapedArray(f32[2,3]), ShapedArray(f32[2,3]))
    >>> ShapedArray((), float, weak_type=True)
    ShapedArray(~f64[])
    """

    shape: Shape = field(converter=as_shape)
    dtype: DType = field(converter=_as_dtype)
    weak_type: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def tangent(self) -> ShapedArray:
        """The type of tangents: the same array type, or float0 where there is nothing to differentiate."""
        return self if self.dtype in INEXACT else array_type(self.shape, FLOAT0)

    def strengthen(self) -> ShapedArray:
        """The same type without the weak mark."""
        return array_type(self.shape, self.dtype) if self.weak_type else self

    def matches(self, other: ShapedArray) -> bool:
        """Whether shape and dtype are the same, weak or not."""
        return self is other or (self.shape == other.shape and self.dtype == other.dtype)

    @override
    def __str__(self) -> str:
        mark = "~" if self.weak_type else ""
        return f"{mark}{short_name(self.dtype)}[{','.join(map(str, self.shape))}]"

    @override
    def __repr__(self) -> str:
        return f"ShapedArray({self})"


def all_match(found: Sequence[ShapedArray], expected: Sequence[ShapedArray]) -> bool:
    """Whether these are the same types one by one, weak or not."""
    # The first is for tuples of shared types, which are compared by identity.
    return found == expected or (len(found) == len(expected) and all(map(ShapedArray.matches, found, expected)))


@bounded(16384)
def array_type(shape: Shape, dtype: DType, weak_type: bool = False) -> ShapedArray:
    """The one ShapedArray of this shape and dtype that the library itself uses: shared, so comparing it is cheap."""
    return _shared(shape, dtype, weak_type)


@bounded(16384)
def _shared(shape: Shape, dtype: DType, weak_type: bool) -> ShapedArray:
    """The same however `array_type` is called: its own cache tells a default that is given from one left out."""
    return ShapedArray(shape, dtype, weak_type)
