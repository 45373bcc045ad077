"""What the nodes of a drawn program say, in DOT and SVG alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from attrs import frozen

from tinyjax.ir.printing.outline import shown_parameters
from tinyjax.ir.printing.printer import format_eqn
from tinyjax.ir.printing.spelling import format_literal, format_parameter, format_string
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var

_LONGEST: Final = 36
_MOST: Final = 4


@final
@frozen
class NodeText:
    """The text of an equation's node: the primitive, its operands, lines of parameters, its outputs with their types;
    and what hovering over it shows."""

    primitive: str
    operands: tuple[str, ...]
    parameters: tuple[str, ...]
    outputs: tuple[str, ...]
    hover: str

    @property
    def head(self) -> str:
        return " ".join((self.primitive, *self.operands))


def node_text(eqn: Eqn, names: Mapping[int, str]) -> NodeText:
    """The text of an equation's node."""
    parameters = [
        f"{name}={format_parameter(value, {}, short=True)}" for name, value in shown_parameters(eqn.primitive)
    ]
    hover = format_eqn(eqn, names, short=True)
    return NodeText(
        format_string(eqn.primitive.name),
        _some([atom_text(atom, names) for atom in eqn.invars], 8),
        tuple([cut(line) for line in _some(parameters, _MOST)]),
        _some([binder_text(var, names) for var in eqn.outvars], _MOST),
        hover if eqn.source is None else f"{hover}\n{eqn.source}",
    )


def atom_text(atom: Atom, names: Mapping[int, str]) -> str:
    return names[atom.index] if isinstance(atom, Var) else cut(format_literal(atom))


def binder_text(var: Var, names: Mapping[int, str]) -> str:
    return f"{names[var.index]}:{var.aval}"


def input_text(jaxpr: Jaxpr, position: int, names: Mapping[int, str]) -> str:
    """The text of an input's node: the variable and its type, and what the traced function calls it."""
    called = jaxpr.input_names[position]
    binder = binder_text(jaxpr.invars[position], names)
    return f"{binder} {cut(called)}" if called and called != names[jaxpr.invars[position].index] else binder


def cut(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def _some(items: list[str], most: int) -> tuple[str, ...]:
    """The items, or the first ones and how many more there are."""
    if len(items) <= most:
        return tuple(items)
    return (*items[: most - 1], f"\N{HORIZONTAL ELLIPSIS} {len(items) - most + 1} more")
