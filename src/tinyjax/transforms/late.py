"""Equations that only arrange one operand, moved to where their results are read first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tinyjax.ir.program import Eqn, Var
from tinyjax.primitives.shaping import Iota, Reshape, Squeeze
from tinyjax.primitives.slicing import Concatenate
from tinyjax.primitives.structure import BroadcastInDim, Transpose
from tinyjax.transforms.rows import Lazy

#: What has no fewer elements than its operand, so that there is no more to keep where it is applied later.
_ARRANGING: Final = (BroadcastInDim, Iota, Reshape, Squeeze, Transpose)


def late(eqns: Sequence[Eqn], lazy: Lazy) -> list[Eqn]:
    """These equations in another order, in which each that only arranges its operand comes right before the first that
    reads it. Those which nobody reads stay at their places.

    A backward pass opens with such equations, about what the forward pass has kept of all layers. Among the others of
    their layer, they are part of its block: XLA makes them part of what reads them, and nothing is stacked.
    """
    first: dict[int, int] = {}  # the first place where a variable is read
    keys: list[int] = []
    for at in range(len(eqns) - 1, -1, -1):
        eqn = eqns[at]
        place = at
        if isinstance(eqn.primitive, _ARRANGING):
            place = max(at, min([first.get(out.index, at) for out in eqn.outvars], default=at))
        keys.append(place)
        # What is joined has come from where it is made: there, it is part of a block.
        read = -1 if isinstance(eqn.primitive, Concatenate) else place
        for atom in eqn.invars:
            if isinstance(atom, Var):
                root = lazy.root(atom).index
                first[root] = min(first.get(root, read), read)
    keys.reverse()
    # Of those with one place, whoever is read comes before who reads; and what has its place there was last already.
    return [eqns[at] for at in sorted(range(len(eqns)), key=keys.__getitem__)]
