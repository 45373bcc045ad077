"""Positions that the first part of a divided program computes with 64 bits and hands over with 32.

Positions are int64 by default, and few axes are longer than 32 bits reach: half of what would be kept is zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from typing_extensions import TypeIs

from tinyjax import primitives
from tinyjax.contexts.partial_eval import Unfinished
from tinyjax.contexts.rebuilding import Known, computed
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import INT32, INT64
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.selection import Clamp
from tinyjax.primitives.shaping import Reshape, Squeeze
from tinyjax.primitives.structure import BroadcastInDim, Transpose
from tinyjax.transforms.rebuild import Rebuilding, read

if TYPE_CHECKING:
    from tinyjax.primitives.gather import Gather, Scattering

V = TypeVar("V")

#: What gives positions of positions, of whatever dtype they are.
_SAME: Final = frozenset({BroadcastInDim, Reshape, Squeeze, Transpose})
_LEAST, _GREATEST = int(np.iinfo(np.int32).min), int(np.iinfo(np.int32).max)


def narrowed(later: Unfinished[V], parent: Context[V]) -> Unfinished[V]:
    """The staged program with int32 residuals for int64 ones that are positions of gathers and scatters, and no more.

    { lambda ; a:i64[5,1] b:f64[9]. let c:f64[5] = gather[...] b a in (c,) }
    { lambda ; a:i32[5,1] b:f64[9]. let c:f64[5] = gather[...] b a in (c,) }

    Positions beyond int32 become the last that it has, which is as far beyond the axis. An input that
    nothing computed stays: others hold it, and a copy would take room where it takes none.
    """
    wide = {
        i
        for i, known in enumerate(later.known)
        if known.computed and later.jaxpr.invars[i].aval.dtype == INT64 and later.jaxpr.invars[i].aval.shape
    }
    readers = _readers(later.jaxpr, wide) if wide else {}
    if not readers:
        return later
    known = [_narrow(parent, one, readers[i]) if i in readers else one for i, one in enumerate(later.known)]
    ins = list(later.jaxpr.invars)
    for i in readers:
        ins[i] = Var(i, parent.aval(known[i].value))
    return Unfinished(_with_inputs(later.jaxpr, ins), tuple([one.value for one in known]), tuple(known))


def _narrow(parent: Context[V], known: Known[V], reader: Eqn) -> Known[V]:
    before, parent.cursor.source = parent.cursor.source, reader.source
    try:
        value = known.value
        if not _promised(reader):
            low, high = (parent.constant(Literal.of(bound, INT64)) for bound in (_LEAST, _GREATEST))
            (value,) = parent.bind(Clamp(), low, value, high)
        return computed(convert(parent, value, INT32))
    finally:
        parent.cursor.source = before


def _promised(reader: Eqn) -> bool:
    primitive, promised = reader.primitive, primitives.windows.GatherScatterMode.PROMISE_IN_BOUNDS
    return _takes_positions(primitive) and primitive.mode is promised


def _takes_positions(primitive: Primitive) -> TypeIs[Gather | Scattering]:
    return isinstance(primitive, primitives.gather.Gather | primitives.gather.Scattering)


def _readers(jaxpr: Jaxpr, wide: set[int]) -> dict[int, Eqn]:
    """Those of these inputs that are positions only, along axes which int32 reaches the end of; and what reads them: of
    several, one that doesn't promise that they are within bounds, if there is one."""
    source = {i: i for i in wide}
    found: dict[int, Eqn] = {}
    other: set[int] = {source[out.index] for out in jaxpr.outvars if isinstance(out, Var) and out.index in source}
    for eqn in jaxpr.eqns:
        for at, atom in enumerate(eqn.invars):
            if not isinstance(atom, Var) or atom.index not in source:
                continue
            i = source[atom.index]
            if type(eqn.primitive) in _SAME:
                source[eqn.outvars[0].index] = i
                if eqn.outvars[0] in jaxpr.outvars:
                    other.add(i)
            elif at == 1 and _takes_positions(eqn.primitive) and _short(eqn.invars[0]):
                if i not in found or _promised(found[i]):
                    found[i] = eqn
            else:
                other.add(i)
    return {i: eqn for i, eqn in found.items() if i not in other}


def _short(operand: Atom) -> bool:
    return max(operand.aval.shape, default=0) < _GREATEST


def _with_inputs(jaxpr: Jaxpr, ins: list[Var]) -> Jaxpr:
    """The program with inputs of other types, which reach nothing but what gives results of the same types for them."""
    grown = Rebuilding(ins)
    env: dict[int, Atom] = {var.index: var for var in ins}
    for eqn in jaxpr.eqns:
        operands = read(env, eqn.invars)
        if type(eqn.primitive) in _SAME and operands[:1] and operands[0].aval != eqn.invars[0].aval:
            grown.cursor.source = eqn.source
            outs = grown.bind(eqn.primitive, *operands)
        else:
            outs = grown.again(eqn, operands)
        for old, new in zip(eqn.outvars, outs, strict=True):
            env[old.index] = new
    return grown.finish(read(env, jaxpr.outvars))
