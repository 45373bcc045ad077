"""Functions of several primitives that NumPy has as one, and to the bit.

A function is what its primitives make it. Where NumPy's gives the same, it runs in their place, on the host and on
small arrays of a CPU device. Where it gives something else for some numbers, these are looked for first, and the
primitives run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

import numpy as np

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    HostArray,
)

#: The one result, or a list of several arrays.
Results: TypeAlias = "HostArray | np.generic | list[HostArray]"
Steps: TypeAlias = Callable[..., Results]
#: What computes it in a step or two, given what does so in many, if that isn't a loop; None if there is nothing for
#: operands of these types.
ClosedForm: TypeAlias = Callable[[Steps | None, Sequence[ShapedArray]], Steps | None]

_FLOATS: Final = frozenset({FLOAT32, FLOAT64})
_WHOLE: Final = frozenset({INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64})
_NUMBERS: Final = _FLOATS | _WHOLE
#: Quotients above it may end in a half, which the primitives round up, and NumPy down. (Both round negative ones down.)
_HALVES: Final = 2.0**20


def remainder(steps: Steps | None, avals: Sequence[ShapedArray]) -> Steps | None:
    """The remainder with the sign of the divisor."""
    x, y = avals
    return np.remainder if x.dtype in _NUMBERS and x.dtype == y.dtype else None


def floor_divide(steps: Steps | None, avals: Sequence[ShapedArray]) -> Steps | None:
    """The quotient of floats, rounded down."""
    quotients = _quotients(avals)
    if steps is None or quotients is None:
        return None

    def divide(x: HostArray, y: HostArray) -> Results:
        found = quotients(x, y)
        return steps(x, y) if found is None else found

    return divide


def divide_with_remainder(steps: Steps | None, avals: Sequence[ShapedArray]) -> Steps | None:
    """The same, and the remainder."""
    quotients = _quotients(avals)
    if steps is None or quotients is None:
        return None

    def divide(x: HostArray, y: HostArray) -> Results:
        found = quotients(x, y)
        return steps(x, y) if found is None else [np.asarray(found), np.asarray(np.remainder(x, y))]

    return divide


def _quotients(avals: Sequence[ShapedArray]) -> Callable[[HostArray, HostArray], HostArray | np.generic | None] | None:
    """What divides floats and rounds down; nothing where NumPy has other zeros, for zeros too, and other ideas of
    infinities."""
    x, y = avals
    if x.dtype not in _FLOATS or x.dtype != y.dtype or not x.size or not y.size:
        return None
    size, single = x.size, not y.shape

    def divide(x: HostArray, y: HostArray) -> HostArray | np.generic | None:
        if np.count_nonzero(x) == size and (0.0 < abs(y.item()) < np.inf if single else _ordinary(y)):
            quotient = np.floor_divide(x, y)
            if np.maximum.reduce(quotient, None) < _HALVES:  # not if there is a nan
                return np.add(quotient, 0.0)  # which makes 0.0 of -0.0
        return None

    return divide


def _ordinary(y: HostArray) -> bool:
    """Whether no element is zero, infinite or nan."""
    sizes = np.abs(y)
    return bool(np.minimum.reduce(sizes, None) > 0.0 and np.maximum.reduce(sizes, None) < np.inf)


def gcd(steps: Steps | None, avals: Sequence[ShapedArray]) -> Steps | None:
    """The greatest common divisor."""
    return _of_whole_numbers(np.gcd, avals)


def lcm(steps: Steps | None, avals: Sequence[ShapedArray]) -> Steps | None:
    """The least common multiple."""
    return _of_whole_numbers(np.lcm, avals)


def _of_whole_numbers(function: Steps, avals: Sequence[ShapedArray]) -> Steps | None:
    x, y = avals
    return function if x.dtype in _WHOLE and x.dtype == y.dtype else None


def sorted_left(steps: Steps | None, avals: Sequence[ShapedArray]) -> Steps | None:
    """Before which elements of a sorted vector values would have to be inserted."""
    return _into_sorted(avals, "left")


def sorted_right(steps: Steps | None, avals: Sequence[ShapedArray]) -> Steps | None:
    """The same, after elements that are equal."""
    return _into_sorted(avals, "right")


def _into_sorted(avals: Sequence[ShapedArray], side: Literal["left", "right"]) -> Steps | None:
    ordered, values = avals
    if ordered.dtype not in _NUMBERS or ordered.dtype != values.dtype:
        return None
    return lambda ordered, values: ordered.searchsorted(values, side)


def bins_before(steps: Steps | None, avals: Sequence[ShapedArray]) -> Steps | None:
    """Between which bounds, in either order, values are; a bound belongs to what is before it."""
    return _between(avals, "left")


def bins_after(steps: Steps | None, avals: Sequence[ShapedArray]) -> Steps | None:
    """The same; a bound belongs to what is after it."""
    return _between(avals, "right")


def _between(avals: Sequence[ShapedArray], side: Literal["left", "right"]) -> Steps | None:
    values, bounds = avals
    if values.dtype not in _NUMBERS or values.dtype != bounds.dtype:
        return None
    size = bounds.size

    def bins(values: HostArray, bounds: HostArray) -> HostArray | np.generic:
        if bounds[-1] >= bounds[0]:
            return bounds.searchsorted(values, side)
        return np.subtract(size, bounds[::-1].searchsorted(values, side))

    return bins


def members(steps: Steps | None, avals: Sequence[ShapedArray]) -> Steps | None:
    """Which elements are among those of a vector."""
    x, y = avals
    return np.isin if x.dtype in _NUMBERS and x.dtype == y.dtype else None


def frexp(steps: Steps | None, avals: Sequence[ShapedArray]) -> Steps | None:
    """Fractions and exponents."""
    (x,) = avals
    return (lambda x: list(map(np.asarray, np.frexp(x)))) if x.dtype in _FLOATS else None


def of_floats(function: Steps) -> ClosedForm:
    """What NumPy's function gives for floats of one dtype."""

    def form(steps: Steps | None, avals: Sequence[ShapedArray]) -> Steps | None:
        return function if avals[0].dtype in _FLOATS and all(x.dtype == avals[0].dtype for x in avals) else None

    return form


def packbits(steps: Steps | None, avals: Sequence[ShapedArray]) -> Steps | None:
    """Elements as bits of bytes."""
    (x,) = avals
    return np.packbits if x.size and x.shape and (x.dtype == BOOL or x.dtype in _WHOLE) else None
