"""How results show themselves as the last line of a cell: as tables in a terminal, as HTML in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias, final

from attrs import frozen

from tinyjax.ir.printing.html import DARK, LIGHT, escape, format_html
from tinyjax.ir.printing.shown import Shown
from tinyjax.ir.program import ClosedJaxpr, Jaxpr

#: Tables have at most so many rows.
MOST: Final = 200

_STYLE: Final = (
    f".tinyjax-shown{{{LIGHT};color:var(--fg);font:13px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',"
    "sans-serif;overflow-x:auto;text-align:left}"
    f"@media (prefers-color-scheme:dark){{.tinyjax-shown{{{DARK}}}}}"
    f"[data-jp-theme-light=true] .tinyjax-shown,.vscode-light .tinyjax-shown{{{LIGHT}}}"
    f"[data-jp-theme-light=false] .tinyjax-shown,.vscode-dark .tinyjax-shown,html[theme=dark] .tinyjax-shown{{{DARK}}}"
    ".tinyjax-shown table{border-collapse:collapse;margin:4px 0 8px}"
    ".tinyjax-shown th{text-align:left;font-weight:600;color:var(--dim);border-bottom:1px solid var(--line)}"
    ".tinyjax-shown th,.tinyjax-shown td{padding:1px 10px 1px 0;background:none;text-align:left}"
    ".tinyjax-shown td{font-family:ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}"
    ".tinyjax-shown .r{text-align:right}.tinyjax-shown p{margin:4px 0;white-space:pre-wrap}"
    ".tinyjax-shown .add{background:#2da44e33}.tinyjax-shown .del{background:#cf222e2e}"
    ".tinyjax-shown .mod{background:#bf870033}"
)


@final
@frozen
class Table:
    """Rows of cells under heads. The columns from `numbers` on are aligned to the right; None: none of them.

    >>> print(Table(("name", "bytes"), (("w", "1,024"), ("x", "8")), numbers=1).text)
    name  bytes
    w     1,024
    x         8
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: int | None = None

    def _right(self, column: int) -> bool:
        return self.numbers is not None and column >= self.numbers

    @property
    def text(self) -> str:
        """The table in columns."""
        every = (self.head, *self.rows)
        widths = [max(len(row[i]) for row in every) for i in range(len(self.head))]
        lines = []
        for row in every:
            cells = [
                c.rjust(w) if self._right(i) else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    @property
    def html(self) -> str:
        """The table as an element of HTML."""
        marks = [' class="r"' if self._right(i) else "" for i in range(len(self.head))]
        heads = "".join(f"<th{mark}>{escape(cell)}</th>" for cell, mark in zip(self.head, marks, strict=True))
        lines = [f"<table><thead><tr>{heads}</tr></thead><tbody>"]
        for row in self.rows:
            cells = "".join(f"<td{mark}>{escape(cell)}</td>" for cell, mark in zip(row, marks, strict=True))
            lines.append(f"<tr>{cells}</tr>")
        return "\n".join([*lines, "</tbody></table>"])


@final
@frozen
class Picture:
    """A picture for notebooks, of which terminals show nothing."""

    html: str
    text: str = ""


@final
@frozen
class Scope:
    """What shows itself, within something else, and what it is there."""

    label: str
    shown: Shown

    @property
    def text(self) -> str:
        return f"{self.label}:\n{self.shown}"

    @property
    def html(self) -> str:
        return f"<p>{escape(self.label)}:</p>{self.shown.html}"


@final
@frozen
class Note:
    """Lines of text."""

    text: str

    @property
    def html(self) -> str:
        return f"<p>{escape(self.text)}</p>"


@final
@frozen
class Program:
    """A program, and what it is."""

    label: str
    program: Jaxpr | ClosedJaxpr

    @property
    def text(self) -> str:
        return f"{self.label}: {self.program}"

    @property
    def html(self) -> str:
        return f"<p>{escape(self.label)}:</p>{format_html(self.program)}"


Block: TypeAlias = Table | Picture | Note | Program | Scope


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int | None = None) -> Iterator[Block]:
    """A table of rows; of many, the first ones, and how many more there are."""
    listed = [tuple(row) for row in rows]
    yield Table(tuple(head), tuple(listed[:MOST]), numbers)
    if len(listed) > MOST:
        yield Note(f"({len(listed) - MOST:,} more rows)")


def fields(name: str, found: Iterable[tuple[str, object]]) -> Iterator[Block]:
    """A record: what is small as rows of a table, then the programs, and what shows itself, in order."""
    listed = list(found)
    large = Jaxpr | ClosedJaxpr | Shown
    yield from table(
        (name, ""), [(label, " ".join(repr(value).split())) for label, value in listed if not isinstance(value, large)]
    )
    for label, value in listed:
        if isinstance(value, Jaxpr | ClosedJaxpr):
            yield Program(label, value)
        elif isinstance(value, Shown):
            yield Scope(label, value)


def page(parts: Iterable[str]) -> str:
    """Elements of HTML as a notebook shows them."""
    return f'<div class="tinyjax-shown"><style>{_STYLE}</style>{"".join(parts)}</div>'


#: What the lines of a difference begin with, and how they are marked.
_MARKS: Final = {"-": "del", "+": "add", "~": "mod"}


def difference_html(text: str) -> str:
    """The lines of a difference as a table, with those that begin with -, + and ~ in colours."""
    rows: list[str] = []
    for line in text.splitlines():
        mark = _MARKS.get(line[:1])
        kind = f' class="{mark}"' if mark else ""
        rows.append(f"<tr{kind}><td>{html.escape(line) or ' '}</td></tr>")
    return page(["<table><tbody>", *rows, "</tbody></table>"])
