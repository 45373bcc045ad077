"""Whether a program is linear in some of its inputs: what its equations tell of that, before it is transposed.

    { lambda ; a:f64[] b:f64[]. let c:f64[] = mul a b; d:f64[] = add c 1.0 in (d,) }       # in b: c is linear, d is not

What is found of a value is that it is zero, that it is known (it doesn't depend on the linear inputs), that it is
linear in them, or that it depends on them in another way, and by which equation.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, final

import numpy as np
from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.caching import remembered
from tinyjax.errors import LinearityError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INEXACT
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.tangents import has_tangent
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.annotations import OptimizationBarrier
from tinyjax.primitives.arithmetic import Div
from tinyjax.primitives.collectives import PSum
from tinyjax.primitives.complex import Complex
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.contractions import Bilinear
from tinyjax.primitives.cumulative import CumSum
from tinyjax.primitives.dynamic import DynamicSlice, DynamicUpdateSlice
from tinyjax.primitives.elementwise import Additive, LinearUnary, Mul
from tinyjax.primitives.gather import Gather, ScatterAdd
from tinyjax.primitives.scatter import Scatter, ScatterMul
from tinyjax.primitives.selection import SelectN
from tinyjax.primitives.slicing import Concatenate, Pad
from tinyjax.primitives.stacking import Stack
from tinyjax.primitives.structure import Linear, ReduceSum
from tinyjax.primitives.window_choices import SelectAndGatherAdd, SelectAndScatterAdd


class Kind(enum.Enum):
    """How a value depends on the linear inputs."""

    ZERO = enum.auto()
    KNOWN = enum.auto()
    LINEAR = enum.auto()


def kind_of(constant: ConcreteValue | None) -> Kind:
    """What is known of a constant: on a device, and without its elements, only that it is one."""
    if constant is None or not constant.on_host or np.any(np.asarray(constant.data)):
        return Kind.KNOWN
    return Kind.ZERO


@final
@frozen
class Nonlinear:
    """A value that depends on the linear inputs, but not linearly: why, and by which equation."""

    reason: str
    equation: str = ""

    @override
    def __str__(self) -> str:
        return f"{self.reason}{self.equation}"


Fact: TypeAlias = Kind | Nonlinear

#: What is found of results, or of all of them if it is one thing: where this is what is found of these operands.
LINEARITY: Final[RuleTable[[Sequence[Fact], Sequence[Atom]], Sequence[Fact]]] = RuleTable(
    "Linearity", name="tinyjax.transforms.LINEARITY"
)
_Rule: TypeAlias = Callable[[Primitive, Sequence[Fact], Sequence[Atom]], Sequence[Fact]]


def check_linear(what: str, jaxpr: Jaxpr, inputs: Sequence[Kind], marks: Sequence[bool]) -> None:
    """A LinearityError unless the marked outputs are linear in the inputs that are so. Numbers without derivatives,
    such as integers, are left out."""
    for i, (fact, aval, mark) in enumerate(zip(facts_of(jaxpr, tuple(inputs)), jaxpr.out_avals, marks, strict=True)):
        if not mark or not has_tangent(aval):
            continue
        if isinstance(fact, Nonlinear):
            raise LinearityError(f"{what}: the program is not linear: {fact}")
        if fact is Kind.KNOWN:
            raise LinearityError(
                f"{what}: the program is not linear: output {i} doesn't depend on the linear inputs, so it isn't zero "
                "where they are"
            )


@remembered
def facts_of(jaxpr: Jaxpr, inputs: tuple[Fact, ...]) -> tuple[Fact, ...]:
    """What is found of the outputs, where this is what is found of the inputs."""
    env: list[Fact] = list(inputs)
    rules: dict[type[Primitive], _Rule] = {}

    def of_literal(literal: Literal) -> Kind:
        return Kind.KNOWN if literal.value else Kind.ZERO

    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        cls = type(primitive)
        rule = rules.get(cls)
        if rule is None:
            rule = rules[cls] = LINEARITY[cls]
        facts = [of_literal(atom) if isinstance(atom, Literal) else env[atom.index] for atom in eqn.invars]
        results = rule(primitive, facts, eqn.invars)
        if len(results) != len(eqn.outvars):
            results = list(results) * len(eqn.outvars)
        for fact, var in zip(results, eqn.outvars, strict=True):
            if isinstance(fact, Nonlinear) or (fact is Kind.LINEAR and var.aval.dtype not in INEXACT):
                env.append(_located(fact, eqn, var.aval))
            else:
                env.append(fact)
    return tuple([of_literal(atom) if isinstance(atom, Literal) else env[atom.index] for atom in jaxpr.outvars])


def _located(fact: Fact, eqn: Eqn, aval: ShapedArray) -> Fact:
    """What was found of an output, with the equation if it is at fault."""
    if fact is Kind.LINEAR and not has_tangent(aval):
        fact = Nonlinear(f"{eqn.primitive.name} gives {aval}, which isn't linear in anything")
    if not isinstance(fact, Nonlinear) or fact.equation:
        return fact
    source = "" if eqn.source is None else f"\n\nThe equation comes from {eqn.source}."
    return evolve(fact, equation=f"\n\n    {eqn}{source}")


def either(first: Fact, second: Fact) -> Fact:
    """What is found of a value that is one of two, depending on the branch or the iteration."""
    for fact in (first, second):
        if isinstance(fact, Nonlinear):
            return fact
    if first is second or second is Kind.ZERO:
        return first
    if first is Kind.ZERO:
        return second
    return Nonlinear(
        "what it gives is linear in one branch or iteration, and doesn't depend on the linear inputs in another"
    )


def spoilt(facts: Iterable[Fact]) -> Nonlinear | None:
    """The first that isn't linear."""
    for fact in facts:
        if isinstance(fact, Nonlinear):
            return fact
    return None


