"""Dependence: which inputs each output, and every other value, may depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, final

from attrs import frozen
from typing_extensions import override

from tinyjax.control.call import Calling
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomCall, CustomJvp, CustomVjp, MappedCustom
from tinyjax.control.custom_linear import CustomLin
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.holding import AnyProgram, checked
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.display import Block
from tinyjax.ir.printing.printer import variable_names
from tinyjax.ir.printing.shown import Shown
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.primitives.annotations import OptimizationBarrier
from tinyjax.primitives.sorting import Sort
from tinyjax.tools.dataflow.engine import Flow, Rules, Walk, forward
from tinyjax.tools.dataflow.lattice import Lattice
from tinyjax.tools.dataflow.structure import forward_rules, passed_on

#: A set of numbers: bit i is 1 if i is in it.
Bits: TypeAlias = int


def members(bits: Bits) -> Iterator[int]:
    """The numbers in a set, in order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


@final
class InputSets(Lattice[Bits]):
    """Sets of inputs of the program."""

    @override
    def bottom(self, aval: ShapedArray) -> Bits:
        return 0

    @override
    def join(self, first: Bits, second: Bits) -> Bits:
        return first | second

    @override
    def influenced(self, fact: Bits, decision: Bits) -> Bits:
        return fact | decision


#: What results depend on, where this is what operands depend on. Each program within is walked once, for sets of its
#: own inputs, and what is found is put together: so the cost doesn't depend on how often a program is applied.
DEPENDENCE_RULES: Rules[Bits] = forward_rules("Dependence", name="tinyjax.tools.dataflow.DEPENDENCE_RULES")
_Walk: TypeAlias = Walk[Bits]


def singletons(number: int) -> list[Bits]:
    return [1 << i for i in range(number)]


def _union(sets: Sequence[Bits], chosen: Bits) -> Bits:
    """The union of those of the sets that are chosen."""
    found = 0
    for i in members(chosen):
        found |= sets[i]
    return found


def _through(walk: _Walk, jaxpr: Jaxpr, facts: Sequence[Bits], number: int = 0) -> list[Bits]:
    """What the outputs of a program depend on, where this is what its inputs depend on."""
    own = walk.apply(jaxpr, singletons(len(jaxpr.invars)), number)
    return [_union(facts, bits) for bits in own]


@DEPENDENCE_RULES.register(Primitive)
def _everything(primitive: Primitive, walk: _Walk, eqn: Eqn, facts: Sequence[Bits]) -> Sequence[Bits]:
    """All results depend on all operands; but arrays without elements depend on nothing."""
    given = 0
    for bits in facts:
        given |= bits
    return [given if var.aval.size else 0 for var in eqn.outvars]


@DEPENDENCE_RULES.register(OptimizationBarrier)
def _each(primitive: OptimizationBarrier, walk: _Walk, eqn: Eqn, facts: Sequence[Bits]) -> Sequence[Bits]:
    return facts


@DEPENDENCE_RULES.register(Sort)
def _sort(primitive: Sort, walk: _Walk, eqn: Eqn, facts: Sequence[Bits]) -> Sequence[Bits]:
    """Each array depends on itself and on the keys."""
    keys = 0
    for bits in facts[: primitive.num_keys]:
        keys |= bits
    return [bits | keys for bits in facts]


@DEPENDENCE_RULES.register(Calling)
def _calling(primitive: Calling, walk: _Walk, eqn: Eqn, facts: Sequence[Bits]) -> Sequence[Bits]:
    return _through(walk, primitive.jaxpr, facts)


def _custom(primitive: CustomCall, walk: _Walk, eqn: Eqn, facts: Sequence[Bits]) -> Sequence[Bits]:
    return _through(walk, primitive.jaxpr, facts)


DEPENDENCE_RULES[CustomJvp] = _custom
DEPENDENCE_RULES[CustomVjp] = _custom
DEPENDENCE_RULES[MappedCustom] = _custom


