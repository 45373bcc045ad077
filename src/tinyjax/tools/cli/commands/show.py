"""`tinyjax show`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tinyjax.api.jit import Jitted, jit
from tinyjax.ir.files.program_files import save
from tinyjax.ir.printing.printer import format_closed
from tinyjax.tools.cli.command import Command, add_program, color_of, subject_of
from tinyjax.tools.cli.functions import user_code
from tinyjax.tools.cli.lines import equations_with_sources
from tinyjax.tools.cli.streams import say
from tinyjax.tools.cli.subjects import Subject
from tinyjax.tools.cli.terminal import program_text


def _jaxpr(subject: Subject, color: bool) -> str:
    return program_text(str(subject.program()), color)


def _lines(subject: Subject, color: bool) -> str:
    return program_text(equations_with_sources(subject.program()), color)


def _jitted(subject: Subject) -> tuple[Jitted[..., Any], tuple[Any, ...]]:  # the user's arguments and results
    closed = subject.program()
    function = subject.function
    return function if isinstance(function, Jitted) else jit(function), subject.args or closed.in_avals


def _stablehlo(subject: Subject, color: bool) -> str:
    function, args = _jitted(subject)
    with user_code(f"lowering {subject.name}"):
        return function.lower(*args).as_text().rstrip()


def _generic(subject: Subject, color: bool) -> str:
    function, args = _jitted(subject)
    with user_code(f"lowering {subject.name}"):
        return function.lower(*args).as_text(generic=True).rstrip()


def _hlo(subject: Subject, color: bool) -> str:
    function, args = _jitted(subject)
    with user_code(f"compiling {subject.name}"):
        return function.lower(*args).compile().as_text().rstrip()


def _cost(subject: Subject, color: bool) -> str:
    from tinyjax.tools.cost import program_cost

    return program_cost(subject.program()).table()


def _dot(subject: Subject, color: bool) -> str:
    from tinyjax.tools.dot import to_dot

    return to_dot(subject.program()).rstrip()


def _svg(subject: Subject, color: bool) -> str:
    from tinyjax.tools.svg import to_svg

    return to_svg(subject.program()).rstrip()


#: How the names of saved programs end.
SAVED: Final = ".tinyjax"
_FORMS: Final[Mapping[str, Callable[[Subject, bool], str]]] = {
    "jaxpr": _jaxpr,
    "lines": _lines,
    "stablehlo": _stablehlo,
    "generic": _generic,
    "hlo": _hlo,
    "cost": _cost,
    "dot": _dot,
    "svg": _svg,
}


def _configure(parser: ArgumentParser) -> None:
    add_program(parser)
    parser.add_argument(
        "--as",
        dest="form",
        choices=tuple(_FORMS),
        default="jaxpr",
        help="jaxpr (default); lines: equations with the lines and transformations that made them; stablehlo; generic: "
        "that in MLIR's generic form; hlo: XLA's, optimised; cost: a table; dot: a graph for Graphviz; svg: the graph "
        "drawn",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=f"write it there; a jaxpr with its arrays, and as ir.save does if FILE ends in {SAVED}",
    )


def _run(options: Namespace) -> int:
    subject = subject_of(options)
    if options.output is None:
        say(_FORMS[options.form](subject, color_of(options)))
        return 0
    path = Path(options.output)
    if options.form == "jaxpr" and path.suffix == SAVED:
        save(path, subject.program())
    elif options.form == "jaxpr":
        path.write_text(f"{format_closed(subject.program())}\n", encoding="utf-8")
    else:
        path.write_text(f"{_FORMS[options.form](subject, False)}\n", encoding="utf-8")
    say(path)
    return 0


COMMAND: Final = Command(
    summary="show a program: as a jaxpr, StableHLO, optimised HLO, costs, a graph",
    details="Traces a function, or reads a program, transforms it, and prints what results.",
    examples="""\
  tinyjax show model.py:loss --args "f32[8,8]"
  tinyjax show model.py:loss --args "f32[5,8,8]" --transform grad,vmap,jit
  tinyjax show model.py:loss --args "f32[8,8]" --transform grad --as lines
  tinyjax show model.py:loss --args "f32[8,8]" -o loss.tinyjax
  tinyjax show model.py:loss --args "f32[8], {'w': f32[8]}" --transform "grad(argnums=1)" --as hlo
  tinyjax show program.jaxpr --passes all
  tinyjax show program.jaxpr --as svg -o program.svg
""",
    configure=_configure,
    run=_run,
)
