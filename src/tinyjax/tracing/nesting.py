"""Functions that are traced inside each other: deep is well, without end is an error.

Each trace has room on the stack (`stack.with_room`), so Python's own limit never stops a function that calls itself
by `jit`. What tells that there is no end: the function is being traced already, many times over, and for the same
types. A program that goes down by static arguments or other Python values is another function at each level.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Final

import attrs

from tinyjax.contexts.staging import StagingContext
from tinyjax.contexts.watching import unwatched
from tinyjax.errors import RecursiveTracingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.tracing.concrete import active_frame
from tinyjax.tracing.core import TraceFrame, Tracer
from tinyjax.tracing.frames import Frame, base_in_force, outwards
from tinyjax.tracing.functions import Filled, FlatFunction

#: How many levels there are from one look at what is being traced to the next: looking at each level would take a time
#: that grows with the square of the depth.
_STEP: Final = 64
#: How often a function is being traced for the same types when it has no end.
_REPEATS: Final = 100
#: How many levels there may be of whatever it is, as a multiple of Python's own limit for functions.
_LIMIT: Final = 3
#: How deep two functions are compared that are made anew at each level.
_DEPTH: Final = 5


def check_nesting(f: FlatFunction, avals: Sequence[ShapedArray]) -> None:
    """A RecursiveTracingError if a function that is about to be traced calls itself without end."""
    frame = active_frame()
    if (frame.level + 1) // _STEP == base_in_force(frame).level // _STEP:
        return
    known = tuple(avals)
    outer = [g for g, types in _traced(frame) if types == known and same_function(g.function, f.function, _DEPTH)]
    if len(outer) >= _REPEATS:
        types = ", ".join(map(str, known))
        raise RecursiveTracingError(
            f"{f.label} is being traced inside itself {len(outer)} times over, for the same types, ({types}): it "
            "calls itself without end. A traced function has no values to decide by, so a condition on them ends "
            "nothing. Write a loop (tinyjax.lax.while_loop, fori_loop, scan), or decide by what Python knows, "
            "such as static arguments and shapes."
        )
    limit = _LIMIT * sys.getrecursionlimit()
    if frame.level >= limit:
        raise RecursiveTracingError(
            f"{limit} functions are being traced inside each other, and the innermost is {f.label}: they probably call "
            f"each other without end. If there is an end, allow for it: sys.setrecursionlimit({2 * limit // _LIMIT})."
        )


def _traced(frame: Frame) -> list[tuple[FlatFunction, tuple[ShapedArray, ...]]]:
    """The functions that are being traced, and the types of their arguments, innermost first."""
    found: list[tuple[FlatFunction, tuple[ShapedArray, ...]]] = []
    for traced in outwards(frame):
        if isinstance(traced, TraceFrame) and isinstance(traced.function, FlatFunction):
            context = unwatched(traced.context)
            if isinstance(context, StagingContext):
                found.append((traced.function, context.argument_types))
    return found


def same_function(f: object, g: object, depth: int) -> bool:
    """Whether two functions, or what they close over, do the same for all that can be told: the same code over the same
    values. Traced values count by their types."""
    if f is g:
        return True
    if type(f) is not type(g):
        return False
    if isinstance(f, Tracer) and isinstance(g, Tracer):
        return f.aval == g.aval
    if isinstance(f, int | float | complex | str | bytes):
        return f == g
    return bool(depth) and _parts_alike(f, g, depth - 1)


def _parts_alike(f: object, g: object, depth: int) -> bool:
    first, second = _parts(f), _parts(g)
    if first is None or second is None or len(first) != len(second):
        return False
    return all(same_function(x, y, depth) for x, y in zip(first, second, strict=True))


def _parts(f: object) -> Sequence[object] | None:
    """What makes up a function, or a value that it closes over; None if it isn't known to be made of anything."""
    if isinstance(f, FunctionType):
        kept = (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values())
        return (f.__code__, *kept, *map(_content, f.__closure__ or ()))
    if isinstance(f, MethodType):
        return (f.__func__, f.__self__)
    if isinstance(f, partial):
        return (f.func, *f.args, *f.keywords, *f.keywords.values())
    if isinstance(f, Filled):
        return (f.__wrapped__, *f.filled_in)
    if isinstance(f, tuple | list):
        return f
    if isinstance(f, Mapping):
        return (*f.keys(), *f.values())
    cls = type(f)
    if attrs.has(cls):
        return [getattr(f, field.name) for field in attrs.fields(cls)]
    wrapped: Callable[..., object] | None = getattr(f, "__wrapped__", None)
    return None if wrapped is None else (wrapped,)


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
