"""Types and arrays of JAX as ours."""

from __future__ import annotations

import numpy as np

from tinyjax.backend import jax_programs
from tinyjax.errors import UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL, FLOAT0, SUPPORTED, UINT32
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue


def type_of(aval: object) -> ShapedArray:
    """The type, with typed keys as the integers that they consist of."""
    if jax_programs.is_key(aval):
        return array_type(jax_programs.key_shape(aval), UINT32)
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    if shape is None or dtype is None:
        raise UnsupportedError(f"{aval} is no type of arrays")
    if dtype not in SUPPORTED and dtype != FLOAT0:
        raise UnsupportedError(f"there are no arrays of dtype {dtype}")
    # Here bool is never weak: it gives way to every other dtype anyway.
    return ShapedArray(shape, dtype, bool(getattr(aval, "weak_type", False)) and dtype != BOOL)


def constant_of(value: object, aval: ShapedArray) -> ConcreteValue:
    """An array of JAX."""
    return ConcreteValue(np.asarray(jax_programs.integers_of(value)), aval).frozen_copy()
