"""Every Python block of the README and of the pages in docs is run, in order, one page at a time.

A block marked `text` is what the block before it prints; `pytest --update-golden` writes it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
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


#: Paths of files, and names with a package of the library in front.
FILE = re.compile(r"`((?:\w+/)+\w+\.(?:py|md|txt))`")
PACKAGES = "|".join(path.name.removesuffix(".py") for path in (ROOT / "src/tinyjax").iterdir() if path.name[0] != "_")
DOTTED = re.compile(rf"`(?:tinyjax\.)?((?:{PACKAGES})(?:\.\w+)+)[`(]")


def exists(name: str) -> bool:
    """Whether a dotted name is that of a module, or of something in one."""
    *parents, last = ("tinyjax." + name).split(".")
    try:
        found: object = importlib.import_module(".".join(parents))
    except ModuleNotFoundError:
        return exists(".".join(parents[1:]))  # an attribute of a class
    if hasattr(found, last):
        return True
    return importlib.util.find_spec(".".join([*parents, last])) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_pages_name_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    bases = (ROOT, ROOT / "src", ROOT / "src/tinyjax", ROOT / "docs", page.parent)
    assert not [path for path in FILE.findall(text) if not any((base / path).exists() for base in bases)]
    assert not [name for name in DOTTED.findall(text) if not exists(name)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.chdir(ROOT)
    found = run_page(page)
    if request.config.getoption("--update-golden"):
        page.write_text(found, encoding="utf-8")
    assert found == page.read_text(encoding="utf-8"), "if the new output is right, `pytest --update-golden` writes it"
