"""Scalars as programs spell them out, and back."""

from __future__ import annotations

import numpy as np

from tinyjax.caching import bounded
from tinyjax.ir.dtypes import SUPPORTED
from tinyjax.ir.program import Literal
from tinyjax.ir.value import ConcreteValue


def as_literal(value: ConcreteValue) -> Literal | None:
    """A scalar on the host as programs spell it out; None for anything else."""
    data, aval = value.data, value.aval
    if aval.shape != () or not isinstance(data, np.ndarray) or aval.dtype not in SUPPORTED:
        return None
    return Literal(data.item(), aval)


@bounded(4096)
def literal_value(literal: Literal) -> ConcreteValue:
    elements = np.asarray(literal.value, literal.aval.dtype)
    elements.flags.writeable = False
    return ConcreteValue(elements, literal.aval)
