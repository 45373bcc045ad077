"""Scalars as programs spell them out, and back."""

from __future__ import annotations

from typing import Final

import numpy as np

from tinyjax.caching import IdentityCache, bounded, register
from tinyjax.ir.dtypes import SUPPORTED
from tinyjax.ir.program import Literal
from tinyjax.ir.value import ConcreteValue

#: The literals of scalars that are shared, as those of Python's numbers are: shared too.
_LITERALS: Final[IdentityCache[Literal]] = IdentityCache(4096, "contexts.literals")
register(_LITERALS)


def as_literal(value: ConcreteValue) -> Literal | None:
    """A scalar on the host as programs spell it out; None for anything else."""
    data, aval = value.data, value.aval
    if aval.shape != () or not isinstance(data, np.ndarray) or aval.dtype not in SUPPORTED:
        return None
    found = _LITERALS.entries.get((id(value),))
    return _LITERALS.keep((value,), Literal(data.item(), aval)) if found is None else found[1]


@bounded(4096)
def literal_value(literal: Literal) -> ConcreteValue:
    elements = np.asarray(literal.value, literal.aval.dtype)
    elements.flags.writeable = False
    return ConcreteValue(elements, literal.aval)
