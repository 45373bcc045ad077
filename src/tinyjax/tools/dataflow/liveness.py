"""Liveness: which values are needed, and how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import final

from attrs import frozen
from typing_extensions import override

from tinyjax.errors import DataflowError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import Effects, must_stay
from tinyjax.ir.holding import AnyProgram, checked_jaxpr
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.display import Block
from tinyjax.ir.printing.shown import Shown
from tinyjax.ir.program import Eqn, Jaxpr, Var
from tinyjax.tools.dataflow.engine import Flow, Rules, Walk, backward
from tinyjax.tools.dataflow.lattice import Lattice
from tinyjax.tools.dataflow.structure import backward_rules


@final
class Needed(Lattice[bool]):
    """Whether a result, or an effect, may depend on a value."""

    @override
    def bottom(self, aval: ShapedArray) -> bool:
        return False

    @override
    def join(self, first: bool, second: bool) -> bool:
        return first or second

    @override
    def decision(self, aval: ShapedArray, facts: Sequence[bool], effects: Effects) -> bool:
        return any(facts) or must_stay(effects)


#: Which operands are needed, where these results are.
LIVENESS_RULES: Rules[bool] = backward_rules("Liveness", name="tinyjax.tools.dataflow.LIVENESS_RULES")


@LIVENESS_RULES.register(Primitive)
def _all_operands(primitive: Primitive, walk: Walk[bool], eqn: Eqn, needed: Sequence[bool]) -> Sequence[bool]:
    return [any(needed) or must_stay(primitive.effects)] * len(eqn.invars)


@final
@frozen(eq=False, repr=False)
class Liveness(Shown):
    """Which values of a program are needed, and for how long.

    `needed` says it of each variable, in the order of `Var.index`: whether a result that is wanted, or an effect, may
    depend on it. An equation runs if one of its results is needed, or if it has an effect that must stay.
    """

    flow: Flow[bool]

    @property
    def jaxpr(self) -> Jaxpr:
        return self.flow.jaxpr

    @property
    def needed(self) -> tuple[bool, ...]:
        return self.flow.facts

    @cached_property
    def runs(self) -> tuple[bool, ...]:
        """For each equation, whether it has to run."""
        needed = self.flow.facts
        return tuple(any(needed[var.index] for var in eqn.outvars) or must_stay(eqn.effects) for eqn in self.jaxpr.eqns)

    @cached_property
    def last_use(self) -> tuple[int | None, ...]:
        """For each variable that is needed, the position of the last equation that runs and reads it.

        The number of equations if it is an output that is wanted. None if it isn't needed: an equation that runs may
        still have it as an operand, such as a branch that ignores it, but will do with any value.
        """
        found = last_uses(self.jaxpr, self.runs, self.flow.outs)
        return tuple(at if needed else None for at, needed in zip(found, self.needed, strict=True))

    @cached_property
    def freed(self) -> tuple[tuple[Var, ...], ...]:
        """For each equation that runs, the variables that die with it: it is the last to read them, or it makes them
        and nothing reads them. Inputs that nothing reads die with no equation."""
        lists: list[list[Var]] = [[] for _ in self.jaxpr.eqns]
        last = self.last_use
        for var in self.jaxpr.invars:
            at = last[var.index]
            if at is not None and at < len(lists):
                lists[at].append(var)
        for position, eqn in enumerate(self.jaxpr.eqns):
            for var in eqn.outvars if self.runs[position] else ():
                at = last[var.index]
                at = position if at is None else at
                if at < len(lists):
                    lists[at].append(var)
        return tuple(map(tuple, lists))

    def live_after(self, position: int) -> tuple[Var, ...]:
        """The variables whose values must still be there after the equation at a position; -1: before the first one.

        Takes time in proportion to the program. To go over all equations, keep a set, and take out `freed`.
        """
        if not -1 <= position < len(self.jaxpr.eqns):
            raise DataflowError(f"the program has {len(self.jaxpr.eqns)} equations, so none at position {position}")
        bound = [*self.jaxpr.invars, *(var for eqn in self.jaxpr.eqns[: position + 1] for var in eqn.outvars)]
        last = self.last_use
        return tuple([var for var in bound if (last[var.index] or 0) > position and last[var.index] is not None])

    @override
    def _blocks(self) -> Iterator[Block]:
        from tinyjax.tools.dataflow.display import flow_blocks

        yield from flow_blocks(self.flow, "needed", lambda _, needed: "yes" if needed else "no")

    def within(self, position: int) -> Mapping[int, Liveness]:
        """The same for the programs of an equation; see `Flow.within`."""
        return {number: Liveness(flow) for number, flow in self.flow.within(position).items()}


def last_uses(
    jaxpr: Jaxpr, runs: Sequence[bool] | None = None, wanted: Sequence[bool] | None = None
) -> tuple[int | None, ...]:
    """For each variable, the position of the last equation that reads it; the number of equations for an output; None
    if nothing reads it. `runs` marks the equations that count, and `wanted` the outputs: by default all do."""
    found: list[int | None] = [None] * (len(jaxpr.invars) + sum(len(eqn.outvars) for eqn in jaxpr.eqns))
    for position, eqn in enumerate(jaxpr.eqns):
        if runs is None or runs[position]:
            for atom in eqn.invars:
                if isinstance(atom, Var):
                    found[atom.index] = position
    for i, atom in enumerate(jaxpr.outvars):
        if isinstance(atom, Var) and (wanted is None or wanted[i]):
            found[atom.index] = len(jaxpr.eqns)
    return tuple(found)


def liveness(program: AnyProgram, wanted: Sequence[bool] | None = None) -> Liveness:
    """Which values of a program are needed, and when each is read last. `wanted` marks outputs; by default all are.

    { lambda ; a:f64[]. let b:f64[] = sin a; c:f64[] = cos a; d:f64[] = mul b a in (d,) }
    needed      a, b, d
    last use    a: mul, b: mul, c: nothing, d: output

    Looks through loops: a carry that only serves to compute itself isn't needed.

    >>> from tinyjax import make_jaxpr, numpy as tnp
    >>> found = liveness(make_jaxpr(lambda x: (tnp.cos(x), tnp.sin(x) * x))(2.0), [False, True])
    >>> found.needed, found.last_use
    ((True, False, True, True), (2, None, 2, 3))
    """
    jaxpr = checked_jaxpr(program, "liveness")
    marks = (True,) * len(jaxpr.outvars) if wanted is None else tuple(map(bool, wanted))
    return Liveness(backward(jaxpr, Needed(), LIVENESS_RULES, marks))
