"""What the functions here make of their operands."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from tinyjax.arrays.elementwise import apply, broadcast, promote_inexact
from tinyjax.errors import DtypeError
from tinyjax.ir.dtypes import COMPLEXES
from tinyjax.ir.primitive import Primitive
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

P = ParamSpec("P")
R = TypeVar("R")


def prepared_for_numbers(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a function that depends on nothing but the types of its arguments, all of which are arrays or numbers: see
    `tinyjax.prepared.functions.prepared`."""
    marked: Callable[..., R] = prepared(function)

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return marked(*map(as_array, args), **{name: as_array(arg) for name, arg in kwargs.items()})

    return run


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
