"""What is wrong with a traced value, in words."""

from __future__ import annotations

from tinyjax.contexts.staging import StagingContext
from tinyjax.errors import LeakedTracerError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Origin
from tinyjax.ir.source import user_source
from tinyjax.tracing.frames import Transformed


def why_unknown(origin: Origin, function: Transformed, wanted: str) -> str:
    """What a value is whose elements aren't known, why they aren't, and what to do. `function` is the one whose
    transformation lacks them, `wanted` what can't be done."""
    if not isinstance(origin.context, StagingContext):
        return (
            f", used at {user_source()}, can't {wanted}: it differs from element to element of the batch of "
            f"{function.label}. Use tinyjax.lax.cond or tinyjax.numpy.where, or leave this part of the function "
            "outside."
        )
    what = origin.what if origin.input is None else function.name_input(origin.input)
    made = what if origin.source is None else f"{what} at {origin.source.location}"
    return (
        f", {made}, traced by {function.label}, can't {wanted}: it has no elements yet. Use "
        "tinyjax.lax.cond or tinyjax.numpy.where, compute it from shapes or from arguments marked static "
        "(static_argnums), or leave this part of the function outside."
    )


def leaked(aval: ShapedArray, function: Transformed) -> LeakedTracerError:
    """The error for a value that outlives the transformation of this function."""
    return LeakedTracerError(
        f"A value of type {aval} was used after {function.label} had ended: it escaped, through a global, an attribute "
        "or a container. Return it from the function instead."
    )
