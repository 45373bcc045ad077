"""What the type checkers say of the programs beside this file, line by line.

The programs are texts, so that nothing else checks or runs them. `# E: text` says that both checkers must report an
error on this line, and what mypy's must contain; `# R: type` which type mypy reveals. To pyright, no type that is
revealed may be unknown, nor have an Any in it where mypy's has none.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.typing.checkers import Reports, reports

FOLDER: Final = Path(__file__).parent
SNIPPETS: Final = sorted(path.name.removesuffix(".py.txt") for path in FOLDER.glob("*.py.txt"))
#: How strict pyright is, where it isn't as strict as it can be: what is wrong must be wrong for everyone.
MODES: Final = {"lambdas": "basic", "rejected": "standard"}
CHECKERS: Final = ["mypy", "pyright"]
EXPECTATION: Final = re.compile(r"  # (?P<kind>[ER]): (?P<text>.*)$")


@pytest.fixture(scope="module", params=CHECKERS)
def checked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Reports]:
    """A checker, and what it reports by program and line."""
    checker: str = request.param
    folder = tmp_path_factory.mktemp("typing")
    for name in SNIPPETS:
        mode = f"# pyright: {MODES.get(name, 'strict')}\n# pyright: reportImplicitOverride=true\n"
        (folder / f"{name}.py").write_text((FOLDER / f"{name}.py.txt").read_text() + mode)
    return checker, reports(checker, [folder / f"{name}.py" for name in SNIPPETS])


@pytest.mark.parametrize("name", SNIPPETS)
def test_line_by_line(name: str, checked: tuple[str, Reports]) -> None:
    checker, found = checked
    problems: list[str] = []
    for number, line in enumerate((FOLDER / f"{name}.py.txt").read_text().splitlines(), 1):
        said = found.get((name, number), [])
        errors = [text for kind, text in said if kind == "error"]
        revealed = [text for kind, text in said if kind == "type"]
        expected = EXPECTATION.search(line)
        if expected is None:
            problems += [f"line {number}: unexpected: {text}" for text in errors]
        elif expected["kind"] == "R":
            if len(revealed) != 1 or not agrees(checker, revealed[0], expected["text"]) or errors:
                problems.append(f"line {number}: expected {expected['text']!r}, found {revealed} {errors}")
        elif not errors or (checker == "mypy" and not any(p in e for e in errors for p in expected["text"].split("|"))):
            problems.append(f"line {number}: expected an error with {expected['text']!r}, found {errors}")
    assert not problems, f"{checker}:\n" + "\n".join(problems)


def agrees(checker: str, revealed: str, expected: str) -> bool:
    if checker == "mypy":
        return revealed == expected
    return "Unknown" not in revealed and ("Any" not in revealed or "Any" in expected)
