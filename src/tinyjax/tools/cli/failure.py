"""What a command says when it can't do what was asked."""

from __future__ import annotations

import traceback
from types import TracebackType
from typing import final

from tinyjax.errors import TinyjaxError
from tinyjax.ir.source import is_internal


@final
class CommandError(Exception):
    """Something is wrong with the arguments of a command, or with the files that they name. Its text says what."""


@final
class UserCodeError(Exception):
    """A file or a function of the user's raised: `what` did, and the exception is `error`."""

    def __init__(self, what: str, error: BaseException) -> None:
        super().__init__(what)
        self.what = what
        self.error = error


def describe_error(error: BaseException) -> str:
    """One line for what users' code raised; the whole message of an error of the library, which is made to be read."""
    if isinstance(error, UserCodeError):
        inner = error.error
        where = _where(inner.__traceback__)
        if isinstance(inner, TinyjaxError):
            if not where:
                inner.called = None  # the command is what the user called
            return f"{error.what}: {inner}{where}"
        return f"{error.what} raised {_one_line(inner)}{where}"
    if isinstance(error, TinyjaxError):
        error.called = None
    if isinstance(error, CommandError | TinyjaxError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"there is not enough memory{f': {error}' if str(error) else ''}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return _one_line(error)


def _one_line(error: BaseException) -> str:
    said = traceback.TracebackException.from_exception(error)
    said.__notes__ = []  # JAX has one about its frames
    text = list(said.format_exception_only())[-1].strip()
    return " ".join(text.split("\n", 1)[:1])


def _where(found: TracebackType | None) -> str:
    """The last line of the user's code that an exception came through: JAX's own where there is no other."""
    where = within = ""
    while found is not None:
        code = found.tb_frame.f_code
        if not is_internal(code) and not code.co_filename.startswith("<frozen"):
            within = f" (at {code.co_filename}:{found.tb_lineno})"
            where = where if found.tb_frame.f_globals.get("__name__", "").partition(".")[0] == "jax" else within
        found = found.tb_next
    return where or within
