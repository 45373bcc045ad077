"""`python -m benchmarks [--quick]` prints median ratios against jax. It fails on other results, never on a time."""

from __future__ import annotations

import argparse
from itertools import chain

import jax
from rich.console import Console
from rich.table import Table

from benchmarks.measures import importing, running, staging


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter programs and fewer rounds")
    quick = parser.parse_args().quick
    jax.config.update("jax_enable_x64", True)
    rounds, equations = (3, 300) if quick else (9, 3000)
    table = Table("measure", "tinyjax, µs a unit", "jax, µs a unit", "ratio", "from", "to")
    console = Console()
    for found in chain(staging(equations, rounds), running(rounds), importing(min(rounds, 5))):
        table.add_row(
            found.name,
            f"{found.per_unit(found.ours):.1f}",
            f"{found.per_unit(found.theirs):.1f}",
            f"{found.ratio:.2f}",
            f"{min(found.ratios):.2f}",
            f"{max(found.ratios):.2f}",
        )
    console.print(table)


if __name__ == "__main__":
    main()
