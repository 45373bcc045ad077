"""The programs that functions have been traced to: every `jit` of a function shares them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Final

from tinyjax.caching import BoundedCache
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import axis_names
from tinyjax.lax.bodies import stage
from tinyjax.lax.carried_cells import without_idle
from tinyjax.lax.explicit import Given
from tinyjax.tracing.concrete import active_frame
from tinyjax.tracing.programs import Traced

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

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


def staged(
    function: Callable[..., object], treedef: PyTreeDef, avals: Sequence[ShapedArray], lies: Given | None
) -> Traced:
    """A function staged out for leaves of these types, which may lie on a mesh with Explicit axes."""
    if lies is None:
        return without_idle(stage("jit", function, treedef, avals, writes=True))
    return without_idle(lies.stage(lambda: stage("jit", function, treedef, avals, writes=True)))


def reusable(traced: Traced) -> bool:
    """Whether a program depends on no other transformation in progress, so that it serves other calls too."""
    effects = traced.jaxpr.effects
    if effects:
        from tinyjax.control.recursion import is_open  # few programs have any

        if axis_names(effects) or is_open(effects):
            return False
    return traced.closed and not active_frame().axes
