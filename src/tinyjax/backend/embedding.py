"""Which arrays that a function closes over are spelled out in its text, and which stay arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, TypeVar

from tinyjax.backend.buffers import ShardedBuffer
from tinyjax.ir.value import ConcreteValue

T = TypeVar("T")

#: What some of the first inputs of a program are; None for those that are arguments, as all that follow are.
Constants: TypeAlias = "tuple[ConcreteValue | None, ...]"
#: How large an array may be to be embedded, in bytes, where nothing else is said.
EMBEDDED_BYTES: Final = 1 << 20


def embedded(captured: Sequence[ConcreteValue], largest: int | None) -> Constants:
    """The constants among the arrays that feed a program's first inputs: scalars, and arrays of at most `largest` bytes
    (None: of any size), which lie in one place, or whole on each of several devices.

    >>> import numpy as np
    >>> small, large = ConcreteValue.of(np.ones(2)), ConcreteValue.of(np.ones(100))
    >>> (
    ...     embedded([large, small], 100) == (None, small),
    ...     embedded([large], 100),
    ...     embedded([large], None) == (large,),
    ... )
    (True, (), True)
    """
    found = tuple([value if _is_small(value, largest) else None for value in captured])
    return found if any(value is not None for value in found) else ()


def _is_small(value: ConcreteValue, largest: int | None) -> bool:
    aval, data = value.aval, value.data
    if isinstance(data, ShardedBuffer) and not data.is_whole:
        return False
    return largest is None or not aval.shape or aval.nbytes <= largest


def passed(constants: Constants, of_inputs: Sequence[T]) -> list[T]:
    """What is left of something that is there for each input: that of the arguments."""
    n = len(constants)
    kept = [x for x, value in zip(of_inputs, constants, strict=False) if value is None]
    return [*kept, *of_inputs[n:]]
