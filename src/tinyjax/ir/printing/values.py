"""Single values, in a line of text."""

from __future__ import annotations

from typing import Final

import numpy as np

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.value import ConcreteValue

#: Arrays with more elements are shown by their types.
_SHOWN: Final = 8


def shown_value(concrete: ConcreteValue | None, aval: ShapedArray) -> str:
    """The elements of a value, if they are known and few; else its type."""
    if concrete is None or aval.size > _SHOWN:
        return str(aval)
    return np.array2string(np.asarray(concrete), separator=", ", max_line_width=1000, precision=6).replace("\n", "")
