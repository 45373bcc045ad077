"""Programs with what their equations say of themselves: the line that each comes from, and its transformations."""

from __future__ import annotations

from collections.abc import Iterator
from os.path import basename

from attrs import evolve

from tinyjax.ir.printing.outline import outline
from tinyjax.ir.printing.printer import format_eqn, variable_names
from tinyjax.ir.printing.spelling import format_string
from tinyjax.ir.program import ClosedJaxpr
from tinyjax.ir.source import SourceInfo


def equations_with_sources(closed: ClosedJaxpr) -> str:
    """Each equation with its source, in columns; programs within a program after it."""
    return "\n".join(_lines(closed))


def _lines(closed: ClosedJaxpr) -> Iterator[str]:
    parts = outline(closed.jaxpr)
    titles = {0: ""}
    for part in parts:
        for position, held in part.held.items():
            name = format_string(part.jaxpr.eqns[position].primitive.name)
            for item in held:
                titles.setdefault(item.number, f"{item.label} of {name}")
    for number, part in enumerate(parts):
        jaxpr = part.jaxpr
        names = variable_names(jaxpr)
        if number:
            yield f"\n{titles[number]}: {jaxpr.type}"
        texts = [" ".join(format_eqn(eqn, names, short=True).split()) for eqn in jaxpr.eqns]
        width = min(max(map(len, texts), default=0), 72)
        for eqn, text in zip(jaxpr.eqns, texts, strict=True):
            yield f"{text.ljust(width)}  # {_place(eqn.source)}".rstrip(" #")


def _place(source: SourceInfo | None) -> str:
    if source is None:
        return ""
    return str(evolve(source, file=basename(source.file)))
