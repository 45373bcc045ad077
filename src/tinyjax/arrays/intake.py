"""Arguments of functions that are methods of arrays, too: what users pass for an array, and what is only refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tinyjax.deferred import Deferred
from tinyjax.errors import UnsupportedError
from tinyjax.prepared.functions import OPERAND
from tinyjax.prepared.stored_array import StoredArray

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array, ArrayLike

#: What makes arrays of NumPy arrays, scalars and others.
AS_ARRAY: Final = Deferred[Callable[[object], "Array"]]()
AS_OPERAND: Final = Deferred[Callable[[object], "Array"]]()


def hand_in(
    array: object,
    array_like: object,
    as_array: Callable[[object], Array],
    as_operand: Callable[[object], Array],
    at_once: Callable[[object], StoredArray | None],
) -> None:
    """What this layer needs of the one that has the classes of arrays. Annotations here name `Array` and `ArrayLike`:
    `typing.get_type_hints` finds them."""
    AS_ARRAY.hand(as_array)
    AS_OPERAND.hand(as_operand)
    OPERAND.hand(at_once)
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{__package__}."):
            vars(module).update(Array=array, ArrayLike=array_like)


def as_array(x: ArrayLike) -> Array:
    """An array as it is, or what can be one as one. A copy, if it may be written to."""
    return AS_ARRAY.use(x)


def as_operand(x: ArrayLike) -> Array:
    """The same for an operation whose result is a new array: what is computed with at once isn't copied."""
    return AS_OPERAND.use(x)


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
