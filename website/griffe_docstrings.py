"""An extension of the collector of docstrings: it prepares them for the site.

Comments that begin with `#:` are docstrings too, and the classes of attrs get the signatures that attrs makes.
"""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, final

import attrs
import griffe
from typing_extensions import override

from website.docstrings import as_markdown
from website.examples import examples
from website.names import entries, module_named


@final
class Docstrings(griffe.Extension):
    """What `mkdocs.yml` names."""

    @override
    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is None and obj.is_attribute:
            comment = _comment_above(obj)
            if comment:
                obj.docstring = griffe.Docstring(comment, parent=obj, lineno=obj.lineno)
        if obj.is_class:
            _give_signature(obj)
        if obj.docstring is not None:
            text = as_markdown(obj.docstring.value, _scope(obj), _own_names(obj))
            example = _examples().get(obj.path)
            obj.docstring.value = text if example is None else f"{text}\n\n{as_markdown(example)}"


@cache
def _examples() -> dict[str, str]:
    """By the names that griffe knows the functions by: those of the files that define them."""
    written = examples()
    found: dict[str, str] = {}
    for entry in entries():
        if entry.described_as in written and entry.is_described_here:
            value: object = getattr(module_named(entry.page), entry.name)
            name = getattr(inspect.unwrap(value), "__name__", entry.name) if callable(value) else entry.name
            found[f"{entry.defined_in}.{name}"] = written[entry.described_as]
    return found


def _give_signature(obj: griffe.Object) -> None:
    """The parameters that attrs makes of the fields of a class."""
    cls = getattr(import_module(obj.module.path), obj.path.removeprefix(f"{obj.module.path}."), None)
    if not (isinstance(cls, type) and attrs.has(cls)) or "__init__" in obj.members:
        return
    parameters = griffe.Parameters(griffe.Parameter("self"))
    for field in attrs.fields(cls):
        if field.init:
            parameters.add(
                griffe.Parameter(
                    field.alias,
                    annotation=field.type if isinstance(field.type, str) else inspect.formatannotation(field.type),
                    kind=griffe.ParameterKind.keyword_only
                    if field.kw_only
                    else griffe.ParameterKind.positional_or_keyword,
                    default=None if field.default is attrs.NOTHING else _shown_default(field.default),
                )
            )
    obj.set_member("__init__", griffe.Function("__init__", parameters=parameters))


def _shown_default(default: object) -> str:
    return "..." if hasattr(default, "takes_self") else repr(default)  # a factory makes it


def _comment_above(obj: griffe.Object) -> str:
    """The lines that begin with `#:`, directly above."""
    if obj.lineno is None or not isinstance(obj.filepath, Path):
        return ""
    lines: list[str] = []
    for line in reversed(obj.lines_collection[obj.filepath][: obj.lineno - 1]):
        if not line.strip().startswith("#:"):
            break
        lines.append(line.strip().removeprefix("#:").strip())
    return "\n".join(reversed(lines))


def _scope(obj: griffe.Object) -> str:
    """The public module that describes what the file defines; most files' names are all in one."""
    home = obj.module.path
    return next((entry.page for entry in entries() if entry.defined_in == home and entry.is_described_here), "tinyjax")


def _own_names(obj: griffe.Object) -> frozenset[str]:
    names = {obj.name}
    if isinstance(obj, griffe.Function):
        names |= {parameter.name for parameter in obj.parameters}
    return frozenset(names)
