"""The parser of the command line. `argparse` does, so that the command works wherever the library is installed."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final, NoReturn, final

from typing_extensions import override

from tinyjax.errors import TinyjaxError
from tinyjax.tools.cli.commands import COMMANDS
from tinyjax.tools.cli.failure import CommandError, UserCodeError, describe_error
from tinyjax.tools.cli.terminal import paint, wants_color

_DESCRIPTION: Final = """\
Shows, runs, checks and compares programs (jaxprs): those of functions in Python files, and those in files of their own.

A program is given as
  FILE.py:FUNC   a function in a Python file, with the types of its arguments in --args
  FILE           a text of a program, as tinyjax and JAX print it, or a file that ir.save wrote
  -              a text on standard input
"""
_EPILOG: Final = """\
examples:
  tinyjax show model.py:loss --args "f32[8,8], {'w': f32[8]}" --transform grad,jit
  tinyjax check program.jaxpr
  tinyjax diff before.jaxpr after.jaxpr
  tinyjax COMMAND --help

exit codes: 0 all is well; 1 a problem, or a difference, was found; 2 what was asked for can't be done
"""


@final
class _Parser(argparse.ArgumentParser):
    @override
    def error(self, message: str) -> NoReturn:
        """One line, instead of the usage too."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tinyjax",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    common = _Parser(add_help=False)
    group = common.add_argument_group("output")
    group.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: in a terminal")
    group.add_argument("--traceback", action="store_true", help="show where in the code an error was raised")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(
            name,
            parents=[common],
            help=command.summary,
            description=command.details,
            epilog=f"examples:\n{command.examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.configure(subparser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code. `arguments` are those of the process, unless others are given."""
    parser = make_parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as exit_:  # --help, or wrong usage, which argparse has told about
        return exit_.code if isinstance(exit_.code, int) else 2
    if options.version:
        from tinyjax import __version__

        print(f"tinyjax {__version__}")
        return 0
    if options.command is None:
        parser.print_help()
        return 2
    try:
        code = COMMANDS[options.command].run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever was reading has had enough, as in `tinyjax show ... | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (CommandError, UserCodeError, TinyjaxError, OSError) as error:
        if options.traceback:
            traceback.print_exception(error)
        label = paint("error:", "1;31", wants_color(sys.stderr, options.color))
        print(f"tinyjax {options.command}: {label} {describe_error(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return code
