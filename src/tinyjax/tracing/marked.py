"""What functions that are marked as `prepared` do: each is traced, and becomes one program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, final

from attrs import frozen

from tinyjax.contexts.staging import StagingContext
from tinyjax.errors import TinyjaxError
from tinyjax.ir.value import ConcreteValue
from tinyjax.prepared.functions import REPLAYING, STAGING, FunctionProgram, parts_of, within
from tinyjax.prepared.replayed import replayed
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import innermost
from tinyjax.tracing.core import TraceFrame, Tracer, activate


@final
@frozen
class _Marked:
    """The function, for messages that nobody sees: if it can't be traced, it is called, and says so itself."""

    label: str

    def name_input(self, position: int) -> str:
        return f"argument {position}"


def program_of(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object], inputs: type[Array] = Array
) -> FunctionProgram | None:
    """The function for arguments like these as one program, whose inputs are those of one class; None if it can't be
    one."""
    context = StagingContext()
    try:
        with activate(context, _Marked(function.__name__)) as frame, frame:

            def traced(arg: object) -> object:
                return frame.wrap(context.argument(arg.aval)) if isinstance(arg, inputs) else arg

            # The arguments first: inputs are numbered in the order in which they are asked for.
            positional = [within(arg, traced) for arg in args]
            result = function(*positional, **{key: within(arg, traced) for key, arg in kwargs.items()})
            results, assemble = parts_of(result)
            staged = context.finish([frame.read(out) for out in results if isinstance(out, Array)])
    except TinyjaxError:
        return None
    captured = tuple([value for value in staged.captured if isinstance(value, ConcreteValue)])
    if len(captured) < len(staged.captured) or len(staged.jaxpr.outvars) < len(results):
        return None
    return FunctionProgram(staged.jaxpr, captured, assemble)


def _replayed(function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]) -> Any:
    """What the function returns within the innermost transformation; None if it has to be called."""
    frame = innermost()
    if not isinstance(frame, TraceFrame) or not frame.alive:
        return None
    return replayed(frame, Tracer, partial(program_of, inputs=Tracer), function, args, kwargs)


STAGING.hand(program_of)
REPLAYING.hand(_replayed)
