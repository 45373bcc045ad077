"""What the functions here make of their operands."""

from __future__ import annotations

from tinyjax.arrays.elementwise import apply, broadcast, promote_inexact
from tinyjax.errors import DtypeError
from tinyjax.ir.dtypes import COMPLEXES
from tinyjax.ir.primitive import Primitive
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def inexacts(*xs: ArrayLike) -> list[Array]:
    """The operands as floats or complex numbers of one dtype and shape."""
    return list(broadcast(*promote_inexact(*map(as_array, xs))))


def floats(name: str, *xs: ArrayLike) -> list[Array]:
    """The operands as floats of one dtype and shape; a TypingError if they are complex."""
    found = inexacts(*xs)
    if found[0].aval.dtype in COMPLEXES:
        raise DtypeError(f"{name} takes real numbers, got {', '.join(str(as_array(x).aval) for x in xs)}")
    return found


def strong_floats(name: str, *xs: ArrayLike) -> list[Array]:
    """The same of functions whose results aren't weakly typed, as in JAX."""
    return [x.astype(x.dtype) for x in floats(name, *xs)]


def applied(name: str, primitive: Primitive, *xs: ArrayLike) -> Array:
    """An elementwise primitive, applied to operands that are promoted and broadcast."""
    return apply(primitive, *floats(name, *xs))
