"""The pages of the API reference: one for each public module, its names in groups, by the files that define them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Final

from tinyjax.ir import RuleTable
from website.docstrings import as_markdown
from website.names import MODULES, Entry, entries, module_named

#: What the pages are about, for the table on the first one.
OVERVIEW: Final = "reference/index.md"
_INTRODUCTION: Final = """\
Every public name, with its signature, types and examples, as the docstrings have them. What isn't here is private, and
may change from version to version. The contexts are on the page of
[`tinyjax.interpreters`](tinyjax.interpreters.md), which exports them. [All primitives](primitives.md) are listed with
their rules."""
#: Classes whose methods are defined by bases that nobody else uses.
_WITH_INHERITED: Final = frozenset({"tinyjax.Array", "tinyjax.Jaxpr", "tinyjax.ClosedJaxpr", "tinyjax.Traced"})
_SENTENCE: Final = re.compile(r"^(.*?)[.:](?:\s|$)", re.DOTALL)


def path_of(module: str) -> str:
    """The page of a module, as a path within the documentation."""
    return f"reference/{module}.md"


def pages() -> Iterator[tuple[str, str]]:
    """Paths and texts."""
    yield OVERVIEW, _overview()
    for module in MODULES:
        yield path_of(module), page(module)


def _overview() -> str:
    rows = [
        "# Reference",
        "",
        _INTRODUCTION,
        "",
        "| module | |",
        "| --- | --- |",
    ]
    for module in MODULES:
        summary = _first_sentence(module_named(module))
        rows.append(f"| [`{module}`]({module}.md) | {summary} |")
    return "\n".join([*rows, ""])


def page(name: str) -> str:
    """The page of a module."""
    module = module_named(name)
    own = [entry for entry in entries() if entry.page == name]
    lines = [f"# `{name}`", "", as_markdown(inspect.getdoc(module) or ""), ""]
    groups: dict[str, list[Entry]] = {}
    for entry in own:
        if entry.is_described_here and entry.defined_in:
            groups.setdefault(entry.defined_in, []).append(entry)
    constants = [entry for entry in own if not entry.defined_in]
    others = [entry for entry in constants if not _is_ours(getattr(module, entry.name))]  # on every page that has them
    # What the module's own files define comes first; the package's own are in `api`.
    own_files = f"{name}.api" if name == "tinyjax" else name
    for home, group in sorted(groups.items(), key=lambda item: (not item[0].startswith(own_files), item[0])):
        lines += [f"## {_first_sentence(import_module(home)) or home}", "", *_directives(group)]
    ours = [entry for entry in constants if entry.is_described_here and entry not in others]
    if ours:
        lines += ["## Types and tables", "", *_directives(ours)]
    if others:
        lines += ["## Constants, and names of other libraries", "", "| name | is |", "| --- | --- |"]
        lines += [f"| `{entry.name}` | `{_shown(getattr(module, entry.name))}` |" for entry in others]
        lines.append("")
    elsewhere = [entry for entry in own if not entry.is_described_here and entry not in others]
    if elsewhere:
        lines += ["## Described elsewhere", ""]
        lines += [f"- `{entry.name}` is [`{entry.described_as}`][{entry.described_as}]" for entry in elsewhere]
        lines.append("")
    return "\n".join(lines)


def _directives(group: Sequence[Entry]) -> Iterator[str]:
    for entry in group:
        yield f"::: {entry.described_as}"
        if entry.described_as in _WITH_INHERITED:
            yield "    options:"
            yield "      inherited_members: true"
        yield ""


def _is_ours(value: object) -> bool:
    """Whether the library defines it: tables, types that annotations name. Not a dtype, nor a class of JAX's."""
    if isinstance(value, RuleTable):
        return True
    module = getattr(value, "__module__", None) or type(value).__module__
    return module.startswith(("tinyjax", "typing", "types", "builtins")) and not isinstance(
        value, int | float | type | type(None)
    )


def _shown(value: object) -> str:
    return f"{value.__module__}.{value.__qualname__}" if inspect.isclass(value) else repr(value)


def _first_sentence(module: ModuleType) -> str:
    text = inspect.getdoc(module) or ""
    match = _SENTENCE.match(text)
    return " ".join((match[1] if match else text).split())
