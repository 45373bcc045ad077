"""Programs in notebooks: HTML with collapsible programs within, colours, and types and source lines on hover.

It needs no script and nothing from the network. A program that occurs several times is shown once, with a name that the
other places refer to; so are programs that lie very deep. Of long programs the beginning is shown.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final, final

from tinyjax.ir.printing.outline import Held, Part, outline, shown_parameters
from tinyjax.ir.printing.pieces import Pieces, joined
from tinyjax.ir.printing.printer import variable_names
from tinyjax.ir.printing.spelling import format_literal, format_parameter, format_string
from tinyjax.ir.program import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from tinyjax.ir.source import SourceInfo

#: HTML in pieces; a piece that is itself in pieces is made by one loop, so that nesting costs no recursion.

#: Programs deeper than this are shown after the others: browsers nest elements to a limited depth.
_DEEPEST: Final = 12
#: At most so many equations are shown.
_MOST: Final = 2000
#: Programs within are open at first if there are at most so many equations in all.
_OPEN: Final = 40
_LONGEST: Final = 60
#: Lines with more variables wrap.
_ONE_LINE: Final = 12

LIGHT: Final = "--fg:#24292f;--dim:#6e7781;--op:#6639ba;--var:#0a58a8;--num:#96480a;--line:#d8dee4;--over:#f3f5f8"
DARK: Final = "--fg:#d1d7e0;--dim:#8d96a0;--op:#cbb2ff;--var:#86c1ff;--num:#eeab70;--line:#3a424c;--over:#232a33"
_STYLE: Final = (
    f".tinyjax{{{LIGHT};color:var(--fg);font:13px/1.6 ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',"
    "monospace;overflow-x:auto;text-align:left}"
    f"@media (prefers-color-scheme:dark){{.tinyjax{{{DARK}}}}}"
    f"[data-jp-theme-light=true] .tinyjax,.vscode-light .tinyjax{{{LIGHT}}}"
    f"[data-jp-theme-light=false] .tinyjax,.vscode-dark .tinyjax,html[theme=dark] .tinyjax{{{DARK}}}"
    ".tinyjax div,.tinyjax summary{white-space:pre;min-width:max-content}"
    ".tinyjax .w{white-space:pre-wrap;min-width:0}.tinyjax .e.w{padding-left:4.4em;text-indent:-2.2em}"
    ".tinyjax .e{padding-left:2.2em}.tinyjax .o{padding-left:1.1em}"
    ".tinyjax .e:hover,.tinyjax summary:hover{background:var(--over);border-radius:3px}"
    ".tinyjax summary{padding-left:2.2em;list-style:none;position:relative;cursor:pointer}"
    ".tinyjax summary::-webkit-details-marker{display:none}"
    ".tinyjax summary::before{content:'\\25B8';position:absolute;left:1.1em;color:var(--dim)}"
    ".tinyjax details[open]>summary::before{content:'\\25BE'}"
    ".tinyjax .s{margin:2px 0 4px 2.6em;padding-left:1em;border-left:1px solid var(--line)}"
    ".tinyjax .k,.tinyjax .t,.tinyjax .p{color:var(--dim)}.tinyjax .f{color:var(--op);font-weight:600}"
    ".tinyjax .v{color:var(--var)}.tinyjax .n{color:var(--num)}"
    ".tinyjax .v[title],.tinyjax .f[title],.tinyjax .p[title]{cursor:help}"
)


def html_of(program: object) -> str:
    """What a notebook shows of an equation, a program or a closed program."""
    if isinstance(program, Jaxpr | ClosedJaxpr):
        return format_html(program)
    return f"<pre>{escape(str(program))}</pre>"


def format_html(program: Jaxpr | ClosedJaxpr) -> str:
    """The program as HTML that a notebook shows in place of its text.

    >>> from tinyjax.ir.aval import ShapedArray
    >>> x = Var(0, ShapedArray((3,), "float32"))
    >>> '<span class="v" title="a: f32[3], 12 bytes' in format_html(Jaxpr((x,), (), (x,)))
    True
    """
    jaxpr, consts = (program.jaxpr, len(program.consts)) if isinstance(program, ClosedJaxpr) else (program, 0)
    return f'<div class="tinyjax"><style>{_STYLE}</style>{joined(_Page(outline(jaxpr), consts).pieces())}</div>'


def escape(text: str) -> str:
    """Text as the content or an attribute of an element of HTML or XML; what can't be shown there becomes U+FFFD."""
    return html.escape("".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text))


def describe(source: SourceInfo | None) -> str:
    """The line that an equation comes from, for people to read; nothing if it isn't known."""
    return "" if source is None else str(source)


