"""What the text of a module refers to: where operations are from, and calls of the host, which keep their order."""

from __future__ import annotations

from typing import Final, TypeAlias, final

import numpy as np
from attrs import frozen

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.source import SourceInfo

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