@DEPENDENCE_RULES.register(CustomLin)
def _custom_lin(primitive: CustomLin, walk: _Walk, eqn: Eqn, facts: Sequence[Bits]) -> Sequence[Bits]:
    """Known by its transpose: a result depends on those tangents whose cotangents depend on the result's."""
    n = primitive.num_residuals
    backwards = walk.apply(primitive.bwd, singletons(len(primitive.bwd.invars)))
    return [
        _union(facts, sum(1 << (n + i) for i, bits in enumerate(backwards) if bits >> (n + out) & 1))
        | _union(facts, _residuals(backwards, n, out))
        for out in range(len(eqn.outvars))
    ]


def _residuals(backwards: Sequence[Bits], n: int, out: int) -> Bits:
    found = 0
    for bits in backwards:
        if bits >> (n + out) & 1:
            found |= bits & ((1 << n) - 1)
    return found


@DEPENDENCE_RULES.register(Cond)
def _cond(primitive: Cond, walk: _Walk, eqn: Eqn, facts: Sequence[Bits]) -> Sequence[Bits]:
    (index, *operands), chosen = facts, eqn.invars[0]
    if isinstance(chosen, Literal):
        branch = min(max(int(chosen.value.real), 0), len(primitive.branches) - 1)
        return _through(walk, primitive.branches[branch], operands, branch)
    outs = [0] * len(eqn.outvars)
    for number, program in enumerate(primitive.branches):
        outs = [bits | more for bits, more in zip(outs, _through(walk, program, operands, number), strict=True)]
    alone = len(primitive.branches) == 1
    return [
        bits if alone or passed_on(primitive, i) is not None or eqn.outvars[i].aval.size == 0 else bits | index
        for i, bits in enumerate(outs)
    ]


@DEPENDENCE_RULES.register(While)
def _while(primitive: While, walk: _Walk, eqn: Eqn, facts: Sequence[Bits]) -> Sequence[Bits]:
    """After any number of iterations: sets grow until they are closed under one more."""
    cond_consts, body_consts, start = primitive.operands(facts)
    (tested,) = walk.apply(primitive.cond_jaxpr, singletons(len(primitive.cond_jaxpr.invars)), 0)
    body = walk.apply(primitive.body_jaxpr, singletons(len(primitive.body_jaxpr.invars)), 1)
    unchanged = [bits == 1 << (primitive.body_nconsts + i) and out == var for i, (bits, out, var) in enumerate(
        zip(body, primitive.body_jaxpr.outvars, primitive.body_jaxpr.invars[primitive.body_nconsts :], strict=True)
    )]  # fmt: skip
    carry = list(start)
    while True:
        decision = _union([*cond_consts, *carry], tested)
        given = [*body_consts, *carry]
        after = [
            now if same else now | decision | _union(given, bits)
            for now, bits, same in zip(carry, body, unchanged, strict=True)
        ]
        if after == carry:
            return carry
        carry = after


@DEPENDENCE_RULES.register(Scan)
def _scan(primitive: Scan, walk: _Walk, eqn: Eqn, facts: Sequence[Bits]) -> Sequence[Bits]:
    """After exactly `length` iterations: the dependence of one iteration, to that power."""
    own = walk.apply(primitive.jaxpr, singletons(len(primitive.jaxpr.invars)))
    step, ys = own[: primitive.num_carry], own[primitive.num_carry :]
    first, n = primitive.num_consts, len(primitive.jaxpr.invars)
    ran, entered = _iterated(n, first, step, primitive.length)
    stacked = [_union(entered, bits) for bits in ys] if primitive.length else [0] * len(ys)
    last = ran[first : first + primitive.num_carry]
    return [_union(facts, bits) for bits in (*last, *stacked)]


