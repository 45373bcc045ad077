"""What pages quote of the library is what stands in it.

A quotation is a block marked `py`, under a line that says what it is: "`JvpContext.bind`, in `contexts/jvp.py`:".
It is the definition without its decorators; `pytest --update-golden` writes it.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
QUOTATION: Final = re.compile(r"^(`([\w.]+)`, in `([\w/]+\.py)`:\n\n```py\n)(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES: Final = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "```py\n" in page.read_text(encoding="utf-8")]


def definition(path: Path, name: str) -> str:
    """The source of a function or class, found by its qualified name."""
    source = path.read_text(encoding="utf-8")
    found: ast.AST = ast.parse(source)
    for part in name.split("."):
        found = next(
            node
            for node in ast.iter_child_nodes(found)
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == part
        )
    assert isinstance(found, ast.FunctionDef | ast.ClassDef)
    assert found.end_lineno is not None
    lines = source.splitlines(keepends=True)[found.lineno - 1 : found.end_lineno]
    return textwrap.dedent("".join(lines))


def quoted(page: str) -> str:
    """The page, with its quotations as the library has them now."""
    return QUOTATION.sub(lambda match: f"{match[1]}{definition(ROOT / 'src/tinyjax' / match[3], match[2])}```", page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_quotations(page: Path, request: pytest.FixtureRequest) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(QUOTATION.findall(text)) == text.count("```py\n"), "a quotation says what it is, and where"
    current = quoted(text)
    if request.config.getoption("--update-golden"):
        page.write_text(current, encoding="utf-8")
    assert current == page.read_text(encoding="utf-8"), (
        "the source has changed; `pytest --update-golden` quotes it anew"
    )
