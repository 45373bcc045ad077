"""`tinyjax cost`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final

from tinyjax.tools.cli.command import Command, add_program, natural, subject_of
from tinyjax.tools.cli.streams import say


def _configure(parser: ArgumentParser) -> None:
    add_program(parser)
    parser.add_argument("--most", type=natural, default=20, metavar="N", help="show the N most expensive; 0: all")
    parser.add_argument(
        "--residuals", action="store_true", help="also what grad of the program keeps in memory between its two parts"
    )


def _run(options: Namespace) -> int:
    from tinyjax.tools.cost import program_cost, residual_memory

    program = subject_of(options).program()
    say(program_cost(program).table(most=options.most or None))
    if options.residuals:
        say(f"\n{residual_memory(program)}")
    return 0


COMMAND: Final = Command(
    summary="count operations, bytes moved and memory, without compiling",
    details="A table of what a program costs: by equation, by source line, and in total. Unknown costs are named.",
    examples="""\
  tinyjax cost model.py:loss --args "f32[8,8]"
  tinyjax cost model.py:loss --args "f32[8,8]" --transform grad --most 5
  tinyjax cost program.jaxpr --residuals
""",
    configure=_configure,
    run=_run,
)
