"""What analyses found out, as tables: a row for each variable, those of programs within after their equation's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from tinyjax.ir.printing.display import MOST, Block, table
from tinyjax.ir.printing.printer import variable_names
from tinyjax.tools.dataflow.engine import Flow
from tinyjax.tools.dataflow.lattice import T


def flow_blocks(flow: Flow[T], fact: str, spell: Callable[[Flow[T], T], str]) -> Iterator[Block]:
    """A table of the facts about all variables; `fact` is its head, and `spell` says one in words."""
    yield from table(("variable", "type", "made by", fact), list(islice(_rows(flow, spell), 2 * MOST)))


def _rows(outermost: Flow[T], spell: Callable[[Flow[T], T], str]) -> Iterator[tuple[str, str, str, str]]:
    pending: list[tuple[str, Flow[T], int]] = [("", outermost, -1)]
    while pending:
        indent, flow, position = pending.pop()
        jaxpr = flow.jaxpr
        if position == len(jaxpr.eqns):
            continue
        made, by = (jaxpr.invars, "input") if position < 0 else (jaxpr.eqns[position].outvars, "")
        by = by or jaxpr.eqns[position].primitive.name
        names = variable_names(jaxpr)
        for var in made:
            yield f"{indent}{names[var.index]}", str(var.aval), by, spell(flow, flow.of(var))
        pending.append((indent, flow, position + 1))
        if position >= 0:
            inner = [(indent + "  ", within, -1) for within in flow.within(position).values()]
            pending += reversed(inner)
