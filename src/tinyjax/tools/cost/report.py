"""The report of what a program costs."""

from __future__ import annotations

from typing import final

from attrs import frozen
from typing_extensions import override

from tinyjax.ir.printing.display import Picture, page
from tinyjax.ir.program import Jaxpr
from tinyjax.tools.cost.memory import LiveMemory, total_bytes
from tinyjax.tools.cost.records import (
    Choice,
    EquationCost,
    Expense,
    LineCost,
    Loop,
    ProgramCost,
    Unknown,
)


@final
@frozen(eq=False, repr=False)
class CostReport:
    """What a program costs.

    `equations` are those of the program itself, each with all that is within it. `programs` are the distinct programs
    within, with how often each runs and its equations. `lines` adds up by line of user code, most expensive first.
    `total` is for one run. Its unknowns are the iterations of `loops`. What primitives in `unknown` cost isn't counted.
    Where a predicate isn't known, `choices` says which branch was counted. `memory` is what is alive when.
    """

    jaxpr: Jaxpr
    equations: tuple[EquationCost, ...]
    programs: tuple[ProgramCost, ...]
    lines: tuple[LineCost, ...]
    total: Expense
    loops: tuple[Loop, ...]
    unknown: tuple[Unknown, ...]
    choices: tuple[Choice, ...]
    memory: LiveMemory

    @property
    def complete(self) -> bool:
        """Whether `total.fixed` is all that the program costs: no loop is open, and no primitive unknown."""
        return self.total.known and not self.unknown

    @property
    def traffic(self) -> int:
        """The bytes of the program's inputs and outputs: what is moved at least, if everything else stays in cache."""
        return total_bytes(self.jaxpr.invars) + total_bytes(self.jaxpr.outvars)

    def table(self, *, most: int | None = 20) -> str:
        """The report as plain text; of equations and of lines, the `most` most expensive ones (None: all)."""
        from tinyjax.tools.cost.table import table

        return table(self, most)

    @override
    def __str__(self) -> str:
        return self.table()

    @override
    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        from tinyjax.tools.cost.table import blocks
        from tinyjax.tools.memory_plots import memory_plot

        plot = [Picture(memory_plot(self.memory))] if self.equations else []
        return page(block.html for block in (*blocks(self, 20), *plot))
