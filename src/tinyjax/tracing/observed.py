"""Putting whatever is applied under observation."""

from __future__ import annotations

from typing import TypeVar

from tinyjax import backend
from tinyjax.contexts.watching import Watcher
from tinyjax.prepared.primitives import PreparedEvaluation
from tinyjax.tracing.concrete import ROOT, RootFrame, active, active_frame
from tinyjax.tracing.frames import Entered, Frame, OpenFrame, WatchFrame

V = TypeVar("V")


def watching(watcher: Watcher) -> Entered:
    """Notes what is applied, and in the transformations that are started: `with watching(watcher) as frame, frame:`."""
    outer = active_frame()

    def observed(frame: OpenFrame[V]) -> Entered:
        return WatchFrame(active, outer, frame, watcher)

    return (_watched_root(watcher) if outer is ROOT else outer).open(observed)


def _watched_root(watcher: Watcher) -> Frame:
    """Evaluation, of which the watcher is also told what is lowered."""
    frame = RootFrame(PreparedEvaluation(backend.execute.watched(watcher)))
    frame.parent = frame.base = ROOT
    return frame
