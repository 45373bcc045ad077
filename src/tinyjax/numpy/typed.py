"""The types of what is promoted: arrays, also of another library, numbers and dtypes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyjax import backend
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.conversion import array_dtype
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def type_of(x: ArrayLike | npt.DTypeLike) -> ShapedArray:
    """The type of an array or a number; of a dtype, that of its scalars."""
    if isinstance(x, Array | np.ndarray | np.generic | bool | int | float | complex) or is_array(x):
        return as_array(x).aval
    # Python's types are weak, as their values are. A dtype may be equal to one of them, and isn't.
    return array_type((), array_dtype(x), isinstance(x, type) and x in (int, float, complex))


def is_array(x: object) -> bool:
    """Whether it is an array of another library: one of jax's, or what `__jax_array__` makes one of."""
    return not isinstance(x, type) and (hasattr(x, "__jax_array__") or backend.from_jax(x) is not None)
