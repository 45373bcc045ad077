"""Types and arrays of JAX as ours."""

from __future__ import annotations

from typing import Final

from tinyjax.backend import jax_equations, jax_programs
from tinyjax.errors import UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BOOL,
    COMPLEX64,
    COMPLEX128,
    FLOAT0,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    SUPPORTED,
    UINT32,
    UINT64,
    HostArray,
    integer_limits,
)
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue

#: What JAX makes of Python's numbers where 64-bit types are switched off.
_NARROW: Final = {FLOAT64: FLOAT32, INT64: INT32, COMPLEX128: COMPLEX64}
_NARROW_INTEGERS: Final = {INT64: INT32, UINT64: UINT32}


def type_of(aval: object) -> ShapedArray:
    """The type; of typed keys that aren't values here, that of the integers that they consist of. How arrays lie on a
    mesh is no part of types here. A token is an array without elements, as `lax.create_token` makes it."""
    if jax_programs.is_token(aval):
        return array_type((0,), BOOL)
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    keys = jax_programs.key_dtype(aval)
    if keys is not None and shape is not None:
        return array_type(shape, keys, False, jax_equations.axes_of(aval))
    if jax_programs.is_key(aval):
        return array_type(jax_programs.key_shape(aval), UINT32, False, jax_equations.axes_of(aval))
    if shape is None or dtype is None:
        raise UnsupportedError(f"{aval} is no type of arrays")
    if dtype not in SUPPORTED and dtype != FLOAT0:
        raise UnsupportedError(f"there are no arrays of dtype {dtype}")
    # Here bool is never weak: it gives way to every other dtype anyway.
    weak = bool(getattr(aval, "weak_type", False)) and dtype != BOOL
    return ShapedArray(shape, dtype, weak).varying_over(jax_equations.axes_of(aval))


def constant_of(value: object, aval: ShapedArray) -> ConcreteValue:
    """An array of JAX."""
    return ConcreteValue(jax_programs.elements_of(value), aval).frozen_copy()


def narrow(aval: ShapedArray) -> ShapedArray:
    """The type that JAX has for this now: a weak one of 64 bits has 32 where those are switched off."""
    if not aval.weak_type or aval.dtype not in _NARROW or jax_programs.x64_enabled():
        return aval
    return ShapedArray(aval.shape, _NARROW[aval.dtype], True, aval.varying, aval.unreduced, aval.reduced)


def fitting(elements: HostArray) -> HostArray:
    """Integers of 64 bits as JAX has them now: of 32 where those are switched off, if all of them fit in. (It would
    truncate the others.)"""
    dtype = _NARROW_INTEGERS.get(elements.dtype)
    if dtype is None or jax_programs.x64_enabled():
        return elements
    low, high = integer_limits(dtype)
    if elements.size and not (low <= elements.min() and elements.max() <= high):
        return elements
    return elements.astype(dtype)
