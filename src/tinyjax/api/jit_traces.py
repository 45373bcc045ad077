"""The programs that functions have been traced to: every `jit` of a function shares them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Final

from tinyjax.caching import BoundedCache
from tinyjax.ir.effects import axis_names
from tinyjax.tracing.concrete import active_frame
from tinyjax.tracing.programs import Traced

TRACES_PER_FUNCTION: Final = 1024
#: By function; they go with it.
_TRACES: Final[weakref.WeakKeyDictionary[Callable[..., object], BoundedCache[Hashable, Traced]]] = (
    weakref.WeakKeyDictionary()
)


def traces_of(fun: Callable[..., object], own: BoundedCache[Hashable, Traced]) -> BoundedCache[Hashable, Traced]:
    """The programs of a function: in the cache of whoever asks first, or in the caller's `own`."""
    try:
        return _TRACES.setdefault(fun, own)
    except TypeError:  # can't be hashed, or referred to weakly
        return own


def reusable(traced: Traced) -> bool:
    """Whether a program depends on no other transformation in progress, so that it serves other calls too."""
    effects = traced.jaxpr.effects
    if effects:
        from tinyjax.control.recursion import is_open  # few programs have any

        if axis_names(effects) or is_open(effects):
            return False
    return traced.closed and not active_frame().axes
