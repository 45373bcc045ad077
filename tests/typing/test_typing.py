"""What the type checker says of the programs beside this file, line by line: one run of mypy, with the project's flags.

The programs are texts, so that nothing else checks or runs them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path(__file__).parent
ROOT: Final = FOLDER.parent.parent
SNIPPETS: Final = ["accepted", "rejected"]
EXPECTATION: Final = re.compile(r"  # (?P<kind>[ER]): (?P<text>.*)$")
REPORT: Final = re.compile(r"^(?P<file>[^:]*):(?P<line>\d+): (?P<kind>error|note): (?P<text>.*)$")
REVEALED: Final = re.compile(r'^Revealed type is "(?P<type>.*)"$')

Reports = dict[tuple[str, int], list[tuple[str, str]]]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """What mypy reports, by program and line."""
    from mypy import api

    folder = tmp_path_factory.mktemp("typing")
    for name in SNIPPETS:
        (folder / f"{name}.py").write_text((FOLDER / f"{name}.py.txt").read_text())

    options = ["--config-file", str(ROOT / "mypy.ini"), "--cache-dir", str(ROOT / ".mypy_cache")]
    options += ["--no-error-summary", "--hide-error-context", "--no-pretty"]
    output, errors, _ = api.run([*options, *(str(folder / f"{name}.py") for name in SNIPPETS)])
    assert errors == ""
    found: Reports = defaultdict(list)
    for line in output.splitlines():
        match = REPORT.match(line)
        assert match is not None, line
        found[Path(match["file"]).stem, int(match["line"])].append((match["kind"], match["text"]))
    return found


def short(revealed: str) -> str:
    """A type without the names of modules."""
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", revealed)


@pytest.mark.parametrize("name", SNIPPETS)
def test_line_by_line(name: str, reports: Reports) -> None:
    problems: list[str] = []
    for number, line in enumerate((FOLDER / f"{name}.py.txt").read_text().splitlines(), 1):
        found = reports.get((name, number), [])
        errors = [text for kind, text in found if kind == "error"]
        revealed = [short(match["type"]) for _, text in found if (match := REVEALED.match(text))]
        expected = EXPECTATION.search(line)
        if expected is None:
            problems += [f"line {number}: unexpected: {text}" for text in errors]
        elif expected["kind"] == "R":
            if revealed != [expected["text"]] or errors:
                problems.append(f"line {number}: expected {expected['text']!r}, found {revealed} {errors}")
        elif not any(part in text for text in errors for part in expected["text"].split("|")):
            problems.append(f"line {number}: expected an error with {expected['text']!r}, found {errors}")
    assert not problems, "\n" + "\n".join(problems)
