"""Putting whatever is applied under observation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from tinyjax import backend
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.watching import Watcher
from tinyjax.tracing.core import ROOT, RootFrame, _active
from tinyjax.tracing.frames import Frame, OpenFrame, WatchFrame

V = TypeVar("V")


@contextmanager
def watching() -> Iterator[Watcher]:
    """Notes what is applied within the block, and in the transformations that are started there."""
    watcher = Watcher()

    def observed(frame: OpenFrame[V]) -> Frame:
        return WatchFrame(frame, watcher)

    frame = _active.get()
    if frame is ROOT:
        frame = RootFrame(EvalContext(backend.execute.watched(watcher)))
    token = _active.set(frame.open(observed))
    try:
        yield watcher
    finally:
        _active.reset(token)
