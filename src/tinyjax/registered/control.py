"""Enters the primitives whose parameters are programs, and the classes of their parameters, in the standard registry.

And those of `primitives`, on which they rest: who imports this has the whole registry.
"""

from typing import Final

from tinyjax.control import (
    call,
    callbacks,
    checkpoint,
    composite_call,
    cond,
    custom_batching,
    custom_derivatives,
    custom_linear,
    exported,
    foreign,
    forward_pass,
    implicit,
    linear_call,
    loops,
    recursion,
    reducing,
    scan,
    shard_map,
)
from tinyjax.ir.program import Literal
from tinyjax.primitives import checks
from tinyjax.registered.first_order import STANDARD, primitives_of

__all__ = ["MODULES", "STANDARD"]

#: Where primitives that hold programs are; `recursion` has none that users apply.
MODULES: Final = (
    call,
    callbacks,
    checkpoint,
    checks,
    composite_call,
    cond,
    custom_batching,
    custom_derivatives,
    custom_linear,
    exported,
    foreign,
    forward_pass,
    implicit,
    linear_call,
    loops,
    reducing,
    scan,
    shard_map,
)

STANDARD.add(*primitives_of(*MODULES, recursion))
STANDARD.add(checkpoint.NothingSaveable, checkpoint.EverythingSaveable, checkpoint.DotsSaveable)
STANDARD.add(checkpoint.SaveNames, checkpoint.SaveNamesExcept, checkpoint.SaveAnythingExceptNames)
STANDARD.add(checkpoint.SaveFromBoth)
STANDARD.add(composite_call.Dictionary, exported.ForeignModule, Literal)
STANDARD.add(recursion.Backward, recursion.JvpCase, recursion.VjpCase, recursion.Refusal)
