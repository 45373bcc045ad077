"""Frames that rules written in Python run in: at a context that isn't the innermost one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, final

from typing_extensions import override

from tinyjax.contexts.around import Around
from tinyjax.contexts.jvp import JvpContext
from tinyjax.contexts.watching import unwatched
from tinyjax.errors import LeakedTracerError
from tinyjax.ir.context import Context
from tinyjax.ir.roles import Foreign
from tinyjax.tracing.concrete import active_frame
from tinyjax.tracing.core import TraceFrame, Tracer, activate
from tinyjax.tracing.frames import Transformed, outwards

V = TypeVar("V")


@contextmanager
def frame_at(context: Context[V], function: Transformed) -> Iterator[TraceFrame[V]]:
    """A frame for values of `context`, which one of the frames in progress is built on, or is.

    A value of a frame further in can't enter it, because the context doesn't know what that frame's values are: a
    LeakedTracerError.
    """
    with activate(_AtContext(context, _limit(context)), function) as frame, frame:
        yield frame


def closed_context(context: Context[V]) -> Context[V]:
    """The context, closed to values of all frames in progress: for rules that are handed all that they need."""
    return _AtContext(context, 0)


def _limit(context: Context[V]) -> int:
    """The level of the outermost frame that is further in than the context."""
    for frame in outwards(active_frame()):
        if not isinstance(frame, TraceFrame):
            continue
        found = unwatched(frame.context)
        if isinstance(found, JvpContext) and found.parent is context:
            return frame.level
        if frame.context is context:
            return frame.level + 1
    return 1


@final
class _AtContext(Around[V]):
    """The context within, but closed to values of frames from `limit` on."""

    __slots__ = ("_limit",)

    def __init__(self, inner: Context[V], limit: int) -> None:
        super().__init__(inner)
        self.cursor = inner.cursor.in_progress()
        self._limit = limit

    @override
    def lift(self, value: Foreign) -> V:
        if isinstance(value, Tracer) and value.frame.level >= self._limit:
            raise LeakedTracerError(f"a value of type {value.aval} belongs to a transformation further in")
        return value.into(self.inner)
