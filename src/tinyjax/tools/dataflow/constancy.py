"""Constancy: which values are the same whatever the inputs are, and what they are."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.contexts.evaluation import EvalContext
from tinyjax.control.callbacks import Callback
from tinyjax.control.custom_linear import CustomLin
from tinyjax.control.exported import CallExported
from tinyjax.control.foreign import FfiCall
from tinyjax.control.recursion import Enclosing
from tinyjax.errors import MissingRuleError
from tinyjax.interpreters.base import register_all
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import NO_EFFECTS
from tinyjax.ir.holding import AnyProgram, checked
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.display import Block
from tinyjax.ir.printing.shown import Shown
from tinyjax.ir.program import Atom, Eqn, Literal, Var
from tinyjax.ir.traverse import subjaxprs
from tinyjax.ir.value import ConcreteValue
from tinyjax.tools.dataflow.engine import Flow, Rules, Walk, forward
from tinyjax.tools.dataflow.lattice import Lattice
from tinyjax.tools.dataflow.structure import forward_rules

_EVALUATION: Final = EvalContext()


@final
class Fixed(enum.Enum):
    """What is known of a value that isn't known itself."""

    #: The value never comes to be: no input, branch or iteration gets there.
    UNREACHED = "unreached"
    #: The same in every run, whatever the inputs are; in a loop it may differ from iteration to iteration.
    FIXED = "fixed"
    #: It may depend on inputs, or on the outside world.
    VARYING = "varying"


#: The value itself, or what is known of it.
Fact: TypeAlias = ConcreteValue | Fixed


@final
@frozen
class Constants(Lattice[Fact]):
    """UNREACHED, below each value, below FIXED, below VARYING. Arrays of more than `limit` elements aren't computed."""

    limit: int = 4096

    @override
    def bottom(self, aval: ShapedArray) -> Fact:
        return Fixed.UNREACHED

    @override
    def join(self, first: Fact, second: Fact) -> Fact:
        if first is second or second is Fixed.UNREACHED:
            return first
        if first is Fixed.UNREACHED:
            return second
        if Fixed.VARYING in (first, second):
            return Fixed.VARYING
        return first if isinstance(first, ConcreteValue) and first == second else Fixed.FIXED

    @override
    def constant(self, value: ConcreteValue | Literal) -> Fact:
        return self.kept(_EVALUATION.constant(value))

    def kept(self, value: ConcreteValue) -> Fact:
        return value if value.aval.size <= self.limit else Fixed.FIXED

    @override
    def element(self, fact: Fact, aval: ShapedArray) -> Fact:
        if not isinstance(fact, ConcreteValue):
            return fact
        rows = np.asarray(fact)
        same = len({row.tobytes() for row in rows}) == 1
        return ConcreteValue(np.array(rows[0]), aval) if same else Fixed.FIXED

    @override
    def stacked(self, fact: Fact, aval: ShapedArray) -> Fact:
        if aval.size == 0:
            return _empty(aval)
        if not isinstance(fact, ConcreteValue) or aval.size > self.limit:
            return Fixed.FIXED if isinstance(fact, ConcreteValue) else fact
        return ConcreteValue(np.array(np.broadcast_to(np.asarray(fact), aval.shape)), aval)

    @override
    def influenced(self, fact: Fact, decision: Fact) -> Fact:
        # A value that is known is the same on all paths.
        return Fixed.VARYING if fact is Fixed.FIXED and decision is Fixed.VARYING else fact

    @override
    def known(self, fact: Fact) -> ConcreteValue | None:
        return fact if isinstance(fact, ConcreteValue) else None


#: What is known of results, where this is what is known of operands.
CONSTANCY_RULES: Rules[Fact] = forward_rules("Constancy", name="tinyjax.tools.dataflow.CONSTANCY_RULES")


