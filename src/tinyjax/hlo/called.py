"""What the text of a module refers to: where operations are from, and calls of the host, which keep their order."""

from __future__ import annotations

from typing import Final, TypeAlias, final

import numpy as np
from attrs import frozen

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOATS, INTEGERS, HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.value import ConcreteValue

#: The values of the inputs of a function that it has in its text; None for those that are arguments. Empty: all are.
Constants: TypeAlias = tuple[ConcreteValue | None, ...]
#: What writes a line: the primitive that an equation applies, and where the equation is from.
Place: TypeAlias = tuple[Primitive, SourceInfo | None]
#: How the name of a place begins in the text; its number follows.
PLACE: Final = "eqn:"

#: The type of what runs from effect to effect, so that they keep their order.
ORDER: Final = array_type((), np.dtype(np.uint8))


@final
@frozen
class HostCall:
    """A call of the host: of `primitive.evaluate`. An ordered one takes and returns a leading scalar of type ORDER."""

    primitive: Primitive
    operands: tuple[ShapedArray, ...]
    results: tuple[ShapedArray, ...]
    ordered: bool


#: Up to so many elements a constant is written in each function that is given it.
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
