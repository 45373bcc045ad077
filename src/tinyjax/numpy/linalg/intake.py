"""What functions of linear algebra make of their arguments."""

from __future__ import annotations

from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def inexact(x: ArrayLike) -> Array:
    """The array, with integers as floats."""
    return promote_inexact(as_array(x))[0]
