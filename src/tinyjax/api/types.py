"""Types of values, by the names that JAX has for them."""

from __future__ import annotations

from tinyjax.api.structs import ShapeDtypeStruct, lying_type
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.lax.explicit import typed_sharding
from tinyjax.refs.ref import AnyRef, Ref
from tinyjax.tracebacks import filtered
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


@filtered
def typeof(x: ArrayLike | Ref | ShapedArray | ShapeDtypeStruct) -> ShapedArray | ShapeDtypeStruct:
    """The type of an array or a number: what a program knows of it. Its `sharding` says how it lies along Explicit
    axes of a mesh, as far as is known; without a mesh, it is on an empty one. A type, such as one that `eval_shape`
    gives, is its own. Of a Ref, it is a ShapeDtypeStruct with `is_ref`.

    Raises:
      InputError: `x` is neither.
      ShardingTypeError: it might lie in several ways.

    >>> import numpy as np
    >>> typeof(np.ones((2, 3), "float32")), typeof(1.0)
    (ShapedArray(f32[2,3]), ShapedArray(~f64[]))
    """
    if isinstance(x, Array):
        return _typed(x)
    if isinstance(x, ShapedArray | ShapeDtypeStruct):
        return x
    if isinstance(x, AnyRef):
        held = _typed(x.current())
        return ShapeDtypeStruct.like(held).update(is_ref=True)
    try:
        return _typed(as_array(x))
    except InputError:
        raise InputError(f"typeof takes an array, a number or a Ref, got {x!r} of type {type(x).__name__}") from None


def _typed(x: Array) -> ShapedArray | ShapeDtypeStruct:
    return lying_type(x.aval, typed_sharding(x))
