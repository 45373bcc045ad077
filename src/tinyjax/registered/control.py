"""Enters the primitives whose parameters are programs, and the classes of their parameters, in the standard registry.

And those of `primitives`, on which they rest: who imports this has the whole registry.
"""

from tinyjax.control import call, callbacks, checkpoint, cond, custom_derivatives, loops, recursion, scan
from tinyjax.registered.first_order import STANDARD

__all__ = ["STANDARD"]

STANDARD.add(call.Call, cond.Cond, scan.Scan, loops.While)
STANDARD.add(checkpoint.Checkpoint)
STANDARD.add(checkpoint.NothingSaveable, checkpoint.EverythingSaveable, checkpoint.DotsSaveable)
STANDARD.add(checkpoint.SaveNames, checkpoint.SaveNamesExcept, checkpoint.SaveAnythingExceptNames)
STANDARD.add(checkpoint.SaveFromBoth)
STANDARD.add(custom_derivatives.CustomJvp, custom_derivatives.CustomVjp, custom_derivatives.CustomLin)
STANDARD.add(
    custom_derivatives.MappedCustom,
    recursion.Backward,
    recursion.JvpCase,
    recursion.VjpCase,
    recursion.Enclosing,
    recursion.Refusal,
)
STANDARD.add(callbacks.PureCallback, callbacks.IOCallback, callbacks.DebugCallback)
