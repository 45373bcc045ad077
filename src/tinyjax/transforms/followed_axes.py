"""Where the axes of an operand are in what follows from it."""

from __future__ import annotations

from typing import Final, TypeAlias

from tinyjax.ir.program import Eqn
from tinyjax.primitives.contractions import DotGeneral
from tinyjax.primitives.conversion import StopGradient
from tinyjax.primitives.shaping import Reshape, Squeeze
from tinyjax.primitives.structure import BroadcastInDim, Transpose

#: Of each axis, which one of the operand's it is; None if it repeats, or is another one.
Followed: TypeAlias = tuple[int | None, ...]
#: What only gives another shape, or keeps derivatives away.
SHAPING: Final = frozenset({BroadcastInDim, Reshape, Squeeze, StopGradient, Transpose})


def shaped(axes: Followed, eqn: Eqn) -> Followed | None:
    """The axes after one of `SHAPING`; None: some aren't what they were."""
    before, after = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    if isinstance(eqn.primitive, Transpose):
        return tuple([axes[at] for at in eqn.primitive.permutation])
    if isinstance(eqn.primitive, BroadcastInDim):
        places = eqn.primitive.broadcast_dimensions
    elif before == after:
        return axes
    else:
        places = tuple([at for at, size in enumerate(after) if size != 1])
        if [size for size in before if size != 1] != [after[at] for at in places]:
            return None
        axes = tuple([axis for axis, size in zip(axes, before, strict=True) if size != 1])
        before = tuple([size for size in before if size != 1])
    found: list[int | None] = [None] * len(after)
    for axis, place, size in zip(axes, places, before, strict=True):
        found[place] = axis if after[place] == size else None
    return tuple(found)


def multiplied(axes: Followed, which: int, eqn: Eqn) -> Followed:
    """The axes of the left operand (0) or the right one (1) of a `dot_general` in its result."""
    assert isinstance(eqn.primitive, DotGeneral)
    summed, batch = (pair[which] for pair in eqn.primitive.dimension_numbers)
    free = [axis for at, axis in enumerate(axes) if at not in summed and at not in batch]
    others: list[None] = [None] * (len(eqn.outvars[0].aval.shape) - len(batch) - len(free))
    first = [axes[at] for at in batch]
    return (*first, *others, *free) if which else (*first, *free, *others)