@LINEARITY.register(Primitive)
def by_itself(primitive: Primitive, facts: Sequence[Fact], atoms: Sequence[Atom]) -> Sequence[Fact]:
    """A primitive of the library that can't be transposed isn't linear; what others are, their transposes say."""
    found = spoilt(facts)
    if found is not None:
        return [found]
    if Kind.LINEAR not in facts:
        return [Kind.KNOWN]
    if primitive.built_in and type(primitive).transpose is Primitive.transpose:
        return [Nonlinear(f"{primitive.name} is not linear")]
    return [Kind.LINEAR]


def _of_numbers(facts: Sequence[Fact], atoms: Sequence[Atom]) -> Sequence[Fact]:
    """What is found of the operands but for positions and selectors among them."""
    return [fact for fact, atom in zip(facts, atoms, strict=True) if atom.aval.dtype in INEXACT] or facts


def _in_all(primitive: Primitive, facts: Sequence[Fact], atoms: Sequence[Atom]) -> Sequence[Fact]:
    """Linear in all operands together, but for integers: if one is known, it must be zero."""
    found = spoilt(facts)
    if found is not None:
        return [found]
    if Kind.LINEAR not in facts:
        return [Kind.KNOWN if Kind.KNOWN in _of_numbers(facts, atoms) else Kind.ZERO]
    if Kind.KNOWN in facts:
        for i, (fact, atom) in enumerate(zip(facts, atoms, strict=True)):
            if fact is Kind.KNOWN and atom.aval.dtype in INEXACT:
                reason = f"{primitive.name} is linear in its operands together, but operand {i} doesn't depend on the "
                return [Nonlinear(f"{reason}linear inputs, and isn't known to be zero")]
    return [Kind.LINEAR]


def _in_each(primitive: Primitive, facts: Sequence[Fact], atoms: Sequence[Atom]) -> Sequence[Fact]:
    """Linear in each operand, but for integers, and not in two together."""
    found = spoilt(facts)
    if found is not None:
        return [found]
    if Kind.LINEAR not in facts:
        return [Kind.ZERO if Kind.ZERO in _of_numbers(facts, atoms) else Kind.KNOWN]
    if facts.count(Kind.LINEAR) > 1:
        return [Nonlinear(f"{primitive.name} is linear in each of its operands, but not in both together")]
    return [Kind.LINEAR]


def _in_first(primitive: Primitive, facts: Sequence[Fact], atoms: Sequence[Atom]) -> Sequence[Fact]:
    """Linear in the first operand; the others say where things are."""
    return [spoilt(facts) or facts[0]]


_TOGETHER: Final[tuple[type[Primitive], ...]] = (
    *(Additive, Complex, Concatenate, DynamicUpdateSlice, Pad, Scatter, ScatterAdd, SelectN, Stack),
)
_EACH: Final[tuple[type[Primitive], ...]] = (Bilinear, Mul, ScatterMul)
_FIRST: Final[tuple[type[Primitive], ...]] = (
    *(Linear, LinearUnary, CumSum, DynamicSlice, Gather, PSum, ReduceSum, SelectAndGatherAdd, SelectAndScatterAdd),
)
for _classes, _rule in ((_TOGETHER, _in_all), (_EACH, _in_each), (_FIRST, _in_first)):
    for _cls in _classes:
        LINEARITY[_cls] = _rule


@LINEARITY.register(Div)
def _quotient(primitive: Div, facts: Sequence[Fact], atoms: Sequence[Atom]) -> Sequence[Fact]:
    if facts[1] is Kind.LINEAR:
        return [Nonlinear("div is linear in the dividend, but not in the divisor")]
    return [spoilt(facts) or facts[0]]


@LINEARITY.register(OptimizationBarrier)
def _one_by_one(primitive: Primitive, facts: Sequence[Fact], atoms: Sequence[Atom]) -> Sequence[Fact]:
    return facts


@LINEARITY.register(Constant)
def _constant(primitive: Constant, facts: Sequence[Fact], atoms: Sequence[Atom]) -> Sequence[Fact]:
    return [kind_of(primitive.value)]
