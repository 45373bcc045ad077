"""Where in the user's code an equation came from."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import Final, final

from attrs import frozen
from typing_extensions import override

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@final
@frozen
class SourceInfo:
    """A line of a user's program."""

    file: str
    line: int
    function: str

    @override
    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


def is_internal(code: CodeType) -> bool:
    """Whether this code is part of the library."""
    return code.co_filename.startswith(_PACKAGE)


def user_frame() -> FrameType | None:
    """The innermost frame that isn't the library's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame


def source_of_frame(frame: FrameType) -> SourceInfo:
    code = frame.f_code
    return SourceInfo(code.co_filename, frame.f_lineno, code.co_qualname)


def user_source() -> SourceInfo | None:
    """The line of user code that is being run."""
    frame = user_frame()
    return None if frame is None else source_of_frame(frame)


@final
class SourceCursor:
    """The line that new equations are attributed to.

    An interpretation sets `source` to the line of the equation that it is at, so that what it stages points there too;
    while a Python function is traced it is None, and the user's frame decides. It remembers lines already looked up.
    A `shared` cursor is that of evaluation, which stages nothing: threads share it, so it never points anywhere.
    """

    __slots__ = ("_known", "_shared", "_source")

    def __init__(self, shared: bool = False) -> None:
        self._source: SourceInfo | None = None
        self._shared = shared
        self._known: dict[tuple[CodeType, int], SourceInfo] = {}

    @property
    def source(self) -> SourceInfo | None:
        """The line of the equation that an interpretation is at."""
        return self._source

    @source.setter
    def source(self, line: SourceInfo | None) -> None:
        if not self._shared:
            self._source = line

    def private(self) -> SourceCursor:
        """A cursor for staging: this one, unless it is shared."""
        return SourceCursor() if self._shared else self

    def current(self) -> SourceInfo | None:
        if self._source is not None:
            return self._source
        frame = user_frame()
        if frame is None:
            return None
        key = (frame.f_code, frame.f_lasti)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = source_of_frame(frame)
        return found
