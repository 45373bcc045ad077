"""Every Python block of the README and of the pages in docs is run, in order, one page at a time.

A block that is followed by a block marked `text` prints exactly that.
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    namespace: dict[str, object] = {"__name__": "__docs__"}
    printed: str | None = None
    for match in BLOCK.finditer(page.read_text()):
        language, text = match.groups()
        line = page.read_text()[: match.start()].count("\n") + 1
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile("\n" * line + text, str(page), "exec"), namespace)
            printed = output.getvalue()
        elif language == "text":
            assert printed is not None, f"{page.name}:{line}: output without a block that prints it"
            assert printed.strip() == text.strip(), f"{page.name}:{line}"
            printed = None
