"""Cells that loops and branches write to: carries of the loop, operands and results of each branch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from attrs import evolve

from tinyjax.contexts.cells import Cell, written
from tinyjax.contexts.recording import renumber
from tinyjax.contexts.staging import stage
from tinyjax.control.carry import rearranged
from tinyjax.errors import RefError
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.interpret import interpret
from tinyjax.lax.bodies import Body
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.programs import Traced

V = TypeVar("V")


def carrying_cells(body: Body, run: Callable[[Body], list[Array]]) -> list[Array]:
    """The leaves of a loop's results: `run` gives them for a body that has no cells, as they are its last carries."""
    traced, cells = body.traced, body.traced.cells
    if not cells:
        return run(body)
    count, n = len(cells), len(body.carry)
    kept = sum(x.aval.dtype != FLOAT0 for x in body.carry)
    inputs, outputs = range(len(traced.jaxpr.invars)), range(len(traced.jaxpr.outvars))
    first = len(traced.captured) + kept
    ins = (*inputs[:first], *inputs[-count:], *inputs[first:-count])
    outs = (*outputs[:kept], *outputs[-count:], *outputs[kept:-count])
    leaves = list(range(traced.treedef.num_leaves + count))
    whole = Traced(
        rearranged(traced.jaxpr, ins, outs),
        traced.captured,
        tree.flatten(leaves)[1],
        {i if i < n else i + count: x for i, x in traced.erased.items()},
    )
    found = run(Body(whole, [*body.carry, *(cell.current() for cell in cells)]))
    for cell, value, mark in zip(cells, found[n : n + count], written(traced.jaxpr, count), strict=True):
        if mark:
            cell.store(value)
    return [*found[:n], *found[n + count :]]


def with_cells(traced: Traced, cells: Sequence[Cell[Array]]) -> Traced:
    """The function with these cells, which are its own and others that it leaves as they are."""
    if tuple(cells) == traced.cells:
        return traced
    jaxpr, own = traced.jaxpr, len(traced.cells)
    first, avals = len(jaxpr.invars) - own, jaxpr.in_avals
    at = [cells.index(cell) for cell in traced.cells]
    ours = {place: i for i, place in enumerate(at)}
    wider = stage(
        [*avals[:first], *(cell.aval for cell in cells)],
        lambda ctx, ins: _spread(
            interpret(ctx, jaxpr, [*ins[:first], *(ins[first + i] for i in at)]), ours, ins[first:], own
        ),
    )
    return evolve(traced, jaxpr=wider.named_by(jaxpr.names), cells=tuple(cells))


def _spread(outs: Sequence[V], ours: Mapping[int, int], before: Sequence[V], own: int) -> list[V]:
    """The results, and what all cells hold: a function's `own` last results are what its cells hold."""
    first = len(outs) - own
    return [*outs[:first], *(outs[first + ours[i]] if i in ours else x for i, x in enumerate(before))]


def without_idle(traced: Traced) -> Traced:
    """The function without the cells that it neither reads nor writes: something in it asked for them in vain."""
    count = len(traced.cells)
    jaxpr, marks = traced.jaxpr, written(traced.jaxpr, count)
    if all(marks):
        return traced
    first, last = len(jaxpr.invars) - count, len(jaxpr.outvars) - count
    used = {*jaxpr.outvars[:last], *(x for eqn in jaxpr.eqns for x in eqn.invars)}
    kept = [i for i, mark in enumerate(marks) if mark or jaxpr.invars[first + i] in used]
    if len(kept) == count:
        return traced
    ins = [*jaxpr.invars[:first], *[jaxpr.invars[first + i] for i in kept]]
    outs = [*jaxpr.outvars[:last], *[jaxpr.outvars[last + i] for i in kept]]
    narrower = renumber(ins, jaxpr.eqns, outs, None).named_by(jaxpr.names)
    return evolve(traced, jaxpr=narrower, cells=tuple([traced.cells[i] for i in kept]))


def same_cells(functions: Sequence[Traced]) -> list[Traced]:
    """The functions, each with the cells of all of them."""
    cells = list(dict.fromkeys(cell for traced in functions for cell in traced.cells))
    return [with_cells(traced, cells) for traced in functions]


def reading_cells(body: Traced, cond: Traced) -> tuple[Traced, Traced]:
    """The body and the condition of a loop, each with the cells of both. A RefError if the condition writes to one."""
    body, cond = same_cells([body, cond])
    if (count := len(cond.cells)) and cond.jaxpr.outvars[-count:] != cond.jaxpr.invars[-count:]:
        raise RefError(
            "the condition of while_loop writes to a Ref, which it can only read. Write to it in the body of the loop."
        )
    outputs = tuple(range(len(cond.jaxpr.outvars) - count))
    return body, evolve(cond, jaxpr=rearranged(cond.jaxpr, None, outputs), cells=()) if count else cond
