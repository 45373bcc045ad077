"""Programs as graphs in Graphviz's DOT language: a node for each equation, a cluster for each program within.

A program that occurs several times is one cluster; the other equations that hold it have a dashed edge to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tinyjax.ir.holding import AnyProgram, as_closed
from tinyjax.ir.printing.outline import Part, outline
from tinyjax.ir.printing.pieces import Pieces, joined
from tinyjax.ir.printing.printer import variable_names
from tinyjax.ir.program import Var
from tinyjax.tools.dot_labels import atom_text, input_text, node_text
from tinyjax.tools.texts import Dot

_HEAD: Final = """\
digraph program {
  graph [compound=true, bgcolor="transparent", fontname="Menlo,Consolas,monospace", fontsize=11, nodesep=0.25,
    ranksep=0.35, color="#c4ccd6", fontcolor="#6e7781", style="rounded"];
  node [shape=box, style="rounded,filled", fillcolor="#f5f7fa", color="#c4ccd6", fontcolor="#24292f",
    fontname="Menlo,Consolas,monospace", fontsize=11, height=0.3, margin="0.12,0.06"];
  edge [color="#8c96a3", arrowsize=0.6, penwidth=1.0, fontname="Menlo,Consolas,monospace", fontsize=9];
"""
_BOUND: Final = 'shape=box, style="rounded,filled", fillcolor="#e7f0fb", color="#a9c7ea"'


def to_dot(program: AnyProgram) -> Dot:
    """The program in the DOT language, for Graphviz: `dot -Tsvg`, or `tinyjax.tools.to_svg`, draws it.

    >>> from tinyjax import ShapedArray, make_jaxpr, numpy as tnp
    >>> text = to_dot(make_jaxpr(lambda x: tnp.sin(x))(ShapedArray((3,), "float32")))
    >>> [line for line in text.splitlines() if "->" in line]
    ['  p0_i0 -> p0_e0;', '  p0_e0 -> p0_o0;']
    """
    closed = as_closed(program, "to_dot")
    later: list[str] = []
    body = joined(_program(outline(closed.jaxpr), 0, later, len(closed.consts)))
    return Dot("".join([_HEAD, body, *later, "}\n"]))


def quoted(text: str) -> str:
    """A string of the DOT language, which shows the text as it is, also where Graphviz reads escapes.

    >>> print(quoted('a "b" \\\\N'))
    "a \\"b\\" \\\\N"
    """
    clean = "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
    # Graphviz also reads the entities of HTML.
    clean = clean.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;").replace("\n", "\\n")
    return f'"{clean}"'


def _program(parts: Sequence[Part], number: int, later: list[str], consts: int = 0) -> Pieces:
    """The statements of one program; to `later` go edges into clusters, which must come after all clusters: a node
    belongs to the cluster in which it is mentioned first."""
    part = parts[number]
    jaxpr = part.jaxpr
    names = variable_names(jaxpr)
    makers: dict[int, str] = {}
    for position, var in enumerate(jaxpr.invars):
        node = makers[var.index] = f"p{number}_i{position}"
        what = f"{'constant' if position < consts else 'input'} {position}"
        label = input_text(jaxpr, position, names)
        yield f"  {node} [label={quoted(label)}, tooltip={quoted(what)}, {_BOUND}];\n"
    if not jaxpr.invars:
        yield f"  p{number} [style=invis, shape=point];\n"
    for position, eqn in enumerate(jaxpr.eqns):
        node = f"p{number}_e{position}"
        text = node_text(eqn, names)
        label = quoted("\n".join((text.head, *text.parameters, *text.outputs)))
        held = part.held.get(position, ())
        if held:
            yield f'  subgraph cluster_{node} {{ label="";\n'
        yield f"  {node} [label={label}, tooltip={quoted(text.hover)}];\n"
        for item in held:
            if item.here:
                title = f"{item.label} = @f{item.number}" if parts[item.number].shared else item.label
                yield f"  subgraph cluster_p{item.number} {{ label={quoted(title)};\n"
                yield _program(parts, item.number, later)
                yield "  }\n"
        if held:
            yield "  }\n"
        for item in held:
            target = f"p{item.number}_i0" if parts[item.number].jaxpr.invars else f"p{item.number}"
            label = "" if item.here else f", label={quoted(item.label)}, constraint=false"
            style = f"style=dashed, arrowhead=none, lhead=cluster_p{item.number}{label}"
            later.append(f"  {node} -> {target} [{style}];\n")
        for atom in eqn.invars:
            if isinstance(atom, Var) and atom.index in makers:
                yield f"  {makers[atom.index]} -> {node};\n"
        makers.update({var.index: node for var in eqn.outvars})
    for position, atom in enumerate(jaxpr.outvars):
        node = f"p{number}_o{position}"
        text_of = quoted(f"{atom_text(atom, names)}:{atom.aval}" if isinstance(atom, Var) else atom_text(atom, names))
        yield f'  {node} [label={text_of}, tooltip="output {position}", {_BOUND}];\n'
        if isinstance(atom, Var) and atom.index in makers:
            yield f"  {makers[atom.index]} -> {node};\n"
