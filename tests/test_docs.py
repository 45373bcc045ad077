"""Every Python block of the README and of the pages in docs is run, in order, one page at a time.

A block marked `text` is what the block before it prints; `pytest --update-golden` writes it.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(page: Path) -> str:
    """The page, with the output of each block as it is now."""
    source = page.read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "__docs__"}
    printed: str | None = None
    pieces: list[str] = []
    end = 0
    for match in BLOCK.finditer(source):
        language, text = match.groups()
        if language == "python":
            output = io.StringIO()
            line = source[: match.start()].count("\n") + 1
            with contextlib.redirect_stdout(output):
                exec(compile("\n" * line + text, page.name, "exec"), namespace)
            printed = output.getvalue()
        elif language == "text":
            assert printed is not None, f"{page.name}: output without a block that prints it"
            pieces += [source[end : match.start(2)], "".join(f"{row.rstrip()}\n" for row in printed.splitlines())]
            end = match.end(2)
            printed = None
    return "".join([*pieces, source[end:]])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.chdir(ROOT)
    found = run_page(page)
    if request.config.getoption("--update-golden"):
        page.write_text(found, encoding="utf-8")
    assert found == page.read_text(encoding="utf-8"), "if the new output is right, `pytest --update-golden` writes it"
