"""Values of the context that an interpreter runs on, of a type that nothing is known of: how its rules are typed.

A rule that works for `Hidden` values works for those of every context, as all it can do with one is to hand it to the
context. That is what the type variable of a generic rule says too; but a table holds rules of one type, and an
interpreter that starts itself again on another context keeps its own type. The casts that this rests on are all here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast, final

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.effects import NO_EFFECTS, Effects
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import active_frame, top_frame
from tinyjax.tracing.frames import OpenFrame

R = TypeVar("R")
V = TypeVar("V")


@final
class Hidden:
    """A value of some context. There are no instances: each is a value of a type that is hidden."""

    __slots__ = ()

    def __new__(cls) -> Hidden:
        raise TypeError("Hidden stands for the type of the values of a context; it has no instances of its own")


def staged(avals: Sequence[ShapedArray], run: Callable[[Context[Hidden], list[Hidden]], Sequence[Hidden]]) -> Jaxpr:
    """The program that `run` records when it is called with a staging context and inputs of these types."""

    def record(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        # Atoms and their context are hidden together, and only that context makes more of them.
        outs = run(cast("Context[Hidden]", ctx), cast("list[Hidden]", ins))
        return cast("Sequence[Atom]", outs)

    return stage(avals, record)


def innermost_frame() -> OpenFrame[Hidden]:
    """The frame of the innermost transformation in progress; that of evaluation outside of all."""
    return active_frame().open(_hidden)


def _hidden(frame: OpenFrame[V]) -> OpenFrame[Hidden]:
    return cast("OpenFrame[Hidden]", frame)  # V is as unknown here as Hidden is


def open_frame(arrays: Sequence[Array], run: Callable[[OpenFrame[Hidden]], R], effects: Effects = NO_EFFECTS) -> R:
    """Calls `run` with the frame that an operation on these arrays belongs to."""

    def opened(frame: OpenFrame[V]) -> R:
        return run(_hidden(frame))

    return top_frame(arrays, effects).open(opened)