@final
class _Page:
    """Makes the HTML of one outermost program."""

    def __init__(self, parts: Sequence[Part], consts: int) -> None:
        self._parts = parts
        self._consts = consts
        self._open = " open" if sum(len(part.jaxpr.eqns) for part in parts) <= _OPEN else ""
        self._left = _MOST
        self._later: list[int] = []

    def pieces(self) -> Pieces:
        yield self._program(0, 0)
        for number in self._later:  # grows meanwhile
            if self._left > 0:
                yield f'<details><summary><span class="k">@f{number} =</span></summary><div class="s">'
                yield self._program(number, 0)
                yield "</div></details>"

    def _program(self, number: int, depth: int) -> Pieces:
        part = self._parts[number]
        jaxpr = part.jaxpr
        writer = _Writer(jaxpr)
        head = ' class="w"' if _wraps(jaxpr.invars) else ""
        yield f"<div{head}>{writer.head(self._consts if number == 0 else 0)}</div>"
        for position, eqn in enumerate(jaxpr.eqns):
            if self._left <= 0:
                rest = len(jaxpr.eqns) - position
                yield f'<div class="e k">\N{HORIZONTAL ELLIPSIS} {rest} more equation{"s" if rest > 1 else ""}</div>'
                break
            self._left -= 1
            held = part.held.get(position)
            if held is None:
                yield f'<div class="e{_wraps(eqn.outvars, eqn.invars)}">{writer.equation(eqn)}</div>'
            else:
                wraps = ' class="w"' if _wraps(eqn.outvars, eqn.invars) else ""
                yield f"<details{self._open}><summary{wraps}>{writer.equation(eqn)}</summary>"
                for item in held:
                    yield from self._held(item, depth)
                yield "</details>"
        yield f'<div class="o{_wraps(jaxpr.outvars)}">{writer.foot()}</div>'

    def _held(self, item: Held, depth: int) -> Pieces:
        name = f" = @f{item.number}" if self._parts[item.number].shared or depth == _DEEPEST or not item.here else ""
        yield f'<div class="s"><div class="k">{escape(item.label)}{name}</div>'
        if item.here and depth < _DEEPEST:
            yield self._program(item.number, depth + 1)
        elif item.here:
            self._later.append(item.number)
        yield "</div>"


@final
class _Writer:
    """Makes the lines of one program."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self._jaxpr = jaxpr
        self._names = variable_names(jaxpr)
        names = zip(jaxpr.invars, jaxpr.input_names, strict=True)
        self._origins: dict[int, str] = {var.index: f"argument {name}" if name else "input" for var, name in names}

    def head(self, consts: int) -> str:
        binders = [self._binder(var) for var in self._jaxpr.invars]
        first, rest = " ".join(binders[:consts]), " ".join(binders[consts:])
        return f'<span class="k">{{ lambda</span> {first}<span class="k">;</span> {rest}<span class="k">. let</span>'

    def foot(self) -> str:
        outs = " ".join(self._atom(atom) for atom in self._jaxpr.outvars)
        return f'<span class="k">in (</span>{outs}<span class="k">) }}</span>'

    def equation(self, eqn: Eqn) -> str:
        primitive = eqn.primitive
        source = describe(eqn.source)
        origin = f"{primitive.name} at {source}" if source else primitive.name
        self._origins.update({var.index: origin for var in eqn.outvars})
        words = [self._binder(var) for var in eqn.outvars]
        if words:
            words.append('<span class="k">=</span>')
        hover = f' title="{escape(source)}"' if source else ""
        parameters = " ".join(_parameter(name, value) for name, value in shown_parameters(primitive))
        shown = f'<span class="p">[{parameters}]</span>' if parameters else ""
        words.append(f'<span class="f"{hover}>{escape(format_string(primitive.name))}</span>{shown}')
        words += [self._atom(atom) for atom in eqn.invars]
        return " ".join(words)

    def _binder(self, var: Var) -> str:
        return f'{self._variable(var)}<span class="t">:{escape(str(var.aval))}</span>'

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Var):
            return self._variable(atom)
        return f'<span class="n" title="{escape(str(atom.aval))}">{escape(format_literal(atom))}</span>'

    def _variable(self, var: Var) -> str:
        name, aval = self._names[var.index], var.aval
        size = f"{aval.nbytes} byte{'' if aval.nbytes == 1 else 's'}"
        hover = escape(f"{name}: {aval}, {size}\n{self._origins.get(var.index, 'not bound')}")
        return f'<span class="v" title="{hover}">{name}</span>'


def _wraps(*atoms: Sequence[Atom]) -> str:
    """The class of a line with so many variables that it takes several."""
    return " w" if sum(map(len, atoms)) > _ONE_LINE else ""


def _parameter(name: str, value: object) -> str:
    text = format_parameter(value, {}, short=True)
    if len(text) <= _LONGEST:
        return f"{escape(name)}={escape(text)}"
    cut = f"{text[:_LONGEST]}\N{HORIZONTAL ELLIPSIS}"
    return f'{escape(name)}=<span class="p" title="{escape(text)}">{escape(cut)}</span>'
