"""Equations that hide layers, as others that show them: loops over time, and conditionals about all tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tinyjax.ir.primitive import Primitive
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
    return _with_programs(jaxpr, PARTING)


def stacked_loops(jaxpr: Jaxpr) -> Jaxpr:
    """The program with the stacks made outside of its loops that these make of their operands in each iteration.

    A step may be a loop over time, or over parts of a batch, with the weights of all layers as operands. Stacks of them
    make it have one size, and what follows from its results loops over rows.
    """
    return _with_programs(jaxpr, STACKING)


def _with_programs(jaxpr: Jaxpr, table: RuleTable[[], Jaxpr | None]) -> Jaxpr:
    """The program with others in the place of what a table has rules for."""
    instead: dict[int, Jaxpr] = {}  # by the identity of primitives, which the program keeps alive
    for primitive in _with_rules(jaxpr, table):
        found = table.apply(primitive)
        if found is not None:
            instead[id(primitive)] = found
    if not instead:
        return jaxpr

    def change(ctx: Rebuilding, eqn: Eqn, now: Callable[[Atom], Atom]) -> Sequence[Atom] | None:
        found = instead.get(id(eqn.primitive))
        return None if found is None else ctx.applied(found, tuple(map(now, eqn.invars)), eqn.source)

    return rewritten(jaxpr, change)


def loop_bodies(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The programs that equations hold to which stacks may be handed that are made outside."""
    for primitive in _with_rules(jaxpr, STACKING):
        yield from subjaxprs(primitive)


def _with_rules(jaxpr: Jaxpr, table: RuleTable[[], Jaxpr | None]) -> Sequence[Primitive]:
    """The primitives that hold programs and for which a table has a rule, each once."""
    if not jaxpr.inner:
        return ()
    classes = {cls for cls in {type(eqn.primitive) for eqn in jaxpr.eqns} if cls in table}
    found = {id(eqn.primitive): eqn.primitive for eqn in jaxpr.eqns if type(eqn.primitive) in classes}
    return [primitive for primitive in found.values() if holds_programs(primitive)]
