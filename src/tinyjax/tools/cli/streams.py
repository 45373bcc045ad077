"""Standard input and output: each may be closed, broken, full, or unable to show a letter."""

from __future__ import annotations

import os
import sys
import unicodedata
from contextlib import suppress
from typing import TextIO

from tinyjax.tools.cli.failure import CommandError


def open_what_is_closed() -> None:
    """Opens the null device in the place of standard streams that are closed, or the next file would take it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def show_all_letters() -> None:
    """What the encoding of standard output or standard error lacks is shown as an escape."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def say(text: object) -> None:
    """Prints a line to standard output. Nothing happens if whoever was reading it has had enough, as `head` has."""
    stream: TextIO | None = sys.stdout
    if stream is None:
        raise CommandError("standard output is closed")
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        _ignore(stream)
    except OSError:
        _ignore(stream)
        raise
    except ValueError as error:  # closed by the user's code
        raise CommandError(f"standard output can't be written: {error}") from None


def complain(text: str) -> None:
    """Prints a line to standard error, if there is anybody to read it."""
    stream: TextIO | None = sys.stderr
    if stream is None:
        return
    try:
        print(text, file=stream, flush=True)
    except (OSError, ValueError):
        _ignore(stream)


def read_all() -> bytes:
    """What comes on standard input."""
    stream: TextIO | None = sys.stdin
    if stream is None:
        raise CommandError("standard input is closed")
    try:
        binary = getattr(stream, "buffer", None)
        found: bytes | str = stream.read() if binary is None else binary.read()
    except (OSError, ValueError) as error:
        raise CommandError(f"standard input can't be read: {error}") from None
    return found.encode("utf-8", "surrogatepass") if isinstance(found, str) else found


def as_python_reads(name: str) -> str:
    """A name on the command line as Python has it: read as UTF-8 in every locale, and in the normal form of names."""
    with suppress(UnicodeError):  # or it is in another encoding, which the locale has decoded
        name = os.fsencode(name).decode("utf-8")
    return unicodedata.normalize("NFKC", name)


def _ignore(stream: TextIO) -> None:
    """Sends what is left in a stream nowhere, so that nothing fails when the process ends."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)
