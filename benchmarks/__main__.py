"""`python -m benchmarks [--quick] [--only GROUP] [--json FILE] [--markdown FILE]` prints ratios of our time to jax's.

Each measure runs both in turn, in one process, on the same work. It fails where results differ, and never on a time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

import jax
from rich.console import Console

from benchmarks.closing import closing
from benchmarks.coldstart import cold_start
from benchmarks.depth import depth
from benchmarks.imported import IMPORTED, imported
from benchmarks.parallel import parallel
from benchmarks.report import Report
from benchmarks.running import calling, compiling, eager, importing
from benchmarks.staging import memory, scaling, staging
from benchmarks.timing import Comparison

QUICK: dict[str, tuple[int, ...]] = {"chain": (300,), "mixed": (300,), "nested calls": (300,), "scans": (110,)}
FULL: dict[str, tuple[int, ...]] = {
    "chain": (100, 1_000, 10_000, 100_000),
    "mixed": (100, 1_000, 10_000, 100_000),
    "nested calls": (100, 1_000, 10_000),
    "scans": (110, 1_100),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter programs and fewer rounds: a minute or two")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there, as a page has them")
    parser.add_argument("--rounds", type=int, help="how often each measure is taken")
    quick = parser.parse_known_args()[0].quick
    groups: dict[str, Callable[[int], Iterable[Comparison]]] = {
        "staging": lambda rounds: staging(QUICK if quick else FULL, rounds),
        "scaling": lambda rounds: scaling(() if quick else (10_000, 100_000, 1_000_000)),
        "memory": lambda rounds: memory(300 if quick else 10_000),
        "compiling": compiling,
        "closing": closing,
        "imported": lambda rounds: imported(1 if quick else rounds, IMPORTED[:-1] if quick else IMPORTED),
        "depth": lambda rounds: depth((2, 12) if quick else (2, 12, 48, 192), rounds),
        "calling": calling,
        "eager": eager,
        "parallel": parallel,
        "importing": importing,
        "cold-start": cold_start,
    }
    parser.add_argument("--only", choices=groups, action="append", help="some of the groups of measures")
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    rounds = arguments.rounds or (3 if quick else 9)
    report = Report(Console())
    for name in arguments.only or groups:
        report.add(groups[name](rounds))
        if arguments.json is not None:  # after each group: a run that is stopped leaves what it has found
            arguments.json.write_text(report.as_json(), encoding="utf-8")
        if arguments.markdown is not None:
            arguments.markdown.write_text(report.as_markdown(), encoding="utf-8")


if __name__ == "__main__":
    main()
