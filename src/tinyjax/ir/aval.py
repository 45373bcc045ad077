"""Abstract values: what is known of an array before it has elements."""

from __future__ import annotations

import math
from typing import final

from attrs import Factory, field, frozen
from typing_extensions import override

from tinyjax.ir.dtypes import FLOAT0, INEXACT, DType, short_name
from tinyjax.ir.duality import AlongAxes
from tinyjax.ir.shapes import Axes, Shape, as_axes, as_shape, as_weak, axes_text, dtype_of
from tinyjax.ir.shared_types import array_type


@final
@frozen(cache_hash=True, repr=False)
class ShapedArray(AlongAxes):
    """The set of arrays of one shape and dtype.

    `weak_type` marks values that came from Python scalars: they take the dtype of the other operand. A dtype may be
    spelled as programs print it, so "i8" is int8, or as NumPy does. The others are of values within `shard_map`, see
    `ir.varying`: `varying` names the axes of a mesh along which each device has its own array, `unreduced` those along
    which each has a term of a sum yet to be made, and `reduced` those along which all have the same, whose cotangent
    is such a sum.

    >>> ShapedArray((2, 3), "float32"), ShapedArray((2, 3), "f32")
    (ShapedArray(f32[2,3]), ShapedArray(f32[2,3]))
    >>> ShapedArray((), float, weak_type=True)
    ShapedArray(~f64[])
    >>> ShapedArray((4,), "f32", varying=("x", "y"))
    ShapedArray(f32[4]{V:(x,y)})
    >>> ShapedArray((4,), "f32", varying=("x",), unreduced=("y",))
    ShapedArray(f32[4]{V:x, U:y})
    """

    shape: Shape = field(converter=as_shape)
    dtype: DType = field(converter=dtype_of)
    weak_type: bool = field(default=False, converter=as_weak)
    varying: Axes = field(default=(), converter=as_axes)
    unreduced: Axes = field(default=(), converter=as_axes)
    reduced: Axes = field(default=(), converter=as_axes)
    #: All three, as the rules of `ir.varying` take them.
    axes: Axes = field(init=False, eq=False, default=Factory(AlongAxes.all_axes, takes_self=True))

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
    @override
    def tangent(self) -> ShapedArray:
        """The type of tangents: the same array type, or float0 where there is nothing to differentiate."""
        return self if self.dtype in INEXACT else array_type(self.shape, FLOAT0, False, self.axes)

    def strengthen(self) -> ShapedArray:
        """The same type without the weak mark."""
        return array_type(self.shape, self.dtype, False, self.axes) if self.weak_type else self

    def of_shape(self, shape: Shape) -> ShapedArray:
        """The same but for the shape."""
        return array_type(shape, self.dtype, self.weak_type, self.axes)

    def varying_over(self, axes: Axes) -> ShapedArray:
        """The same but for what it says along axes of a mesh."""
        return self if axes == self.axes else array_type(self.shape, self.dtype, self.weak_type, axes)

    def matches(self, other: ShapedArray) -> bool:
        """Whether shape and dtype are the same, weak or not."""
        return self is other or (self.shape == other.shape and self.dtype == other.dtype)

    @override
    def __str__(self) -> str:
        mark = "~" if self.weak_type else ""
        return f"{mark}{short_name(self.dtype)}[{','.join(map(str, self.shape))}]{axes_text(self.axes)}"

    @override
    def __repr__(self) -> str:
        return f"ShapedArray({self})"
