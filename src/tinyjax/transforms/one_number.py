"""Parts of arrays all of whose elements are one number, as that number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.primitives.shaping import Reshape, Squeeze
from tinyjax.primitives.slicing import Slice
from tinyjax.primitives.structure import BroadcastInDim, broadcast_scalar
from tinyjax.transforms.rebuild import Rebuilding, rewritten

#: What may take a part of an array, or repeat it.
_ARRANGING: Final = frozenset({BroadcastInDim, Reshape, Slice, Squeeze})


def parts_of_one_number(jaxpr: Jaxpr) -> Jaxpr:
    """The program in which a part of an array that repeats a scalar is that scalar, repeated as often as there.

        { lambda ; a:f64[]. let b:f64[3] = broadcast_in_dim[shape=(3,) broadcast_dimensions=()] a;
            c:f64[1] = slice[start_indices=(1,) limit_indices=(2,)] b; d:f64[] = squeeze[dimensions=(0,)] c in (d,) }
        { lambda ; a:f64[]. let  in (a,) }

    The gradient of a sum of a stack of scalars is such an array, of which each scalar's is a part.
    """
    scalars: dict[int, Atom] = {}
    parts = set[int]()
    for eqn in jaxpr.eqns:
        if type(eqn.primitive) not in _ARRANGING:
            continue
        atom, out = eqn.invars[0], eqn.outvars[0]
        if isinstance(atom, Var) and atom.index in scalars:
            scalars[out.index] = scalars[atom.index]
            if not isinstance(eqn.primitive, BroadcastInDim):
                parts.add(out.index)
        elif isinstance(eqn.primitive, BroadcastInDim) and not atom.aval.shape and out.aval.shape:
            scalars[out.index] = atom

    if not parts:
        return jaxpr

    def change(ctx: Rebuilding, eqn: Eqn, now: Callable[[Atom], Atom]) -> Sequence[Atom] | None:
        if not eqn.outvars or eqn.outvars[0].index not in parts:
            return None
        aval, scalar = eqn.outvars[0].aval, now(scalars[eqn.outvars[0].index])
        return [ctx.converted(broadcast_scalar(ctx, scalar, aval.shape), aval)]

    return rewritten(jaxpr, change)
