"""Abstract values: what is known of an array before it has elements."""

from __future__ import annotations

import math
from typing import final

from attrs import field, frozen
from typing_extensions import override

from tinyjax.ir.dtypes import FLOAT0, INEXACT, DType, short_name
from tinyjax.ir.shapes import Shape, as_shape, dtype_of
from tinyjax.ir.shared_types import array_type


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
    dtype: DType = field(converter=dtype_of)
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