@CONSTANCY_RULES.register(Primitive)
def _computed(primitive: Primitive, walk: Walk[Fact], eqn: Eqn, facts: Sequence[Fact]) -> Sequence[Fact]:
    """The results are computed if all operands are known and they aren't large."""
    lattice = walk.lattice
    limit = lattice.limit if isinstance(lattice, Constants) else 0
    if primitive.effects != NO_EFFECTS:
        return [Fixed.VARYING] * len(eqn.outvars)
    if Fixed.UNREACHED in facts:
        return [Fixed.UNREACHED] * len(eqn.outvars)
    known = [fact for fact in facts if isinstance(fact, ConcreteValue)]
    small = all(var.aval.size <= limit for var in eqn.outvars)
    if len(known) == len(facts) and small and not subjaxprs(primitive):
        try:
            outs = _EVALUATION.bind(primitive, *known)
            return [_typed(out, var.aval) for out, var in zip(outs, eqn.outvars, strict=True)]
        except MissingRuleError:
            pass
    fact: Fact = Fixed.VARYING if Fixed.VARYING in facts else Fixed.FIXED
    return [_empty(var.aval) if var.aval.size == 0 else fact for var in eqn.outvars]


def _typed(value: ConcreteValue, aval: ShapedArray) -> ConcreteValue:
    return ConcreteValue(np.asarray(value), aval)


def _empty(aval: ShapedArray) -> ConcreteValue:
    return ConcreteValue(np.zeros(aval.shape, aval.dtype), aval)


def _outside(primitive: Primitive, walk: Walk[Fact], eqn: Eqn, facts: Sequence[Fact]) -> Sequence[Fact]:
    """What functions from elsewhere return isn't for an analysis to find out."""
    return [Fixed.VARYING] * len(eqn.outvars)


register_all(CONSTANCY_RULES, _outside, (Callback, CallExported, FfiCall, Enclosing, CustomLin))


@final
@frozen(eq=False, repr=False)
class Constancy(Shown):
    """Which values of a program are the same whatever its inputs are, and those that are known.

    `facts` are in the order of `Var.index`. A fact is the value, FIXED for one that is the same in every run but isn't
    known, VARYING for one that may depend on inputs, or UNREACHED for one that never comes to be.
    """

    flow: Flow[Fact]

    @property
    def facts(self) -> tuple[Fact, ...]:
        return self.flow.facts

    @property
    def outputs(self) -> tuple[Fact, ...]:
        return self.flow.outs

    def of(self, atom: Atom) -> Fact:
        return self.flow.of(atom) if isinstance(atom, Var) else _EVALUATION.constant(atom)

    @override
    def _blocks(self) -> Iterator[Block]:
        from tinyjax.tools.dataflow.display import flow_blocks

        yield from flow_blocks(self.flow, "value", lambda _, fact: _spelled(fact))

    def within(self, position: int) -> Mapping[int, Constancy]:
        """The same for the programs of an equation; see `Flow.within`. Branches that aren't taken are missing."""
        return {number: Constancy(flow) for number, flow in self.flow.within(position).items()}


def _spelled(fact: Fact) -> str:
    if isinstance(fact, Fixed):
        return fact.value
    return np.array2string(np.asarray(fact.data), threshold=8, edgeitems=2, separator=", ").replace("\n", "")


def constancy(
    program: AnyProgram, inputs: Sequence[ConcreteValue | None] | None = None, *, limit: int = 4096
) -> Constancy:
    """Which values of a program are constants: the same whatever the inputs are.

    { lambda ; a:f64[]. let b:f64[] = sin 0.0; c:f64[] = add a b; d:f64[] = iota in (c, d) }
    b: 0.0   c: varying   d: fixed

    `inputs` are values for inputs that are known after all, and None for the others. Values of more than `limit`
    elements aren't computed. Where a predicate is known, only what it chooses is looked at; what a loop changes is
    FIXED at best. Python functions that a program calls aren't called.

    >>> from tinyjax import lax, make_jaxpr
    >>> program = make_jaxpr(lambda x: (lax.exp(0.0), x * lax.iota("int32", 3)))(2.0)
    >>> print(*[fact if isinstance(fact, Fixed) else fact.data for fact in constancy(program).outputs])
    1.0 Fixed.VARYING
    """
    closed = checked(program, "constancy")
    given = [None] * len(closed.in_avals) if inputs is None else inputs
    facts: list[Fact] = [Fixed.VARYING if value is None else value for value in given]
    return Constancy(forward(closed, Constants(limit), CONSTANCY_RULES, facts))
