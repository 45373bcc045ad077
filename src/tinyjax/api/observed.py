"""Putting whatever is applied under observation."""

from __future__ import annotations

from typing import TypeVar, final

from typing_extensions import override

from tinyjax import backend
from tinyjax.contexts.watching import Watcher, WatchingContext
from tinyjax.control.manual import NamedAxis
from tinyjax.meshes import Mesh
from tinyjax.prepared.primitives import PreparedEvaluation
from tinyjax.primitives.defaults import Defaults
from tinyjax.tracing.array import Array
from tinyjax.tracing.captured import Intake
from tinyjax.tracing.concrete import ROOT, RootFrame, active_frame, enterable, is_outside
from tinyjax.tracing.frames import Entered, Frame, OpenFrame

V = TypeVar("V")


@final
class WatchFrame(Entered, OpenFrame[V]):
    """A frame under observation: what is applied is noted, and otherwise it is the frame within, with its arrays."""

    __slots__ = ("_inner", "context")

    def __init__(self, outer: Frame, inner: OpenFrame[V], watcher: Watcher) -> None:
        enterable(self)
        self._inner = inner
        self.context: WatchingContext[V] = WatchingContext(inner.context, watcher)
        self.alive: bool = True
        self.parent: Frame = outer
        self.mesh: Mesh | None = outer.mesh
        self.defaults: Defaults | None = outer.defaults
        self.level: int = inner.level
        self.base: Frame = self
        self.axes: tuple[tuple[NamedAxis, Frame], ...] = inner.axes
        self.watcher: Watcher | None = watcher
        self.intake: Intake | None = inner.intake

    @override
    def wrap(self, value: V) -> Array:
        return self._inner.wrap(value)


def watching(watcher: Watcher) -> Entered:
    """Notes what is applied, and in the transformations that are started: `with watching(watcher) as frame, frame:`."""
    outer = active_frame()

    def observed(frame: OpenFrame[V]) -> Entered:
        return WatchFrame(outer, frame, watcher)

    return (_watched_root(watcher) if is_outside(outer) else outer).open(observed)


def _watched_root(watcher: Watcher) -> Frame:
    """Evaluation, of which the watcher is also told what is lowered."""
    frame = RootFrame(PreparedEvaluation(backend.execute.watched(watcher)))
    frame.parent = frame.base = ROOT
    return frame
