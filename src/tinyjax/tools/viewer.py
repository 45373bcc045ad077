"""A page to read a program in: one HTML file with everything in it, for any browser, without a network.

Programs within open and close; hovering shows types and source lines; a click on a variable marks where it is made
and read; a search goes over all equations; a plot shows live memory. Only rows in sight exist in the page, so it stays
quick with a hundred thousand equations, and with programs nested thousands deep.

The page gets the program as a table in JSON, and builds text from it, never HTML: nothing in a program can become part
of the page's own code, and the page may not load anything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Hashable
from importlib.resources import files
from pathlib import Path
from typing import Final, TypeAlias, final

from tinyjax.ir.holding import AnyProgram, checked
from tinyjax.ir.printing.html import escape
from tinyjax.ir.printing.outline import Part, outline, shown_parameters
from tinyjax.ir.printing.printer import variable_names
from tinyjax.ir.printing.spelling import format_literal, format_parameter, format_string
from tinyjax.ir.program import Atom, ClosedJaxpr, Eqn, Var
from tinyjax.ir.program_type import JaxprType
from tinyjax.tools.cost.memory import live_memory
from tinyjax.tools.memory_plots import memory_plot
from tinyjax.tools.texts import Page

_Json: TypeAlias = "dict[str, _Json] | list[_Json] | str | int"

#: Longer spellings of parameters are cut.
_LONGEST: Final = 2000


def save_html(path: str | os.PathLike[str], program: AnyProgram, *, title: str = "Program") -> None:
    """Writes a page that shows the program: one file, which needs nothing else."""
    Path(path).write_text(to_html(program, title=title), encoding="utf-8")


def to_html(program: AnyProgram, *, title: str = "Program") -> Page:
    """The text of the page that `save_html` writes: a `str`, which notebooks show as that page.

    A VerificationError if the program doesn't typecheck.
    """
    closed = checked(program, "to_html")
    table = json.dumps(_Table(closed).table, separators=(",", ":"), ensure_ascii=True)
    # A script element ends where `</script` is, whatever language it is in; and `<!--` has a meaning there too.
    parts = {
        "title": escape(title),
        "style": _resource("viewer.css"),
        "script": _resource("viewer.js"),
        "plot": memory_plot(live_memory(closed), width=1400, height=190) if closed.eqns else "",
        "data": table.replace("<", "\\u003c"),
    }
    text = _resource("viewer.html")
    pieces = text.split("{{")
    done = [pieces[0]]
    for piece in pieces[1:]:
        name, rest = piece.split("}}", 1)
        done += (parts[name], rest)
    return Page("".join(done))


def _resource(name: str) -> str:
    return files("tinyjax.tools").joinpath(name).read_text(encoding="utf-8").rstrip("\n")


@final
class _Table:
    """The program as lists of numbers: each type, primitive, literal and source line is written once. `called` is what
    the function that was traced calls the inputs.

    An equation is [primitive, outputs, operands, source line or -1, programs within as [parameter, number]]. Operands
    are variables, counted from 0 in the order of binding, or literals, from -1 downwards.
    """

    def __init__(self, closed: ClosedJaxpr) -> None:
        self._numbers: dict[str, dict[Hashable, int]] = {}
        self._lists: dict[str, list[_Json]] = {"avals": [], "literals": [], "primitives": [], "sources": []}
        parts = outline(closed.jaxpr)
        programs: list[_Json] = [self._program(part, 0 if i else len(closed.consts)) for i, part in enumerate(parts)]
        kind = JaxprType(closed.in_avals, closed.out_avals)
        self.table: _Json = {"type": str(kind), "programs": programs, **self._lists}

    def _number(self, kind: str, key: Hashable, made: _Json) -> int:
        numbers = self._numbers.setdefault(kind, {})
        number = numbers.setdefault(key, len(numbers))
        if number == len(self._lists[kind]):
            self._lists[kind].append(made)
        return number

    def _program(self, part: Part, consts: int) -> _Json:
        jaxpr = part.jaxpr
        names = variable_names(jaxpr)
        bound = [*jaxpr.invars, *(var for eqn in jaxpr.eqns for var in eqn.outvars)]
        ids: dict[int, int] = {}
        known: list[Var] = []
        read = (a for atoms in (*(eqn.invars for eqn in jaxpr.eqns), jaxpr.outvars) for a in atoms)
        for var in (*bound, *(atom for atom in read if isinstance(atom, Var))):
            if var.index not in ids:
                ids[var.index] = len(known)
                known.append(var)
        called: list[_Json] = list(jaxpr.input_names) if any(jaxpr.input_names) else []
        return {
            "called": called,
            "names": [names[var.index] for var in known],
            "types": [self._aval(var) for var in known],
            "ins": len(jaxpr.invars),
            "consts": consts,
            "shared": int(part.shared),
            "eqns": [self._equation(eqn, part, position, ids) for position, eqn in enumerate(jaxpr.eqns)],
            "outs": [self._atom(atom, ids) for atom in jaxpr.outvars],
        }

    def _equation(self, eqn: Eqn, part: Part, position: int, ids: dict[int, int]) -> _Json:
        source = -1 if eqn.source is None else self._number("sources", eqn.source, str(eqn.source))
        outs: list[_Json] = [ids[var.index] for var in eqn.outvars]
        row: list[_Json] = [self._primitive(eqn), outs, [self._atom(atom, ids) for atom in eqn.invars], source]
        held = part.held.get(position)
        return row if held is None else [*row, [[item.label, item.number] for item in held]]

    def _primitive(self, eqn: Eqn) -> int:
        primitive = eqn.primitive
        found = self._numbers.setdefault("primitives", {}).get(id(primitive))
        if found is not None:
            return found
        parameters: list[_Json] = []
        for name, value in shown_parameters(primitive):
            text = format_parameter(value, {}, short=True)
            parameters.append([name, text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\N{HORIZONTAL ELLIPSIS}"])
        return self._number("primitives", id(primitive), [format_string(primitive.name), parameters])

    def _aval(self, atom: Atom) -> int:
        return self._number("avals", atom.aval, [str(atom.aval), atom.aval.nbytes])

    def _atom(self, atom: Atom, ids: dict[int, int]) -> int:
        if isinstance(atom, Var):
            return ids[atom.index]
        return -1 - self._number("literals", atom, [format_literal(atom), self._aval(atom)])
