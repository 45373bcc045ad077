"""What was measured, as a table and as JSON."""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Iterable
from importlib.metadata import version

import jax
from rich.console import Console
from rich.table import Table

import tinyjax
from benchmarks.timing import Comparison


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _row(found: Comparison) -> tuple[str, ...]:
    quartiles = found.quartiles
    return (
        found.name,
        _figure(found.per_unit(found.ours)),
        _figure(found.per_unit(found.theirs)),
        "" if found.ratio is None else f"{found.ratio:.2f}",
        "" if quartiles is None else f"{quartiles[0]:.2f}, {quartiles[1]:.2f}",
    )


class Report:
    """A table that grows group by group, printed as each group ends, and everything together for JSON."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._found: list[Comparison] = []

    def add(self, group: Iterable[Comparison]) -> None:
        """Runs measures, and prints their table."""
        tables: dict[str, Table] = {}
        for found in group:
            self._found.append(found)
            table = tables.get(found.group)
            if table is None:
                table = tables[found.group] = Table(
                    found.group,
                    f"tinyjax, {found.unit}",
                    f"jax, {found.unit}",
                    "ratio",
                    "quartiles",
                    title_justify="left",
                )
                for column in table.columns[1:]:
                    column.justify = "right"
            table.add_row(*_row(found))
        for table in tables.values():
            self._console.print(table)

    def as_markdown(self) -> str:
        """All figures, as tables of a page: one for each group, in the order in which they were measured."""
        groups: dict[tuple[str, str], list[Comparison]] = {}
        for found in self._found:
            groups.setdefault((found.group, found.unit), []).append(found)
        tables: list[str] = []
        for (group, unit), measures in groups.items():
            head = group if unit in group else f"{group}, {unit}"
            lines = [f"| {head} | tinyjax | jax | ratio | quartiles |", "| --- | ---: | ---: | ---: | --- |"]
            lines += [f"| {' | '.join(_row(found))} |" for found in measures]
            tables.append("\n".join(lines) + "\n")
        return "\n".join(tables)

    def as_json(self) -> str:
        """All figures, each round's too, and what they were measured with."""
        return json.dumps(
            {
                "machine": {
                    "python": platform.python_version(),
                    "processor": platform.processor() or platform.machine(),
                    "jax": jax.__version__,
                    "jaxlib": version("jaxlib"),
                    "tinyjax": tinyjax.__version__,
                    "device": str(jax.devices()[0]),
                },
                "measures": [
                    {
                        "group": found.group,
                        "name": found.name,
                        "unit": found.unit,
                        "units": found.units,
                        "ours": found.ours,
                        "theirs": found.theirs,
                        "ratio": found.ratio,
                        "median": statistics.median(found.ours),
                    }
                    for found in self._found
                ],
            },
            indent=1,
        )
