"""A report of costs as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os.path import basename
from typing import TypeVar

from attrs import evolve

from tinyjax.ir.printing.display import Block, Note, Table
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.source import SourceInfo
from tinyjax.tools.cost.records import Cost, EquationCost, Expense
from tinyjax.tools.cost.report import CostReport

T = TypeVar("T")
_COLUMNS = ("flops", "transcendentals", "bytes")


def _numbers(cost: Cost) -> list[str]:
    return [f"{cost.flops:,}", f"{cost.transcendentals:,}", f"{cost.bytes:,}"]


def _place(source: SourceInfo | None) -> str:
    return "(no line)" if source is None else evolve(source, file=basename(source.file)).location


def _loops(label: str, expense: Expense) -> list[list[str]]:
    """A row for what each iteration of an open loop adds."""
    return [[f"{label}, each iteration {name}", *_numbers(cost), ""] for name, cost in expense.per_iteration]


def _most(items: Sequence[T], costs: Iterable[Expense], most: int | None) -> list[int]:
    """The positions of the most expensive items, in order."""
    weights = [cost.once.weight for cost in costs]
    order = sorted(range(len(items)), key=weights.__getitem__, reverse=True)
    return sorted(order[:most])


def _equation(position: int, equation: EquationCost) -> str:
    outs = " ".join(str(var.aval) for var in equation.eqn.outvars)
    mark = " (in part unknown)" if equation.unknown else ""
    return f"{position} {equation.eqn.primitive.name} -> {outs}"[:60] + mark


def _inputs(jaxpr: Jaxpr, most: int | None) -> Iterator[Block]:
    """The inputs that have names, with their bytes: the `most` largest ones, in order."""
    found = [(name, var.aval) for name, var in zip(jaxpr.input_names, jaxpr.invars, strict=True) if name]
    if not found:
        return
    order = sorted(range(len(found)), key=lambda i: -found[i][1].nbytes)[:most]
    rows = [[f"{found[i][0]} {found[i][1]}", f"{found[i][1].nbytes:,}"] for i in sorted(order)]
    if len(rows) < len(found):
        rows.append([f"({len(found) - len(rows)} more arguments)", ""])
    yield _table(("argument", "bytes"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    return Table(tuple(head), tuple(map(tuple, rows)), numbers=1)


def table(report: CostReport, most: int | None) -> str:
    """The report as text."""
    return "\n\n".join(block.text for block in blocks(report, most))


def blocks(report: CostReport, most: int | None) -> Iterator[Block]:
    """The report: equations, lines, total, memory, and what isn't known."""
    equations, lines, memory = report.equations, report.lines, report.memory
    rows: list[list[str]] = []
    for position in _most(equations, (equation.cost for equation in equations), most):
        equation = equations[position]
        label = _equation(position, equation)
        rows.append([label, *_numbers(equation.cost.fixed), f"{memory.during[position]:,}"])
        rows += _loops("  " + equation.eqn.primitive.name, equation.cost)
    if len(equations) > len(rows) and most is not None:
        rows.append([f"({len(equations) - min(most, len(equations))} more equations)", "", "", "", ""])
    rows.append(["total", *_numbers(report.total.fixed), f"{memory.peak:,} peak"])
    rows += _loops("  total", report.total)
    yield _table(("equation", *_COLUMNS, "live bytes"), rows)
    yield from _inputs(report.jaxpr, most)
    by_line: list[list[str]] = []
    for line in lines[:most]:
        by_line.append([_place(line.source), *_numbers(line.cost.fixed)])
        by_line += [[f"  each iteration {name}", *_numbers(cost)] for name, cost in line.cost.per_iteration]
    if by_line:
        yield _table(("line", *_COLUMNS), by_line)
    notes = [f"{report.traffic:,} bytes of inputs and outputs"]
    notes += [
        f"{loop.name}: the iterations of {loop.eqn.primitive.name} at {_place(loop.source)}, not known"
        for loop in report.loops
    ]
    notes += [
        f"branch {choice.branch} of {choice.branches} of cond at {_place(choice.source)} is counted"
        for choice in report.choices
    ]
    notes += [
        f"unknown: {unknown.primitive}, {unknown.times} times, first at {_place(unknown.source)}: {unknown.reason}"
        for unknown in report.unknown
    ]
    yield Note("\n".join(notes))
