"""Constants that count, as 0, 1, 2, …, or repeat one number: each function that is given one has it in its own text.

XLA takes them for an iota, or for a broadcast, before it looks into calls. It then doesn't compute with them while it
compiles, and loops carry them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np

from tinyjax.ir.dtypes import FLOATS, INTEGERS, HostArray
from tinyjax.ir.value import ConcreteValue

#: What some of the first inputs of a program are; None for those that are arguments, as all that follow are.
Constants: TypeAlias = "Sequence[ConcreteValue | None]"

#: Up to so many elements a constant that counts is written in each function that is given it.
_FEW: Final = 1024


def is_ramp(elements: HostArray) -> bool:
    """Whether these are a few multiples of a number, 0 first and then one after the other.

    >>> is_ramp(np.arange(5)), is_ramp(np.asarray([0.0, 0.5, 1.0])), is_ramp(np.asarray([1, 2, 3]))
    (True, True, False)
    """
    if elements.ndim != 1 or not 2 <= elements.size <= _FEW or elements.dtype not in INTEGERS | FLOATS:
        return False
    if elements[0] != 0:
        return False
    with np.errstate(all="ignore"):  # such as 0, inf: not what is looked for
        return bool(np.all(elements == np.arange(elements.size).astype(elements.dtype) * elements[1]))


def is_repeated(elements: HostArray) -> bool:
    """Whether several elements are the same, to the bit.

    >>> is_repeated(np.full((2, 3), 0.5)), is_repeated(np.asarray([0.0, -0.0])), is_repeated(np.zeros(1))
    (True, False, False)
    """
    if elements.size < 2:
        return False
    flat = elements.reshape(-1)
    first = flat[:1].tobytes()
    return flat[-1:].tobytes() == first and flat.tobytes() == first * flat.size


def is_regular(elements: HostArray) -> bool:
    """Whether XLA takes a constant with these elements for an iota or a broadcast."""
    return is_ramp(elements) or is_repeated(elements)
