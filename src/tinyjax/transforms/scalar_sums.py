"""Long sums of scalars, as sums of stacks: of the squared norms of all gradients, say, or whether all are finite.

Vectors count as scalars too, if they are short: they are what scalars are in a batch, as for the norm of each example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias, TypeGuard

from tinyjax.ir.dtypes import FLOATS
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.shapes import Shape
from tinyjax.primitives.arithmetic import Max, Min
from tinyjax.primitives.bitwise import And, Or
from tinyjax.primitives.elementwise import Add
from tinyjax.primitives.reductions import ReduceAnd, ReduceMax, ReduceMin, ReduceOr
from tinyjax.primitives.slicing import Concatenate
from tinyjax.primitives.stacking import Stack, stack
from tinyjax.primitives.structure import ReduceSum
from tinyjax.transforms.rebuild import Rebuilding, count_reads, rewritten
from tinyjax.transforms.rows import JOINING

#: Sums of fewer terms stay.
_TERMS: Final = 8
#: Vectors of more elements are no batches of scalars.
_ELEMENTS: Final = 4096
_Reducing: TypeAlias = type[ReduceSum | ReduceAnd | ReduceOr | ReduceMax | ReduceMin]
#: What adds two, and what adds all of a stack: sums in the widest sense.
_SUMS: Final[Mapping[type[Primitive], _Reducing]] = MappingProxyType(
    {Add: ReduceSum, And: ReduceAnd, Or: ReduceOr, Max: ReduceMax, Min: ReduceMin}
)
_REDUCTIONS: Final = frozenset(_SUMS.values())


def sums_of_stacks(jaxpr: Jaxpr) -> Jaxpr:
    """The program in which the terms of sums of many scalars, or short vectors, are joined, and added at once.

        { lambda ; a:f64[] b:f64[] c:f64[]. let d:f64[] = add a b; e:f64[] = add d c in (e,) }
        { lambda ; a:f64[] b:f64[] c:f64[]. let d:f64[3] = stack[axis=0] a b c;
            e:f64[] = reduce_sum[axes=(0,)] d in (e,) }

    The terms that a loop makes are a stack already, so it is all of them that are added, in any order: a sum to
    rounding. Whether all or any hold, and extremes, are such sums too.
    """
    sums = _long_sums(jaxpr)
    if not sums:
        return jaxpr

    def change(ctx: Rebuilding, eqn: Eqn, now: Callable[[Atom], Atom]) -> Sequence[Atom] | None:
        terms = sums.get(eqn.outvars[0].index) if eqn.outvars else None
        if terms is None:
            return None
        rows = [now(term) for term in terms if isinstance(term, Var)]
        total: Atom = ctx.bind(_SUMS[type(eqn.primitive)]((0,)), stack(ctx, rows, 0))[0]
        for term in terms:
            if isinstance(term, Literal) and (term.value or not isinstance(eqn.primitive, Add)):
                (total,) = ctx.bind(eqn.primitive, total, term)
        return [ctx.converted(total, eqn.outvars[0].aval)]

    return rewritten(jaxpr, change)


def joins_scalars(eqn: Eqn) -> bool:
    """Whether it makes a stack of scalars."""
    return type(eqn.primitive) in JOINING and eqn.outvars[0].aval.shape == (len(eqn.invars),)


def _joins_short(eqn: Eqn) -> bool:
    """Whether it makes a stack of scalars, or of short vectors."""
    if type(eqn.primitive) is Stack and eqn.primitive.axis == 0:
        return _counts(eqn.invars[0].aval.shape)
    if type(eqn.primitive) is not Concatenate or eqn.primitive.dimension != 0:
        return False
    return _counts(eqn.outvars[0].aval.shape[1:]) and all(atom.aval.shape[0] == 1 for atom in eqn.invars)


def _counts(shape: Shape) -> bool:
    """Whether values of this shape count as scalars."""
    return not shape or (len(shape) == 1 and shape[0] <= _ELEMENTS)


def in_any_order(jaxpr: Jaxpr) -> frozenset[int]:
    """The stacks of scalars, or of short vectors, that are only added: in another order, it is the same to rounding."""
    found = {eqn.outvars[0].index for eqn in jaxpr.eqns if type(eqn.primitive) in JOINING and _joins_short(eqn)}
    if found:
        read = {
            atom.index
            for eqn in jaxpr.eqns
            for atom in eqn.invars
            if type(atom) is Var
            and atom.index in found
            and not (_reduces(eqn.primitive) and eqn.primitive.axes == (0,))
        }
        found -= read.union([atom.index for atom in jaxpr.outvars if type(atom) is Var])
    return frozenset(found)


def _reduces(primitive: Primitive) -> TypeGuard[ReduceSum | ReduceAnd | ReduceOr | ReduceMax | ReduceMin]:
    return type(primitive) in _REDUCTIONS


def _long_sums(jaxpr: Jaxpr) -> dict[int, list[Atom]]:
    """The scalars, and short vectors, that are sums of many, and no part of another such sum; and their terms."""
    reads: list[int] = []  # how often each variable is read, once that is asked
    sums: dict[int, list[Atom]] = {}
    kinds: dict[int, type[Primitive]] = {}
    for eqn in jaxpr.eqns:
        kind = type(eqn.primitive)
        if kind not in _SUMS:
            continue
        (out,) = eqn.outvars
        aval = out.aval
        if not _counts(aval.shape) or aval.axes or (kind is Add and aval.dtype not in FLOATS):
            continue
        if any(isinstance(atom, Var) and atom.aval.shape != aval.shape for atom in eqn.invars):
            continue
        kinds[out.index] = kind
        parts: list[list[Atom]] = []
        for atom in eqn.invars:
            inner = None
            if isinstance(atom, Var) and kinds.get(atom.index) is kind:
                reads = reads or count_reads(jaxpr)
                inner = sums.pop(atom.index, None) if reads[atom.index] == 1 else None
            parts.append([atom] if inner is None else inner)
        short, long = sorted(parts, key=len)
        long += short
        sums[out.index] = long
    return {index: terms for index, terms in sums.items() if sum(isinstance(term, Var) for term in terms) >= _TERMS}
