"""The elements of a traced value, or what is wrong with it, in words."""

from __future__ import annotations

from typing import Protocol, TypeVar

from tinyjax.arrays.advice import Wanted, use_of
from tinyjax.contexts.staging import StagingContext
from tinyjax.errors import ConcretizationError, LeakedTracerError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.source import user_source
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracing.frames import Transformed

V = TypeVar("V")


class InProgress(Protocol[V]):
    """A transformation in progress."""

    @property
    def context(self) -> Context[V]: ...
    @property
    def function(self) -> Transformed: ...
    def function_of(self, context: object) -> Transformed | None: ...


def elements(frame: InProgress[V], value: V, aval: ShapedArray, wanted: Wanted) -> ConcreteValue:
    """The elements of a value, if they are known, or can be computed after all. `wanted` is what they are for."""
    context = frame.context
    found = context.concrete(value)
    if found is None and not wanted.elsewhere:
        found = context.origin(value).known()
    if found is None or (wanted.elsewhere and context.carries_tangent(value)):
        raise why_unknown(frame, value, aval, wanted)
    return found


def why_unknown(frame: InProgress[V], value: V, aval: ShapedArray, wanted: Wanted) -> ConcretizationError:
    """The error for a value whose elements aren't known, or would be computed with without their derivative: what
    it is, why that is so, and what to do. `wanted` is what can't be done."""
    origin = frame.context.origin(value)
    function = frame.function_of(origin.context) or frame.function
    if frame.context.concrete(value) is not None:
        advice = wanted.advise(use_of(aval, ""))
        return wanted.error(
            f"A value of type {aval}, used at {user_source()}, can't {wanted.what}: {function.label} differentiates "
            f"with respect to it, and the derivative would be lost. {advice}{' ' if advice else ''}If it is to be, "
            "take `tinyjax.lax.stop_gradient` of the value first."
        )
    if not isinstance(origin.context, StagingContext):
        advice = wanted.advise(use_of(aval, ""))
        return wanted.error(
            f"A value of type {aval}, used at {user_source()}, can't {wanted.what}: it differs from element to element "
            f"of the batch of {function.label}. {advice}{' ' if advice else ''}Otherwise don't map it (in_axes=None), "
            "or leave this part of the function outside."
        )
    what = origin.what if origin.input is None else function.name_input(origin.input)
    made = what if origin.source is None else f"{what} at {origin.source.location}"
    advice = wanted.advise(use_of(aval, _static(what, function.label)))
    return wanted.error(
        f"A value of type {aval}, {made}, traced by {function.label}, can't {wanted.what}: it has no elements yet. "
        f"{advice}{' ' if advice else ''}Otherwise compute it from shapes or from arguments marked static "
        "(static_argnums), or leave this part of the function outside."
    )


def _static(what: str, label: str) -> str:
    """How to mark an argument of a compiled function as static; nothing for what isn't one."""
    name = what.removeprefix("argument ")
    transformation, _, rest = label.partition(" of ")
    function = rest.partition(" (")[0]
    if transformation != "jit" or name == what or not (name.isidentifier() and function.isidentifier()):
        return ""
    return f"Mark {name} as static: `tinyjax.jit({function}, static_argnames='{name}')`."


def leaked(aval: ShapedArray, function: Transformed) -> LeakedTracerError:
    """The error for a value that outlives the transformation of this function."""
    return LeakedTracerError(
        f"A value of type {aval} was used after {function.label} had ended: it escaped, through a global, an attribute "
        "or a container. Return it from the function instead."
    )


def not_pickled(aval: ShapedArray) -> TypeError:
    """The error for a traced value that is to be pickled."""
    return TypeError(f"a traced value ({aval}) can't be pickled: it has no elements yet")
