"""The parser of the command line. `argparse` does, so that the command works wherever the library is installed."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn, final

from typing_extensions import override

from tinyjax.tools.cli.commands import COMMANDS
from tinyjax.tools.cli.failure import CommandError, describe_error
from tinyjax.tools.cli.streams import complain, open_what_is_closed, say, show_all_letters
from tinyjax.tools.cli.terminal import paint, wants_color

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

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
        complain(f"{self.prog}: error: {message} (see {self.prog} --help)")
        sys.exit(2)

    @override
    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        say(self.format_help().rstrip())


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
    if arguments is None:
        open_what_is_closed()
    show_all_letters()
    parser = make_parser()
    try:
        options = parser.parse_args(arguments)
        if options.version:
            from tinyjax import __version__

            say(f"tinyjax {__version__}")
            return 0
        if options.command is None:
            say(parser.format_help().rstrip())
            return 2
        return _run(options)
    except SystemExit as exit_:  # --help, or wrong usage, which argparse has told about
        return exit_.code if isinstance(exit_.code, int) else 2
    except (CommandError, OSError) as error:
        complain(f"tinyjax: error: {describe_error(error)}")
        return 2
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace) -> int:
    try:
        return COMMANDS[options.command].run(options)
    except Exception as error:  # noqa: BLE001 (no command ends in a traceback)
        if options.traceback:
            complain("".join(traceback.format_exception(error)).rstrip())
        label = paint("error:", "1;31", wants_color(sys.stderr, options.color))
        complain(f"tinyjax {options.command}: {label} {describe_error(error)}")
        return 2
