"""`tinyjax view`."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from tinyjax.tools.cli.command import Command, add_program, subject_of
from tinyjax.tools.cli.streams import say


def _configure(parser: ArgumentParser) -> None:
    add_program(parser)
    parser.add_argument("-o", "--output", metavar="FILE.html", help="write the page there, and don't open it")
    parser.add_argument("--open", action="store_true", help="open the page even if it is written to FILE.html")


def _run(options: Namespace) -> int:
    from tinyjax.tools.viewer import save_html

    subject = subject_of(options)
    program = subject.program()
    if options.output is None:
        handle, name = tempfile.mkstemp(prefix="tinyjax-", suffix=".html")
        os.close(handle)
    else:
        name = options.output
    path = Path(name)
    save_html(path, program, title=subject.name)
    say(path)
    if options.open or options.output is None:
        webbrowser.open(path.resolve().as_uri())
    return 0


COMMAND: Final = Command(
    summary="read a program in the browser",
    details="Makes a page of a program, one HTML file with everything in it, and opens it, or writes it to a file.",
    examples="""\
  tinyjax view model.py:loss --args "f32[8,8]" --transform grad
  tinyjax view program.jaxpr -o program.html
""",
    configure=_configure,
    run=_run,
)
