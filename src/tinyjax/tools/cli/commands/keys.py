"""`tinyjax keys`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final

from tinyjax.tools.cli.command import Command, add_program, subject_of
from tinyjax.tools.cli.streams import say


def _configure(parser: ArgumentParser) -> None:
    add_program(parser)


def _run(options: Namespace) -> int:
    from tinyjax.control.key_reuse import key_reuse

    found = key_reuse(subject_of(options).program())
    for reuse in found:
        say(str(reuse))
    return 1 if found else 0


COMMAND: Final = Command(
    summary="find keys of random numbers that are used twice",
    details="Keys of which random numbers are made twice, with both lines. The exit code is 1 if there are any.",
    examples="""\
  tinyjax keys model.py:loss --args "key<fry>[], f32[8]"
  tinyjax keys program.jaxpr
""",
    configure=_configure,
    run=_run,
)
