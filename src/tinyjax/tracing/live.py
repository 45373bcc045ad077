"""Frames of contexts that are put in force from outside of the library."""

from __future__ import annotations

from typing import final

from typing_extensions import override

from tinyjax.ir.context import Context
from tinyjax.tracing.core import Array, TraceFrame, Tracer
from tinyjax.tracing.frames import Frame, Transformed, V


@final
class LiveFrame(TraceFrame[V]):
    """All values of the context are traced, also concrete ones, so that every operation on them reaches it; with
    `constants`, operations on constants too."""

    __slots__ = ()

    def __init__(self, context: Context[V], parent: Frame, function: Transformed, *, constants: bool) -> None:
        super().__init__(context, parent, function)
        if constants:
            self.base: Frame = self

    @override
    def wrap(self, value: V) -> Array:
        return Tracer(self, value)
