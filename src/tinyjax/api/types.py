"""Types of values, by the names that JAX has for them."""

from __future__ import annotations

from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.tracebacks import filtered
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


@filtered
def typeof(x: ArrayLike) -> ShapedArray:
    """The type of an array or a number: what a program knows of it.

    Raises:
      InputError: `x` is neither.

    >>> import numpy as np
    >>> typeof(np.ones((2, 3), "float32")), typeof(1.0)
    (ShapedArray(f32[2,3]), ShapedArray(~f64[]))
    """
    if isinstance(x, Array):
        return x.aval
    try:
        return as_array(x).aval
    except InputError:
        raise InputError(f"typeof takes an array or a number, got {x!r} of type {type(x).__name__}") from None
