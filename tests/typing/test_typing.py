"""What the type checkers say of the programs beside this file, line by line, and of the blocks of README and docs.

The programs are texts, so that nothing else checks or runs them. `# E: text` says that both checkers must report an
error on this line, and what mypy's must contain; `# R: type` which type mypy reveals. To pyright, no type that is
revealed may be unknown, nor have an Any in it where mypy's has none. In the blocks nothing may be wrong.

Each checker runs once, over all of it: so there is one test for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.typing.checkers import ROOT, Reports, reports
from tests.typing.pages import write_blocks

FOLDER: Final = Path(__file__).parent
SNIPPETS: Final = sorted(path.name.removesuffix(".py.txt") for path in FOLDER.glob("*.py.txt"))
#: How strict pyright is, where it isn't as strict as it can be: what is wrong must be wrong for everyone.
MODES: Final = {"lambdas": "basic", "rejected": "standard"}
EXPECTATION: Final = re.compile(r"  # (?P<kind>[ER]): (?P<text>.*)$")


@pytest.mark.sweep
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_programs_and_pages(checker: str, tmp_path: Path) -> None:
    for name in SNIPPETS:
        mode = f"# pyright: {MODES.get(name, 'strict')}\n# pyright: reportImplicitOverride=true\n"
        (tmp_path / f"{name}.py").write_text((FOLDER / f"{name}.py.txt").read_text() + mode)
    blocks = list(write_blocks(tmp_path))
    assert len(blocks) > 100
    found = reports(checker, [*(tmp_path / f"{name}.py" for name in SNIPPETS), *(path for _, path in blocks)])
    problems = [f"tests/typing/{name}.py.txt:{text}" for name in SNIPPETS for text in in_program(checker, name, found)]
    for page, path in blocks:
        wrong = [(line, text) for (stem, line), said in found.items() if stem == path.stem for _, text in said]
        problems += [f"{page.relative_to(ROOT)}:{line}: {text}" for line, text in wrong]
    assert not problems, f"{checker}:\n" + "\n".join(problems)


def in_program(checker: str, name: str, found: Reports) -> Iterator[str]:
    """What is not as a program says, each with its line."""
    for number, line in enumerate((FOLDER / f"{name}.py.txt").read_text().splitlines(), 1):
        said = found.get((name, number), [])
        errors = [text for kind, text in said if kind == "error"]
        revealed = [text for kind, text in said if kind == "type"]
        expected = EXPECTATION.search(line)
        if expected is None:
            yield from (f"{number}: unexpected: {text}" for text in errors)
        elif expected["kind"] == "R":
            if len(revealed) != 1 or not agrees(checker, revealed[0], expected["text"]) or errors:
                yield f"{number}: expected {expected['text']!r}, found {revealed} {errors}"
        elif not errors or (checker == "mypy" and not any(p in e for e in errors for p in expected["text"].split("|"))):
            yield f"{number}: expected an error with {expected['text']!r}, found {errors}"


def agrees(checker: str, revealed: str, expected: str) -> bool:
    if checker == "mypy":
        return revealed == expected
    return "Unknown" not in revealed and ("Any" not in revealed or "Any" in expected)
