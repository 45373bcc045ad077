"""What numbers are moved by before their exponentials are added up, so that none of these is too large."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

from tinyjax.arrays.intake import as_array
from tinyjax.arrays.reductions import Axis, reduced
from tinyjax.primitives import arithmetic
from tinyjax.primitives.reductions import NanMode, ReduceMax, lowest

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array

_either: Final = partial(ReduceMax, nan_mode=NanMode.EITHER)


def shift(x: Array, axis: Axis, keepdims: bool = True) -> Array:
    """The maximum over axes, which are kept with size 1 if `keepdims`; -inf of no elements. Where there is a nan, it
    may be that of the numbers, which takes XLA less time: the sum of exponentials is nan either way."""
    return reduced("max", x, axis, keepdims, as_array(-math.inf), None, _either, arithmetic.max_, lowest)
