"""The rules that every analysis starts with: what calls, branches and loops mean for facts, whatever these are."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, cast

import numpy as np

from tinyjax.control.call import Calling
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomCall, CustomJvp, CustomVjp, MappedCustom
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal
from tinyjax.ir.rules import RuleTable
from tinyjax.tools.dataflow.engine import Rules, Walk
from tinyjax.tools.dataflow.lattice import T

#: The rules that tables made by `forward_rules` and `backward_rules` fall back on. They are typed for facts that they
#: know nothing about, so they fit all.
FORWARD: Final[Rules[Hashable]] = RuleTable("Forward", name="tinyjax.tools.dataflow.FORWARD")
BACKWARD: Final[Rules[Hashable]] = RuleTable("Backward", name="tinyjax.tools.dataflow.BACKWARD")


def forward_rules(kind: str, *, name: str, parent: Rules[T] | None = None) -> Rules[T]:
    """A table of rules for `forward`, with those for calls, branches and loops already in it.

    Its rule for `Primitive`, which is every primitive without one of its own, joins the facts about the operands. If
    that isn't true of your facts, register another one for `Primitive`. `kind` and `name` are for messages.
    """
    return RuleTable(kind, name=name, parent=parent or cast("Rules[T]", FORWARD))  # see FORWARD


def backward_rules(kind: str, *, name: str, parent: Rules[T] | None = None) -> Rules[T]:
    """A table of rules for `backward`: as `forward_rules`, but facts go from all results to each operand."""
    return RuleTable(kind, name=name, parent=parent or cast("Rules[T]", BACKWARD))  # see FORWARD


@FORWARD.register(Primitive)
def join_operands(primitive: Primitive, walk: Walk[T], eqn: Eqn, facts: Sequence[T]) -> Sequence[T]:
    """Forward: each result may be anything that an operand may be."""
    return [walk.lattice.join_all(var.aval, facts) for var in eqn.outvars]


@BACKWARD.register(Primitive)
def join_results(primitive: Primitive, walk: Walk[T], eqn: Eqn, facts: Sequence[T]) -> Sequence[T]:
    """Backward: each operand may get to every result."""
    return [walk.lattice.join_all(atom.aval, facts) for atom in eqn.invars]


# Calls, also of functions with derivatives of their own: those rules don't run, so they aren't walked.


@FORWARD.register(Calling)
@BACKWARD.register(Calling)
def _calling(primitive: Calling, walk: Walk[T], eqn: Eqn, facts: Sequence[T]) -> Sequence[T]:
    return walk.apply(primitive.jaxpr, facts)


def _custom(primitive: CustomCall, walk: Walk[T], eqn: Eqn, facts: Sequence[T]) -> Sequence[T]:
    return walk.apply(primitive.jaxpr, facts)


FORWARD[CustomJvp] = BACKWARD[CustomJvp] = _custom
FORWARD[CustomVjp] = BACKWARD[CustomVjp] = _custom
FORWARD[MappedCustom] = BACKWARD[MappedCustom] = _custom

# Branches.


@FORWARD.register(Cond)
def _cond(primitive: Cond, walk: Walk[T], eqn: Eqn, facts: Sequence[T]) -> Sequence[T]:
    index, *operands = facts
    lattice, last = walk.lattice, len(primitive.branches) - 1
    known = lattice.known(index)
    if known is not None:
        branch = min(max(int(np.asarray(known.data)), 0), last)
        return walk.apply(primitive.branches[branch], operands, branch)
    results = [walk.apply(branch, operands, i) for i, branch in enumerate(primitive.branches)]
    joined = _joined(walk, eqn.outvars, results)
    if last == 0:
        return joined
    passed = [passed_on(primitive, i) is not None for i in range(len(eqn.outvars))]
    return [fact if same else lattice.influenced(fact, index) for fact, same in zip(joined, passed, strict=True)]


def _joined(walk: Walk[T], atoms: Sequence[Atom], found: Sequence[Sequence[T]]) -> list[T]:
    """For each of the atoms, what covers all that was found about it."""
    return [walk.lattice.join_all(atom.aval, [facts[i] for facts in found]) for i, atom in enumerate(atoms)]


def passed_on(primitive: Cond, position: int) -> int | Literal | None:
    """The operand, counted without the index, or the literal that every branch returns at this position."""
    outs = {_passed(branch, position) for branch in primitive.branches}
    return outs.pop() if len(outs) == 1 else None


def _passed(jaxpr: Jaxpr, position: int) -> int | Literal | None:
    """The input, or the literal, that a program returns at this position as it is."""
    out = jaxpr.outvars[position]
    if isinstance(out, Literal):
        return out
    return out.index if out.index < len(jaxpr.invars) else None


@BACKWARD.register(Cond)
def _cond_backward(primitive: Cond, walk: Walk[T], eqn: Eqn, facts: Sequence[T]) -> Sequence[T]:
    lattice, (index, *operands) = walk.lattice, eqn.invars
    found = [walk.apply(branch, facts, i) for i, branch in enumerate(primitive.branches)]
    joined = _joined(walk, operands, found)
    chosen = [fact for i, fact in enumerate(facts) if passed_on(primitive, i) is None]
    return [lattice.decision(index.aval, chosen, primitive.effects), *joined]


# Loops.


@FORWARD.register(While)
def _while(primitive: While, walk: Walk[T], eqn: Eqn, facts: Sequence[T]) -> Sequence[T]:
    lattice = walk.lattice
    cond_consts, body_consts, carry = primitive.operands(facts)
    unchanged = [_passed(primitive.body_jaxpr, i) == primitive.body_nconsts + i for i in range(len(carry))]
    rounds = 0
    while True:
        (going_on,) = walk.apply(primitive.cond_jaxpr, [*cond_consts, *carry], 0)
        known = lattice.known(going_on)
        if rounds == 0 and known is not None and not np.asarray(known.data):
            break
        after = walk.apply(primitive.body_jaxpr, [*body_consts, *carry], 1)
        changed = [
            # Whether there is another iteration decides between the two.
            before if same else lattice.influenced(lattice.join(before, fact), going_on)
            for before, fact, same in zip(carry, after, unchanged, strict=True)
        ]
        settled = walk.settle(eqn, carry, changed, rounds)
        if settled == list(carry):
            break
        carry, rounds = settled, rounds + 1
    return carry


@BACKWARD.register(While)
def _while_backward(primitive: While, walk: Walk[T], eqn: Eqn, facts: Sequence[T]) -> Sequence[T]:
    lattice, carry = walk.lattice, list(facts)
    (predicate,) = primitive.cond_jaxpr.out_avals
    unchanged = [_passed(primitive.body_jaxpr, i) == primitive.body_nconsts + i for i in range(len(carry))]
    rounds = 0
    while True:
        decided = [fact for fact, same in zip(carry, unchanged, strict=True) if not same]
        decision = lattice.decision(predicate, decided, primitive.effects)
        tested = walk.apply(primitive.cond_jaxpr, [decision], 0)
        before = walk.apply(primitive.body_jaxpr, carry, 1)
        n, m = primitive.cond_nconsts, primitive.body_nconsts
        settled = walk.settle(eqn, carry, list(map(lattice.join, tested[n:], before[m:])), rounds)
        if settled == carry:
            return [*tested[:n], *before[:m], *carry]
        carry, rounds = settled, rounds + 1


@FORWARD.register(Scan)
def _scan(primitive: Scan, walk: Walk[T], eqn: Eqn, facts: Sequence[T]) -> Sequence[T]:
    lattice = walk.lattice
    consts, carry, xs = primitive.operands(facts)
    stacks = eqn.outvars[primitive.num_carry :]
    if primitive.length == 0:
        rows = primitive.results(primitive.jaxpr.out_avals)[1]
        empty = [lattice.stacked(lattice.bottom(row), var.aval) for row, var in zip(rows, stacks, strict=True)]
        return [*carry, *empty]
    slices = primitive.operands(primitive.jaxpr.in_avals)[2]
    elements = list(map(lattice.element, xs, slices))
    rounds = 0
    while True:
        after, ys = primitive.results(walk.apply(primitive.jaxpr, [*consts, *carry, *elements]))
        settled = walk.settle(eqn, carry, after, rounds)
        if settled == list(carry) or primitive.length == 1:
            return [*after, *(lattice.stacked(y, var.aval) for y, var in zip(ys, stacks, strict=True))]
        carry, rounds = settled, rounds + 1


@BACKWARD.register(Scan)
def _scan_backward(primitive: Scan, walk: Walk[T], eqn: Eqn, facts: Sequence[T]) -> Sequence[T]:
    lattice = walk.lattice
    carry, ys = primitive.results(facts)
    consts, _, arrays = primitive.operands(eqn.invars)
    if primitive.length == 0:
        return [
            *(lattice.bottom(atom.aval) for atom in consts),
            *carry,
            *(lattice.bottom(atom.aval) for atom in arrays),
        ]
    slices = primitive.results(primitive.jaxpr.out_avals)[1]
    elements = list(map(lattice.element, ys, slices))
    rounds = 0
    while True:
        read, before, xs = primitive.operands(walk.apply(primitive.jaxpr, [*carry, *elements]))
        settled = walk.settle(eqn, carry, before, rounds)
        if settled == list(carry) or primitive.length == 1:
            return [*read, *before, *(lattice.stacked(x, atom.aval) for x, atom in zip(xs, arrays, strict=True))]
        carry, rounds = settled, rounds + 1
