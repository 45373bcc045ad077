"""`tinyjax check`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import Final

from tinyjax.errors import FileFormatError, ParseError, VerificationError
from tinyjax.ir.program_type import JaxprType
from tinyjax.tools.cli.command import Command, add_preparation, color_of, subject_of
from tinyjax.tools.cli.failure import CommandError, UserCodeError, describe_error
from tinyjax.tools.cli.streams import complain, say
from tinyjax.tools.cli.terminal import paint, wants_color


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "programs", nargs="+", metavar="PROGRAM", help="files with programs, - for a text, FILE.py:FUNC"
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing of programs that are valid")
    add_preparation(parser)


def _run(options: Namespace) -> int:
    invalid = unreadable = 0
    for spec in options.programs:
        try:
            program = subject_of(options, spec).program()
        except (ParseError, FileFormatError, VerificationError) as error:
            invalid += 1
            label = paint("invalid:", "1;31", wants_color(sys.stderr, options.color))
            complain(f"{spec}: {label} {error}")
        except (CommandError, UserCodeError, OSError) as error:
            unreadable += 1
            label = paint("error:", "1;31", wants_color(sys.stderr, options.color))
            complain(f"{spec}: {label} {describe_error(error)}")
        else:
            if not options.quiet:
                kind = JaxprType(program.in_avals, program.out_avals)
                count = len(program.eqns)
                label = paint("ok:", "32", color_of(options))
                say(f"{spec}: {label} {kind}, {count} equation{'' if count == 1 else 's'}")
    return 2 if unreadable else 1 if invalid else 0


COMMAND: Final = Command(
    summary="check that programs are well-formed and well-typed",
    details="Reads programs and verifies them. The exit code is 1 if one is invalid: the message shows where.",
    examples="""\
  tinyjax check program.jaxpr
  tinyjax check *.jaxpr --quiet
  tinyjax show model.py:loss --args "f32[8]" | tinyjax check -
""",
    configure=_configure,
    run=_run,
)
