"""Along which axes of a mesh values differ where types don't say it (`check_vma=False`): for communication that not all
devices would come to, which would otherwise wait for ever."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.control.call import Calling
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomCall
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.control.shard_map import ShardMap
from tinyjax.control.together import check_together
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr, Literal, Var
from tinyjax.ir.shapes import Axes
from tinyjax.ir.traverse import nested_programs, programs_of
from tinyjax.ir.varying import union, without
from tinyjax.primitives.casts import Cast
from tinyjax.primitives.collectives import AxisIndex, Collective, ReducingCollective
from tinyjax.primitives.exchanges import AllGather


def check_all_come(jaxpr: Jaxpr, ins: Sequence[Axes]) -> list[Axes]:
    """Along which axes the results differ, at most, for inputs that differ along these.

    A TypingError if a branch or a loop communicates along an axis along which its index or predicate differs.
    """
    found: dict[Var, Axes] = dict(zip(jaxpr.invars, ins, strict=True))
    for eqn in jaxpr.eqns:
        operands = [() if isinstance(atom, Literal) else found[atom] for atom in eqn.invars]
        outs = _differing(eqn.primitive, operands, len(eqn.outvars))
        found.update(zip(eqn.outvars, outs, strict=True))
    return [() if isinstance(atom, Literal) else found[atom] for atom in jaxpr.outvars]


def _differing(primitive: Primitive, operands: Sequence[Axes], count: int) -> Sequence[Axes]:
    everywhere = union(operands)
    if isinstance(primitive, Cast | Collective):
        return [_communicated(primitive, everywhere)] * count
    if isinstance(primitive, Cond):
        index, *others = operands
        check_together(primitive.name, "index", index, primitive.branches)
        columns = zip(*[check_all_come(branch, others) for branch in primitive.branches], strict=True)
        return [union([index, *column]) for column in columns]
    if isinstance(primitive, While):
        return _while(primitive, operands)
    if isinstance(primitive, Scan):
        consts, carry, xs = primitive.operands(operands)
        while True:
            outs = check_all_come(primitive.jaxpr, [*consts, *carry, *xs])
            if not _more(carry, outs[: len(carry)]):
                return outs
            carry = _joined(carry, outs[: len(carry)])
    if isinstance(primitive, ShardMap):
        ins = [
            union([axes, tuple(sorted(set(spec.names)))])
            for axes, spec in zip(operands, primitive.in_specs, strict=True)
        ]
        return [without(axes, primitive.manual_axes) for axes in check_all_come(primitive.jaxpr, ins)]
    if isinstance(primitive, Calling | CustomCall):
        return check_all_come(primitive.jaxpr, operands)
    named = [axes for program in programs_of(primitive) for axes in _named(program)]
    return [union([everywhere, *named])] * count


def _while(primitive: While, operands: Sequence[Axes]) -> Sequence[Axes]:
    tested, consts, carry = primitive.operands(operands)
    while True:
        (predicate,) = check_all_come(primitive.cond_jaxpr, [*tested, *carry])
        check_together(primitive.name, "predicate", predicate, (primitive.cond_jaxpr, primitive.body_jaxpr))
        outs = [union([axes, predicate]) for axes in check_all_come(primitive.body_jaxpr, [*consts, *carry])]
        if not _more(carry, outs):
            return _joined(carry, outs)
        carry = _joined(carry, outs)


def _communicated(primitive: Cast | Collective, operand: Axes) -> Axes:
    if isinstance(primitive, Cast):
        return operand
    if isinstance(primitive, ReducingCollective | AllGather) and primitive.index_groups is None:
        return without(operand, primitive.names)
    return union([() if isinstance(primitive, AxisIndex) else operand, tuple(sorted(primitive.names))])


def _named(jaxpr: Jaxpr) -> list[Axes]:
    """The axes that a program, of which nothing else is known, has to do with."""
    programs = nested_programs(jaxpr)
    collectives = [eqn.primitive for program in programs for eqn in program.eqns]
    return [tuple(sorted(each.names)) for each in collectives if isinstance(each, Collective)]


def _more(before: Sequence[Axes], after: Sequence[Axes]) -> bool:
    return any(without(new, old) for old, new in zip(before, after, strict=True))


def _joined(before: Sequence[Axes], after: Sequence[Axes]) -> list[Axes]:
    return [union([old, new]) for old, new in zip(before, after, strict=True)]
