"""What becomes of the arguments of a jitted function, and of the equation that a call is within transformations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tinyjax.backend.trees import flattener
from tinyjax.ir.primitive import Primitive
from tinyjax.prepared.jitted import Intake
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ROOT, ConcreteArray, as_array, top_frame
from tinyjax.tracing.core import Tracer
from tinyjax.tracing.intake import host_type


def _bind(primitive: Primitive, arrays: Sequence[Array]) -> Sequence[Array] | None:
    frame = top_frame(arrays)
    return None if frame is ROOT else frame.bind(primitive, arrays)


INTAKE: Final = Intake(ConcreteArray, (ConcreteArray, Tracer), flattener, as_array, host_type, _bind)
