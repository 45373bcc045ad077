"""The types of what may be an array, or only says what type it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy.typing as npt

from tinyjax.ir.aval import ShapedArray


class Described(Protocol):
    """What has the shape and the dtype of an array."""

    @property
    def shape(self) -> Sequence[int]: ...

    @property
    def dtype(self) -> npt.DTypeLike: ...


def described(x: object) -> ShapedArray | None:
    """The type that x says it has: as its `aval`, or, if it isn't an array for NumPy, by a shape and a dtype. So its
    elements aren't asked for, which may not be there, or be expensive."""
    if isinstance(x, ShapedArray):
        return x
    found = getattr(x, "aval", None)
    if isinstance(found, ShapedArray):
        return found
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is None or dtype is None or hasattr(x, "__array__"):
        return None
    return ShapedArray(shape, dtype, bool(getattr(x, "weak_type", False)))
