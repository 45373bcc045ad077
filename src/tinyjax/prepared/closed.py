"""Functions of several primitives that NumPy has as one, and to the bit.

A function is what its primitives make it. Where NumPy's gives the same, it runs in their place, on the host and on
small arrays of a CPU device. Where it gives something else for some numbers, these are looked for first, and the
primitives run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, HostArray

#: Computes the one result.
Steps: TypeAlias = Callable[..., "HostArray | np.generic"]
#: What computes it in a step or two, given what does so in many; None if there is nothing for operands of these types.
ClosedForm: TypeAlias = Callable[[Steps, Sequence[ShapedArray]], Steps | None]

_FLOATS: Final = frozenset({FLOAT32, FLOAT64})
_NUMBERS: Final = _FLOATS | {INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64}
#: Quotients above it may end in a half, which the primitives round up, and NumPy down. (Both round negative ones down.)
_HALVES: Final = 2.0**20


def remainder(steps: Steps, avals: Sequence[ShapedArray]) -> Steps | None:
    """The remainder with the sign of the divisor."""
    x, y = avals
    return np.remainder if x.dtype in _NUMBERS and x.dtype == y.dtype else None


def floor_divide(steps: Steps, avals: Sequence[ShapedArray]) -> Steps | None:
    """The quotient of floats by one number, rounded down."""
    x, y = avals
    if x.dtype not in _FLOATS or x.dtype != y.dtype or y.shape or not x.size:
        return None
    size = x.size

    def divide(x: HostArray, y: HostArray) -> HostArray | np.generic:
        # NumPy has other zeros, for zeros too, and other ideas of infinities.
        if 0.0 < abs(y.item()) < np.inf and np.count_nonzero(x) == size:
            quotient = np.floor_divide(x, y)
            if np.maximum.reduce(quotient, None) < _HALVES:  # not if there is a nan
                return np.add(quotient, 0.0)  # which makes 0.0 of -0.0
        return steps(x, y)

    return divide
