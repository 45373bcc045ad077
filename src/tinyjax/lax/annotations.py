"""`optimization_barrier`: arrays as they are, kept in place in the compiled program."""

from __future__ import annotations

from typing import TypeVar

from tinyjax.primitives import annotations as identities
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

_T = TypeVar("_T")


def optimization_barrier(operand: _T) -> _T:
    """A tree of arrays as it is. The compiler computes all of them before what uses one, and merges nothing across.

    >>> optimization_barrier((1.0, 2.0))
    (Array(1., dtype=float64, weak_type=True), Array(2., dtype=float64, weak_type=True))
    """
    leaves, treedef = tree.flatten(operand)
    result: _T = tree.unflatten(treedef, bind(identities.optimization_barrier, *map(as_array, leaves)))
    return result
