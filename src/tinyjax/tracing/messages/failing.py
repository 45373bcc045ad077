"""Errors of Python and NumPy in a function that is being transformed, as errors that say what to do.

They are looked at when they leave the function, where the library would have had no say before.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType

from tinyjax.arrays.advice import Wanted, of_size
from tinyjax.errors import (
    ConcretizationError,
    RecursiveTracingError,
    TinyjaxError,
    TracerIntegerConversionError,
)
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import active_frame
from tinyjax.tracing.core import TraceFrame, Tracer
from tinyjax.tracing.frames import outwards
from tinyjax.tracing.functions import FlatFunction
from tinyjax.tracing.messages.unknown import why_unknown
from tinyjax.tracing.nesting import same_function

#: So often a function is inside itself when Python's stack is at its end because of that.
_REPEATS = 8
#: How deep two functions are compared that are made anew at each level.
_DEPTH = 4
#: What NumPy says instead of what it was told, for a shape that isn't known. The value's first 100 characters follow.
_NO_SHAPE = "expected a sequence of integers or a single integer, got '"


def explained(error: RecursionError | TypeError, f: FlatFunction) -> TinyjaxError | None:
    """What to raise instead of an error that left this function; None: the error is right as it is."""
    if isinstance(error, TinyjaxError):
        return None
    if isinstance(error, RecursionError):
        return _endless(f)
    text = str(error)
    return _no_shape(error, text.removeprefix(_NO_SHAPE).removesuffix("'"), f) if text.startswith(_NO_SHAPE) else None


def _endless(f: FlatFunction) -> RecursiveTracingError | None:
    """The error for a function that calls itself without end by transformations that stage nothing, such as `grad`."""
    count = 0
    for frame in outwards(active_frame()):
        g = frame.function if isinstance(frame, TraceFrame) else None
        count += isinstance(g, FlatFunction) and (g is f or same_function(g.function, f.function, _DEPTH))
    if count < _REPEATS:
        return None
    return RecursiveTracingError(
        f"{f.label} is being transformed inside itself {count} times over, and Python's stack is at its end: it "
        "probably calls itself without end. Let it end by what Python knows, such as a number of levels. If there is "
        "an end, allow for it: `sys.setrecursionlimit(100_000)`."
    )


def _no_shape(error: BaseException, shown: str, f: FlatFunction) -> ConcretizationError | None:
    """The error for a shape that isn't known, of which NumPy says how the value begins."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not shown.startswith("Tracer("):
        return None
    for tracer in _tracers(trace.tb_frame):
        if repr(tracer)[:100] == shown and tracer.frame.alive:
            return why_unknown(tracer.frame, tracer.value, tracer.aval, _SIZE)
    return TracerIntegerConversionError(  # of a value that no variable holds
        f"A shape must be known, but NumPy got {shown}, in {f.label}. Compute it from shapes or from arguments marked "
        "static (static_argnums), or leave this part of the function outside."
    )


_SIZE = Wanted("be used as an index or size", TracerIntegerConversionError, of_size)


def _tracers(frame: FrameType) -> Iterator[Tracer[object]]:
    """The traced values among the local variables of a function, and in trees there."""
    for value in frame.f_locals.values():
        try:
            leaves, _ = tree.flatten(value)
        except (TypeError, ValueError):  # of a node that can't be taken apart
            continue
        yield from (leaf for leaf in leaves if isinstance(leaf, Tracer))
