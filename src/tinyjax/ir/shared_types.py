"""Types of arrays, made once: so that they are shared objects, which are quick to compare, and found by identity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyjax.caching import bounded
from tinyjax.ir.dtypes import DType
from tinyjax.ir.shapes import Axes, Shape, unmarked

if TYPE_CHECKING:
    from tinyjax.ir.aval import ShapedArray


@bounded(16384)
def array_type(shape: Shape, dtype: DType, weak_type: bool = False, axes: Axes = ()) -> ShapedArray:
    """The one ShapedArray of this shape and dtype that the library itself uses."""
    return _shared(shape, dtype, weak_type, axes)


@bounded(16384)
def _shared(shape: Shape, dtype: DType, weak_type: bool, axes: Axes) -> ShapedArray:
    """The same however `array_type` is called: its own cache tells a default that is given from one left out."""
    from tinyjax.ir.aval import ShapedArray  # which needs this file: its types have tangent types

    return ShapedArray(shape, dtype, weak_type, *unmarked(axes))
