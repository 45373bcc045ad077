"""Positions that the first part of a divided program computes with 64 bits and hands over with 32.

Positions are int64 by default, and few axes are longer than 32 bits reach: half of what would be kept is zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from attrs import evolve
from typing_extensions import TypeIs

from tinyjax import primitives
from tinyjax.contexts.partial_eval import Unfinished
from tinyjax.contexts.rebuilding import Known, computed
from tinyjax.contexts.recording import Tape
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import INT32, INT64
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Literal, Var
from tinyjax.ir.result_types import result_types
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.selection import Clamp
from tinyjax.primitives.shaping import Reshape, Squeeze
from tinyjax.primitives.structure import BroadcastInDim, Transpose

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
        if known.computed and later.tape.invars[i].aval.dtype == INT64 and later.tape.invars[i].aval.shape
    }
    readers = _readers(later.tape, wide) if wide else {}
    if not readers:
        return later
    known = [_narrow(parent, one, readers[i]) if i in readers else one for i, one in enumerate(later.known)]
    ins = list(later.tape.invars)
    for i in readers:
        ins[i] = Var(ins[i].index, parent.aval(known[i].value))
    return Unfinished(_with_inputs(later.tape, ins), tuple(known))


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


def _readers(tape: Tape, wide: set[int]) -> dict[int, Eqn]:
    """Those of these inputs that are positions only, along axes which int32 reaches the end of; and what reads them: of
    several, one that doesn't promise that they are within bounds, if there is one."""
    source = {tape.invars[i].index: i for i in wide}
    found: dict[int, Eqn] = {}
    other: set[int] = {source[out.index] for out in tape.outvars if isinstance(out, Var) and out.index in source}
    for eqn in tape.eqns:
        for at, atom in enumerate(eqn.invars):
            if not isinstance(atom, Var) or atom.index not in source:
                continue
            i = source[atom.index]
            if type(eqn.primitive) in _SAME:
                source[eqn.outvars[0].index] = i
                if eqn.outvars[0] in tape.outvars:
                    other.add(i)
            elif at == 1 and _takes_positions(eqn.primitive) and _short(eqn.invars[0]):
                if i not in found or _promised(found[i]):
                    found[i] = eqn
            else:
                other.add(i)
    return {i: eqn for i, eqn in found.items() if i not in other}


def _short(operand: Atom) -> bool:
    return max(operand.aval.shape, default=0) < _GREATEST


def _with_inputs(tape: Tape, ins: Sequence[Var]) -> Tape:
    """The tape with inputs of other types, which reach nothing but what gives results of the same types for them."""
    new = {var.index: var for old, var in zip(tape.invars, ins, strict=True) if old is not var}
    eqns: list[Eqn] = []
    for eqn in tape.eqns:
        outs = eqn.outvars
        operands = tuple([new.get(atom.index, atom) if isinstance(atom, Var) else atom for atom in eqn.invars])
        if type(eqn.primitive) in _SAME and operands[:1] and operands[0] is not eqn.invars[0]:
            outs = (Var(outs[0].index, result_types(eqn.primitive, [operands[0].aval])[0]),)
            new[outs[0].index] = outs[0]
        eqns.append(Eqn(eqn.primitive, operands, outs, eqn.source))
    return evolve(tape, invars=tuple(ins), eqns=tuple(eqns))
