"""`tinyjax partition`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final

from tinyjax.tools.cli.command import Command, add_program, subject_of
from tinyjax.tools.cli.streams import say


def _configure(parser: ArgumentParser) -> None:
    add_program(parser)
    group = parser.add_argument_group("mesh")
    group.add_argument(
        "--mesh", metavar="SIZES", help="the axes and their sizes: x=4,y=2; default: that of the program"
    )
    group.add_argument(
        "--shardings",
        metavar="SPECS",
        help="how arguments lie, one for all, for each, or for each array: \"P('x'), {'w': P(None, 'y'), 'b': None}\"",
    )
    group.add_argument("--out-shardings", metavar="SPECS", help="the same for results; default: as XLA chooses")
    parser.add_argument("--no-compile", action="store_true", help="only what the program itself says, without XLA")
    parser.add_argument("--json", action="store_true", help="the report in JSON")


def _run(options: Namespace) -> int:
    from tinyjax.tools.cli.shardings import for_each_array, parse_mesh, parse_shardings
    from tinyjax.tools.partitioning import partition

    mesh = None if options.mesh is None else parse_mesh(options.mesh)
    given = None if options.shardings is None else parse_shardings("--shardings", options.shardings)
    outs = None if options.out_shardings is None else parse_shardings("--out-shardings", options.out_shardings)
    subject = subject_of(options)
    program = subject.program()
    ins = given if subject.args is None else for_each_array(given, subject.args)
    report = partition(program, mesh, ins, out_shardings=outs, compile=not options.no_compile)
    say(report.to_json() if options.json else str(report))
    return 0


COMMAND: Final = Command(
    summary="tell what devices of a mesh will send each other, and the memory of each, before anything runs",
    details="Tables of what devices tell each other, by source line, of what XLA gathers though nothing asks for it, "
    "and of how arrays lie. The mesh needs no devices.",
    examples="""\
  tinyjax partition model.py:loss --args "f32[64,64], f32[128,64]" --mesh x=4,y=2 --shardings "P(None,'y'), P('x')"
  tinyjax partition model.py:loss --args "f32[64,64]" --transform grad --mesh x=1024 --shardings "P('x')"
  tinyjax partition pipeline.py:step --args "f32[8,8]" --no-compile
""",
    configure=_configure,
    run=_run,
)
