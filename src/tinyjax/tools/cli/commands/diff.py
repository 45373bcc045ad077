"""`tinyjax diff`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final

from tinyjax.tools.cli.command import Command, add_preparation, color_of, natural, subject_of
from tinyjax.tools.cli.streams import say


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("before", metavar="A", help="FILE.py:FUNC, or a file with a program, or - for a text")
    parser.add_argument("after", metavar="B", help="what to compare it with")
    parser.add_argument("--context", type=natural, default=2, metavar="N", help="equations around changes (default: 2)")
    parser.add_argument("--quiet", action="store_true", help="print nothing: the exit code says it")
    add_preparation(parser)


def _run(options: Namespace) -> int:
    from tinyjax.tools.diff_programs import diff

    found = diff(subject_of(options, options.before).program(), subject_of(options, options.after).program())
    if found and not options.quiet:
        say(found.text(color=color_of(options), context=options.context))
    return 1 if found else 0


COMMAND: Final = Command(
    summary="show what differs between two programs",
    details="Compares programs by structure, whatever their variables are called. The exit code is 1 if they differ.",
    examples="""\
  tinyjax diff before.jaxpr after.jaxpr
  tinyjax diff model.py:loss model.py:fast_loss --args "f32[8,8]"
  tinyjax show model.py:loss --args "f32[8]" --passes all | tinyjax diff model.py:loss - --args "f32[8]"
""",
    configure=_configure,
    run=_run,
)