def _iterated(n: int, first: int, step: Sequence[Bits], length: int) -> tuple[list[Bits], list[Bits]]:
    """What the n inputs of a loop's body depend on after `length` iterations, and before any of these.

    An iteration replaces the carries, the inputs from `first` on, by what `step` says. Maps of iterations are composed,
    so the number of steps is logarithmic: f^(2m) = f^m f^m, and what m iterations see, joined with what the next m see.
    """
    identity = singletons(n)
    power = [*identity[:first], *step, *identity[first + len(step) :]]  # 2^k iterations
    seen = identity  # before any of 2^k iterations
    ran, entered = identity, [0] * n  # those of the bits of `length` so far
    while length:
        if length & 1:
            entered = [old | _union(ran, new) for old, new in zip(entered, seen, strict=True)]
            ran = [_union(ran, bits) for bits in power]
        seen = [bits | _union(seen, after) for bits, after in zip(seen, power, strict=True)]
        power = [_union(power, bits) for bits in power]
        length >>= 1
    return ran, entered


@final
@frozen(eq=False, repr=False)
class Dependence(Shown):
    """What the values of a program may depend on: sets of the numbers of its inputs.

    An input that isn't in a set has no influence on the value, whatever the inputs are. `flow` holds sets as integers,
    bit by bit, for programs within too: those are sets of the inputs of each program itself.
    """

    flow: Flow[Bits]

    @property
    def outputs(self) -> tuple[frozenset[int], ...]:
        """For each output, the inputs that it may depend on."""
        return tuple(frozenset(members(bits)) for bits in self.flow.outs)

    @property
    def inputs(self) -> tuple[frozenset[int], ...]:
        """For each input, the outputs that may depend on it."""
        found: list[set[int]] = [set() for _ in self.flow.jaxpr.invars]
        for number, bits in enumerate(self.flow.outs):
            for i in members(bits):
                found[i].add(number)
        return tuple(map(frozenset, found))

    @property
    def output_names(self) -> tuple[tuple[str, ...], ...]:
        """For each output, what the inputs are called that it may depend on: by the function that was traced, or as
        they are printed."""
        jaxpr = self.flow.jaxpr
        printed = variable_names(jaxpr)
        names = [name or printed[var.index] for name, var in zip(jaxpr.input_names, jaxpr.invars, strict=True)]
        return tuple(tuple(names[i] for i in sorted(found)) for found in self.outputs)

    def of(self, atom: Atom) -> frozenset[int]:
        """The inputs that a variable of the program may depend on; none for a literal."""
        return frozenset(members(self.flow.of(atom))) if isinstance(atom, Var) else frozenset()

    @override
    def _blocks(self) -> Iterator[Block]:
        from tinyjax.tools.dataflow.display import flow_blocks

        def spell(flow: Flow[Bits], bits: Bits) -> str:
            names = variable_names(flow.jaxpr)
            return ", ".join(names[flow.jaxpr.invars[i].index] for i in members(bits)) or "nothing"

        yield from flow_blocks(self.flow, "depends on", spell)

    def within(self, position: int) -> Mapping[int, Dependence]:
        """The same for the programs of an equation; see `Flow.within`."""
        return {number: Dependence(flow) for number, flow in self.flow.within(position).items()}


def dependence(program: AnyProgram) -> Dependence:
    """Which inputs each output of a program may depend on: through predicates too, and through loops.

    { lambda ; a:f64[] b:f64[]. let c:f64[] = sin a; d:f64[] = mul b c in (c, d) }
    c: {a}   d: {a, b}

    Exact as far as the equations tell: each is taken to depend on all of its operands. After a `scan` it is that of its
    number of iterations, not of any. Inputs are numbered as in the program; those fed by constants have no number in
    any set. What effects show isn't counted.

    >>> from tinyjax import make_jaxpr
    >>> [sorted(found) for found in dependence(make_jaxpr(lambda x, y: (x * y, -y))(2.0, 3.0)).outputs]
    [[0, 1], [1]]
    >>> dependence(make_jaxpr(lambda x, y: (x * y, -y))(2.0, 3.0)).output_names
    (('x', 'y'), ('y',))
    """
    closed = checked(program, "dependence")
    masks = singletons(len(closed.jaxpr.invars))
    flow = forward(closed, InputSets(), DEPENDENCE_RULES, masks[len(closed.consts) :])
    return Dependence(flow)
