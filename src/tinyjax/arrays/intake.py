"""Arguments of functions that are methods of arrays, too: what users pass for an array, and what is only refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tinyjax.errors import UnsupportedError

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array, ArrayLike

#: What makes arrays of NumPy arrays, scalars and others: handed in by the layer that has the classes of arrays.
INTAKE: Final[dict[str, Callable[[object], Array]]] = {}


def as_array(x: ArrayLike) -> Array:
    """An array as it is, or what can be one as one. A copy, if it may be written to."""
    return INTAKE["array"](x)


def as_operand(x: ArrayLike) -> Array:
    """The same for an operation whose result is a new array: what is computed with at once isn't copied."""
    return INTAKE["operand"](x)


def optional(x: ArrayLike | None) -> Array | None:
    """An optional argument as an array."""
    return None if x is None else as_array(x)


def refuse_out(name: str, out: None) -> None:
    """`out` is there because NumPy's own functions pass it on to methods."""
    if out is not None:
        raise UnsupportedError(f"{name}: out is not supported, because arrays are immutable. Use the result instead.")


def refuse_kind(name: str, *given: None) -> None:
    """`kind` and `order` are there because NumPy's own functions pass them on."""
    if given != (None, None):
        raise UnsupportedError(
            f"{name}: kind and order are not supported. stable says whether equal elements stay in order."
        )
