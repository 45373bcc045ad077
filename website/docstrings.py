"""Docstrings as the site shows them: doctests as blocks of code, and names in backticks as links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from website.names import entries

_NAME: Final = re.compile(r"(?<![`\[])`([A-Za-z_][\w.]*)`(?![`\]])")
_FENCE: Final = "```"


def as_markdown(text: str, scope: str = "tinyjax", own: frozenset[str] = frozenset()) -> str:
    """A docstring as Markdown. Names are looked up in the module `scope`, then in `tinyjax`; those in `own`, such as
    parameters, are no links."""
    lines: list[str] = []
    in_code = False
    for is_code, line in _marked(text):
        if is_code != in_code:
            lines += ["", f"{_FENCE}pycon"] if is_code else [_FENCE, ""]
            in_code = is_code
        lines.append(line if is_code or line.startswith("    ") else _linked(line, scope, own))
    return "\n".join([*lines, _FENCE] if in_code else lines)


def _marked(text: str) -> Iterator[tuple[bool, str]]:
    """Lines, and whether they belong to a doctest: from a prompt to the next empty line."""
    within = False
    for line in text.splitlines():
        if line.startswith(">>>"):
            within = True
        elif not line.strip():
            within = False
        yield within, line


def _linked(line: str, scope: str, own: frozenset[str]) -> str:
    def link(match: re.Match[str]) -> str:
        name = match[1]
        if name in own:
            return match[0]
        targets = _targets()
        target = targets.get(f"{scope}.{name}") or targets.get(f"tinyjax.{name}") or targets.get(name)
        return match[0] if target is None else f"[`{name}`][{target}]"

    return _NAME.sub(link, line)


@cache
def _targets() -> Mapping[str, str]:
    """Where each public name is described, by its full name; but for what is in a table only."""
    return {f"{entry.page}.{entry.name}": entry.described_as for entry in entries() if entry.defined_in}
