"""The folder that the generator builds the site from.

It holds the pages in docs, those brought in from elsewhere, those that are made, and the configuration that lists them:
plain Markdown, so that any generator that reads this configuration can build it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from website import primitive_index, reference
from website.names import MODULES

ROOT: Final = Path(__file__).parent.parent
#: Files outside of docs that are pages too.
BROUGHT_IN: Final[Mapping[str, str]] = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "license.md",
    "examples/data/README.md": "examples/data.md",
    "examples/digits.py": "examples/digits.md",
    "examples/parallel.py": "examples/parallel.md",
    "examples/optimiser.py": "examples/optimiser.md",
    "examples/mini.py": "examples/mini.md",
    "examples/mini_cond.py": "examples/mini_cond.md",
}
#: What the navigation shows: sections, with pages or pairs of a title and a page.
Navigation: TypeAlias = Mapping[str, tuple[str | tuple[str, str], ...]]
NAVIGATION: Final[Navigation] = {
    "Learning": (
        "one-sitting.md",
        "from-scratch.md",
        "coming-from-jax.md",
        "differences-from-jax.md",
        "names-of-jax.md",
        "architecture.md",
        ("Example: digits", "examples/digits.md"),
        ("Example: digits on several devices", "examples/parallel.md"),
        ("Example: an optimiser of JAX's programs", "examples/optimiser.md"),
        ("Example: the small tinyjax", "examples/mini.md"),
        ("Example: a primitive for the small tinyjax", "examples/mini_cond.md"),
        ("The digits", "examples/data.md"),
    ),
    "Using": (
        "trees.md",
        "control-flow.md",
        "refs.md",
        "derivatives.md",
        "diagnostics.md",
        "special-values.md",
        "parallel.md",
        "concurrency.md",
        "compilation-cache.md",
        "performance.md",
    ),
    "Programs": (
        "programs.md",
        "passes.md",
        "analysis.md",
        "pictures.md",
        "text.md",
        "files.md",
        "interop.md",
        "command-line.md",
    ),
    "Extending": ("primitives.md", "higher-order.md", "interpreters.md"),
    "Reference": (
        reference.OVERVIEW,
        *[(module, reference.path_of(module)) for module in MODULES],
        primitive_index.PATH,
    ),
    "About": ("contributing.md", "changelog.md", "license.md"),
}
_LINK: Final = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_CODE: Final = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def assemble(folder: Path) -> Path:
    """Writes the folder anew; returns the configuration within it."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    shutil.copytree(ROOT / "docs", pages)
    for path in sorted((ROOT / "docs").rglob("*.md")):
        made = path.relative_to(ROOT / "docs").as_posix()
        (pages / made).write_text(relinked(path.read_text(encoding="utf-8"), f"docs/{made}", made), encoding="utf-8")
    for made, text in made_pages():
        target = pages / made
        assert not target.exists(), made
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "website" / "site.css", pages / "site.css")
    configuration = folder / "mkdocs.yml"
    configuration.write_text("".join(_configuration(pages)), encoding="utf-8")
    return configuration


def made_pages() -> Iterator[tuple[str, str]]:
    """The pages that aren't files in docs: paths and texts."""
    for path, made in BROUGHT_IN.items():
        yield made, _brought_in(path, made)
    yield from reference.pages()
    yield primitive_index.PATH, primitive_index.page()


def _brought_in(path: str, made: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".py"):
        return f"# `{path}`\n\n```python\n{text}```\n"
    if path == "LICENSE":
        return f"# Licence\n\n```text\n{text}```\n"
    return relinked(text, path, made)


def relinked(markdown: str, path: str, made: str) -> str:
    """The text of the file `path`, which is the page `made`, with its links as links between pages."""

    def link(match: re.Match[str]) -> str:
        target = (ROOT / path).parent.joinpath(match[1]).resolve().relative_to(ROOT).as_posix()
        target = BROUGHT_IN.get(target, target.removeprefix("docs/"))
        return f"]({'../' * made.count('/')}{target}{match[2] or ''})"

    pieces = _CODE.split(markdown)
    return "".join(piece if n % 2 else _LINK.sub(link, piece) for n, piece in enumerate(pieces))


def _configuration(pages: Path) -> Iterator[str]:
    yield (ROOT / "website" / "mkdocs.yml").read_text(encoding="utf-8")
    yield "\nnav:\n  - index.md\n"
    decisions = sorted(path.relative_to(pages).as_posix() for path in (pages / "decisions").glob("*.md"))
    for section, entries in {**NAVIGATION, "Decisions": tuple(decisions)}.items():
        yield f"  - {section}:\n"
        for entry in entries:
            yield f"      - {entry}\n" if isinstance(entry, str) else f'      - "{entry[0]}": {entry[1]}\n'
