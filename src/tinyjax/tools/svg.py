"""Programs drawn as SVG: equations as boxes, variables as lines between them, programs within as frames in their boxes.

The layout is our own, so nothing need be installed; Graphviz lays out if it is there and the program isn't large.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal, TypeAlias, final

from attrs import frozen

from tinyjax.errors import GraphvizError, InputError
from tinyjax.ir.holding import AnyProgram, as_closed
from tinyjax.ir.printing.html import escape
from tinyjax.ir.printing.outline import Held, Part, outline
from tinyjax.ir.printing.printer import variable_names
from tinyjax.ir.program import Var
from tinyjax.tools.dot import to_dot
from tinyjax.tools.dot_labels import NodeText, atom_text, input_text, node_text
from tinyjax.tools.svg_layout import Layout, layered
from tinyjax.tools.texts import Svg

#: What lays a program out: Graphviz, we, or Graphviz if it is installed and the program small enough.
Engine: TypeAlias = Literal["auto", "dot", "own"]

#: Graphviz takes much more than linear time.
_LARGE: Final = 400
_CHAR: Final = 7.0
_ROW: Final = 16.0
_PAD: Final = 9.0
_MARGIN: Final = 16.0
_INSIDE: Final = 14.0

_STYLE: Final = (
    ".tinyjax-graph text{font:11.5px ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:var(--fg)}"
    ".tinyjax-graph{--box:#f5f7fa;--rim:#c4ccd6;--in:#fff;--end:#e7f0fb;--end-rim:#a9c7ea;--wire:#8c96a3;--fg:#24292f;"
    "--op:#6639ba;--dim:#6e7781}"
    "@media (prefers-color-scheme:dark){.tinyjax-graph{--box:#232a33;--rim:#4a545f;--in:#1a1f26;--end:#17304d;"
    "--end-rim:#2f5d92;--wire:#77818d;--fg:#d1d7e0;--op:#cbb2ff;--dim:#8d96a0}}"
    ".tinyjax-graph .b{fill:var(--box);stroke:var(--rim)}.tinyjax-graph .c{fill:var(--in);stroke:var(--rim)}"
    ".tinyjax-graph .q{fill:none;stroke:var(--rim);stroke-dasharray:3 3}"
    ".tinyjax-graph .i{fill:var(--end);stroke:var(--end-rim)}.tinyjax-graph .a{fill:var(--wire)}"
    ".tinyjax-graph .w,.tinyjax-graph .x{fill:none;stroke:var(--wire);stroke-width:1.1}"
    ".tinyjax-graph .x{stroke-dasharray:2 3}.tinyjax-graph .f{font-weight:600;fill:var(--op)}"
    ".tinyjax-graph text.d{fill:var(--dim)}"
)


def to_svg(program: AnyProgram, *, engine: Engine = "auto") -> Svg:
    """The program drawn as SVG, with a text on hover for each equation: a `str`, which notebooks show as a picture.

    `engine` "dot" asks Graphviz, and raises a GraphvizError if that isn't installed or fails; "own" is a layout of our
    own; "auto" is Graphviz if it is installed and the program has at most a few hundred equations.

    >>> from tinyjax import ShapedArray, make_jaxpr, numpy as tnp
    >>> picture = to_svg(make_jaxpr(lambda x: tnp.sin(x))(ShapedArray((3,), "float32")), engine="own")
    >>> picture.startswith("<svg"), repr(picture).partition(",")[0]
    (True, '<SVG')
    """
    if engine not in ("auto", "dot", "own"):
        raise InputError(f"engine is 'auto', 'dot' or 'own', not {engine!r}")
    closed = as_closed(program, "to_svg")
    jaxpr = closed.jaxpr
    parts = outline(jaxpr)
    if engine == "auto":
        small = sum(len(part.jaxpr.eqns) for part in parts) <= _LARGE
        engine = "dot" if small and shutil.which("dot") is not None else "own"
    return Svg(_graphviz(to_dot(program)) if engine == "dot" else _own(parts))


def _graphviz(text: str) -> str:
    dot = shutil.which("dot")
    if dot is None:
        raise GraphvizError(
            "Graphviz isn't installed: there is no program `dot` on the path. Install it (on Debian and Ubuntu: "
            "`apt install graphviz`; on macOS: `brew install graphviz`), or use `engine='own'`, which needs nothing."
        )
    done = subprocess.run([dot, "-Tsvg"], input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip() or f"it ended with code {done.returncode}"
        raise GraphvizError(f"Graphviz could not draw the program: {reason}. `engine='own'` does without it.")
    return done.stdout.decode()


@final
@frozen
class _Box:
    """One program, laid out: its nodes in order are inputs, equations, outputs."""

    layout: Layout
    texts: tuple[NodeText, ...]
    bounds: tuple[tuple[str, ...], tuple[str, ...]]
    sizes: tuple[tuple[float, float], ...]
    edges: tuple[tuple[int, int, float], ...]

    @property
    def size(self) -> tuple[float, float]:
        return self.layout.width, self.layout.height


def _own(parts: Sequence[Part]) -> str:
    boxes: dict[int, _Box] = {}
    for number in range(len(parts) - 1, -1, -1):  # a program comes after the one that it is shown in
        boxes[number] = _lay_out(parts[number], boxes)
    width, height = boxes[0].size
    width, height = width + 2 * _MARGIN, height + 2 * _MARGIN
    body = "".join(_draw(parts, boxes))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tinyjax-graph" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}"><style>{_STYLE}</style>'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        f'<path class="a" d="M0 1L8 4L0 7z"/></marker></defs>{body}</svg>\n'
    )


def _lay_out(part: Part, boxes: dict[int, _Box]) -> _Box:
    jaxpr = part.jaxpr
    names = variable_names(jaxpr)
    texts = tuple([node_text(eqn, names) for eqn in jaxpr.eqns])
    ins = tuple([input_text(jaxpr, position, names) for position in range(len(jaxpr.invars))])
    outs = tuple([atom_text(a, names) + (f":{a.aval}" if isinstance(a, Var) else "") for a in jaxpr.outvars])
    sizes = [(len(text) * _CHAR + 2 * _PAD, _ROW + 8.0) for text in ins]
    for position, text in enumerate(texts):
        sizes.append(_size(text, part.held.get(position, ()), boxes))
    sizes += [(len(text) * _CHAR + 2 * _PAD, _ROW + 8.0) for text in outs]
    makers = {var.index: position for position, var in enumerate(jaxpr.invars)}
    edges: list[tuple[int, int, float]] = []
    for position, eqn in enumerate(jaxpr.eqns, len(ins)):
        read = [atom.index for atom in eqn.invars if isinstance(atom, Var) and atom.index in makers]
        step = min(14.0, (sizes[position][0] - 16.0) / max(len(read), 1))
        for place, index in enumerate(read):
            edges.append((makers[index], position, (place - (len(read) - 1) / 2) * step))
        makers.update({var.index: position for var in eqn.outvars})
    for position, atom in enumerate(jaxpr.outvars, len(ins) + len(texts)):
        if isinstance(atom, Var) and atom.index in makers:
            edges.append((makers[atom.index], position, 0.0))
    layout = layered(sizes, [(start, end) for start, end, _ in edges])
    return _Box(layout, texts, (ins, outs), tuple(sizes), tuple(edges))


def _head_size(text: NodeText) -> tuple[float, float]:
    lines = (text.head, *text.parameters, *text.outputs)
    return max(map(len, lines)) * _CHAR + 2 * _PAD, len(lines) * _ROW + 10.0


def _size(text: NodeText, held: Sequence[Held], boxes: dict[int, _Box]) -> tuple[float, float]:
    width, height = _head_size(text)
    inner = [_frame(item, boxes) for item in held]
    if inner:
        width = max(width, sum(w for w, _ in inner) + _INSIDE * (len(inner) + 1))
        height += max(h for _, h in inner) + _INSIDE
    return width, height


def _frame(item: Held, boxes: dict[int, _Box]) -> tuple[float, float]:
    """The size of the frame around a program within; of the label alone if it is drawn elsewhere."""
    label = (len(item.label) + len(f" = @f{item.number}")) * _CHAR + 2 * _PAD
    if not item.here:
        return label, _ROW + 8.0
    width, height = boxes[item.number].size
    return max(label, width + 2 * _INSIDE), height + _ROW + 2 * _INSIDE


def _draw(parts: Sequence[Part], boxes: dict[int, _Box]) -> Iterator[str]:
    stack = [(0, _MARGIN, _MARGIN)]
    while stack:
        number, left, top = stack.pop()
        box, part = boxes[number], parts[number]
        yield from _wires(box, left, top)
        ins, outs = box.bounds
        for position, ((x, y), (width, height)) in enumerate(zip(box.layout.places, box.sizes, strict=True)):
            at = left + x - width / 2, top + y
            place = position - len(ins)
            if not 0 <= place < len(box.texts):
                text = ins[position] if place < 0 else outs[place - len(box.texts)]
                what = f"input {position}" if place < 0 else f"output {place - len(box.texts)}"
                yield _rect("i", *at, width, height, height / 2)
                yield f'<text x="{at[0] + _PAD:.1f}" y="{at[1] + 16:.1f}">{escape(text)}<title>{what}</title></text>\n'
                continue
            held = part.held.get(place, ())
            yield from _node(box.texts[place], *at, width, height, bool(held))
            right, upper = at[0] + _INSIDE, at[1] + _head_size(box.texts[place])[1]
            for item in held:
                across, down = _frame(item, boxes)
                name = f" = @f{item.number}" if parts[item.number].shared else ""
                yield _rect("c" if item.here else "q", right, upper, across, down, 6)
                label = f"{escape(item.label)}{name}"
                yield f'<text class="d" x="{right + _PAD:.1f}" y="{upper + 16:.1f}">{label}</text>\n'
                if item.here:
                    inset = (across - boxes[item.number].size[0]) / 2
                    stack.append((item.number, right + inset, upper + _ROW + _INSIDE))
                right += across + _INSIDE


def _rect(kind: str, x: float, y: float, width: float, height: float, radius: float) -> str:
    size = f'width="{width:.1f}" height="{height:.1f}" rx="{radius:.0f}"'
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" {size}/>'


def _node(text: NodeText, x: float, y: float, width: float, height: float, frame: bool) -> Iterator[str]:
    yield f"<g><title>{escape(text.hover)}</title>{_rect('b', x, y, width, height, 8 if frame else 6)}"
    operands = "".join(f" {operand}" for operand in text.operands)
    yield (
        f'<text x="{x + _PAD:.1f}" y="{y + 17:.1f}"><tspan class="f">{escape(text.primitive)}</tspan>'
        f"{escape(operands)}</text>"
    )
    for row, line in enumerate((*text.parameters, *text.outputs), 1):
        yield f'<text class="d" x="{x + _PAD:.1f}" y="{y + 17 + row * _ROW:.1f}">{escape(line)}</text>'
    yield "</g>\n"


def _wires(box: _Box, left: float, top: float) -> Iterator[str]:
    for (start, end, shift), route in zip(box.edges, box.layout.routes, strict=True):
        if route:
            points = [(left + x, top + y) for x, y in route]
            points[-1] = points[-1][0] + shift, points[-1][1]
            path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
            for (x, y), (v, w) in pairwise(points):
                middle = (y + w) / 2
                path.append(f"V{w:.1f}" if x == v else f"C{x:.1f} {middle:.1f} {v:.1f} {middle:.1f} {v:.1f} {w:.1f}")
            yield f'<path class="w" marker-end="url(#tip)" d="{"".join(path)}"/>\n'
        else:
            (x, y), (v, w) = box.layout.places[start], box.layout.places[end]
            y += box.sizes[start][1]
            yield f'<path class="x" d="M{left + x:.1f} {top + y:.1f}v10"/>'
            yield f'<path class="x" marker-end="url(#tip)" d="M{left + v + shift:.1f} {top + w - 16:.1f}v16"/>\n'
