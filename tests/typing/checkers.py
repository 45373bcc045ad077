"""The two type checkers that users of a typed library run, and what they report: by program and line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent.parent
_MYPY_LINE: Final = re.compile(r"^(?P<file>[^:]*):(?P<line>\d+): (?P<kind>error|note): (?P<text>.*)$")
_REVEALED: Final = {
    "mypy": re.compile(r'^Revealed type is "(?P<type>.*)"$'),
    "pyright": re.compile(r'^Type of "(?:.|\n)*" is "(?P<type>.*)"$'),
}

#: By program (its file's stem) and line: errors, and types that are revealed.
Reports = dict[tuple[str, int], list[tuple[str, str]]]


def reports(checker: str, programs: Sequence[Path]) -> Reports:
    """What a checker, as strict as it can be, says of programs: pairs of "error" or "type" and a text."""
    found: Reports = defaultdict(list)
    for stem, line, kind, text in (_mypy if checker == "mypy" else _pyright)(programs):
        revealed = _REVEALED[checker].match(text)
        if revealed is not None:
            found[stem, line].append(("type", _short(revealed["type"])))
        elif kind == "error":
            found[stem, line].append(("error", text))
    return found


def _mypy(programs: Sequence[Path]) -> list[tuple[str, int, str, str]]:
    from mypy import api

    options = ["--config-file", str(ROOT / "mypy.ini"), "--cache-dir", str(ROOT / ".mypy_cache")]
    options += ["--no-error-summary", "--hide-error-context", "--no-pretty"]
    output, errors, _ = api.run([*options, *map(str, programs)])
    assert errors == ""
    found = []
    for line in output.splitlines():
        match = _MYPY_LINE.match(line)
        assert match is not None, line
        found.append((Path(match["file"]).stem, int(match["line"]), match["kind"], match["text"]))
    return found


def _pyright(programs: Sequence[Path]) -> list[tuple[str, int, str, str]]:
    (folder,) = {program.parent for program in programs}
    options = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(options))
    report = run_pyright("--project", str(folder), *map(str, programs))
    return [
        (Path(entry["file"]).stem, entry["range"]["start"]["line"] + 1, entry["severity"], entry["message"])
        for entry in report["generalDiagnostics"]
    ]


def run_pyright(*arguments: str) -> Any:  # its report, as its documentation describes it
    """Pyright's report. It finds this library as it finds one that is installed: by the path of this interpreter."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.stdout.startswith("{"), result.stdout + result.stderr
    return json.loads(result.stdout)


def _short(revealed: str) -> str:
    """A type without the names of modules."""
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", revealed)
