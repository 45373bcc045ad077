"""Frames of contexts that are put in force from outside of the library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from typing_extensions import override

from tinyjax.ir.context import Context
from tinyjax.ir.primitive import Primitive
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import active
from tinyjax.tracing.core import TraceFrame, Tracer
from tinyjax.tracing.frames import Frame, Transformed, V


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


class ApartFrame(LiveFrame[V]):
    """One whose context's own methods run outside of it: what they compute with constants is none of its business."""

    __slots__ = ()

    @override
    def bind(self, primitive: Primitive, args: Sequence[Array]) -> tuple[Array, ...]:
        with _in_force(self.parent):
            return super().bind(primitive, args)

    @override
    def read(self, x: Array) -> V:
        with _in_force(self.parent):
            return super().read(x)


@contextmanager
def _in_force(frame: Frame) -> Iterator[None]:
    token = active.set(frame)
    try:
        yield
    finally:
        active.reset(token)
