"""Which primitives with programs as parameters are linear, and in what: as their programs are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tinyjax.control.call import Calling
from tinyjax.control.composite import Composite, program
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomCall, CustomJvp, CustomVjp, MappedCustom
from tinyjax.control.scan import Scan
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom
from tinyjax.transforms.linearity import LINEARITY, Fact, Kind, Nonlinear, by_itself, either, facts_of


@LINEARITY.register(Calling)
def _called(primitive: Calling, facts: Sequence[Fact], atoms: Sequence[Atom]) -> Sequence[Fact]:
    return facts_of(primitive.jaxpr, tuple(facts))


def _custom(primitive: CustomCall, facts: Sequence[Fact], atoms: Sequence[Atom]) -> Sequence[Fact]:
    return facts_of(primitive.jaxpr, tuple(facts))


def _decomposed(primitive: Primitive, facts: Sequence[Fact], atoms: Sequence[Atom]) -> Sequence[Fact]:
    if not isinstance(primitive, Composite) or type(primitive).transpose is not Composite.transpose:
        return by_itself(primitive, facts, atoms)
    return facts_of(program(primitive, tuple([atom.aval for atom in atoms])), tuple(facts))


@LINEARITY.register(Cond)
def _branches(primitive: Cond, facts: Sequence[Fact], atoms: Sequence[Atom]) -> Sequence[Fact]:
    index, *operands = facts
    if isinstance(index, Nonlinear):
        return [index]
    first, *others = [facts_of(branch, tuple(operands)) for branch in primitive.branches]
    for other in others:
        first = tuple(map(either, first, other))
    return first if index is not Kind.LINEAR else [Nonlinear("cond is linear in its operands, but not in its index")]


@LINEARITY.register(Scan)
def _iterations(primitive: Scan, facts: Sequence[Fact], atoms: Sequence[Atom]) -> Sequence[Fact]:
    """Of a carry, what holds before and after every iteration."""
    consts, carry, xs = (tuple(items) for items in primitive.operands(facts))
    while True:
        outs = facts_of(primitive.jaxpr, (*consts, *carry, *xs))
        following = tuple(map(either, carry, outs))
        if following == carry:
            return (*carry, *outs[primitive.num_carry :])
        carry = following


for _cls in (CustomJvp, CustomVjp, MappedCustom):
    LINEARITY[_cls] = _custom
_COMPOSITES: Final[tuple[type[Primitive], ...]] = (Composite,)  # an abstract class, which type checkers take as this
for _composite in _COMPOSITES:
    LINEARITY[_composite] = _decomposed
