"""Equations that hide layers, as others that show them: loops over time, and conditionals about all tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from tinyjax.ir.program import Atom, Eqn, Jaxpr
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.traverse import holds_programs, subjaxprs
from tinyjax.transforms.rebuild import Rebuilding, rewritten

#: The program that does what a loop does whose body has loops over layers: with a loop that is given stacks of what is
#: constant, carried and scanned over in it, and returns stacks. None: it stays as it is.
STACKING: Final[RuleTable[[], Jaxpr | None]] = RuleTable("Stacking", name="tinyjax.transforms.STACKING")
#: The program that does what a choice among programs does: with a choice for each of the parts that have nothing to do
#: with each other. None: there is one part, or it stays as it is.
PARTING: Final[RuleTable[[], Jaxpr | None]] = RuleTable("Parting", name="tinyjax.transforms.PARTING")


def parted(jaxpr: Jaxpr) -> Jaxpr:
    """The program with several conditionals in the place of one, where that treats each tensor by itself.

        { lambda ; a:i32[] b:f64[3] c:f64[3]. let d:f64[3] e:f64[3] = cond[branches=…] a b c in (d, e) }
        { lambda ; a:i32[] b:f64[3] c:f64[3]. let d:f64[3] = cond[branches=…] a b; e:f64[3] = cond[branches=…] a c in
            (d, e) }

    A step may be one branch of several, as where it is left out if gradients aren't finite.
    """
    return rewritten(jaxpr, partial(_instead, PARTING)) if jaxpr.inner else jaxpr


def stacked_loops(jaxpr: Jaxpr) -> Jaxpr:
    """The program with the stacks made outside of its loops that these make of their operands in each iteration.

    A step may be a loop over time, or over parts of a batch, with the weights of all layers as operands. Stacks of them
    make it have one size, and what follows from its results loops over rows.
    """
    return rewritten(jaxpr, partial(_instead, STACKING)) if jaxpr.inner else jaxpr


def _instead(
    table: RuleTable[[], Jaxpr | None], ctx: Rebuilding, eqn: Eqn, now: Callable[[Atom], Atom]
) -> Sequence[Atom] | None:
    primitive = eqn.primitive
    rule = table.find(type(primitive))
    found = None if rule is None or not holds_programs(primitive) else rule(primitive)
    return None if found is None else ctx.applied(found, tuple(map(now, eqn.invars)), eqn.source)


def loop_bodies(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The programs that equations hold to which stacks may be handed that are made outside."""
    for eqn in jaxpr.eqns if jaxpr.inner else ():
        if STACKING.find(type(eqn.primitive)) is not None and holds_programs(eqn.primitive):
            yield from subjaxprs(eqn.primitive)
