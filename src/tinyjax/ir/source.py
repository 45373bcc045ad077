"""Where an equation came from: a line of the user's code, and the transformations that it went through."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Final, final

from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.caching import PlainCache, bounded, register

#: How the names of files begin that no line of a user's is in: the library's, and those inside the interpreter.
_INTERNAL: Final = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep, "<frozen ")


@final
@frozen(cache_hash=True)
class SourceInfo:
    """A line of a user's program, and the transformations that made an equation of it: the last one first.

    `scope` is what `named_scope` called the part of the program where it is.

    >>> str(SourceInfo("model.py", 12, "loss", ("jvp", "vmap")))
    'jvp of vmap of model.py:12 (loss)'
    """

    file: str
    line: int
    function: str
    transformations: tuple[str, ...] = ()
    scope: str = ""

    @property
    def location(self) -> str:
        """The line alone, as text."""
        return f"{self.file}:{self.line} ({self.function})" if self.function else f"{self.file}:{self.line}"

    @property
    def untransformed(self) -> SourceInfo:
        """The line alone: the same for all equations that were made of it."""
        return evolve(self, transformations=()) if self.transformations else self

    def through(self, transformations: tuple[str, ...]) -> SourceInfo:
        """The same line, put through further transformations."""
        return evolve(self, transformations=(*transformations, *self.transformations))

    @override
    def __str__(self) -> str:
        where = f"{self.location} in {self.scope}" if self.scope else self.location
        return " of ".join((*self.transformations, where))


def is_internal(code: CodeType) -> bool:
    """Whether this code is part of the library."""
    return code.co_filename.startswith(_INTERNAL)


@bounded(4096)
def is_ours(cls: type) -> bool:
    """Whether this class is part of the library."""
    return cls.__module__.startswith(__name__.partition(".")[0] + ".")


def is_our_function(function: object) -> bool:
    """Whether this function is part of the library."""
    return str(getattr(function, "__module__", "")).startswith(__name__.partition(".")[0] + ".")


def user_frame() -> FrameType | None:
    """The innermost frame that isn't the library's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_INTERNAL):
        frame = frame.f_back
    return frame


def source_of_frame(frame: FrameType, transformations: tuple[str, ...] = ()) -> SourceInfo:
    code = frame.f_code
    return SourceInfo(code.co_filename, frame.f_lineno, code.co_qualname, transformations)


def user_source() -> SourceInfo | None:
    """The line of user code that is being run."""
    frame = user_frame()
    return None if frame is None else source_of_frame(frame)


#: Whether files are the library's, by their names.
_INSIDE: Final[PlainCache[str, bool]] = PlainCache(4096, "ir.source.files")
#: Lines by the instruction: by the identity of the code, which an entry keeps alive, and the place in it; and by the
#: transformations that they went through.
_LINES: Final[PlainCache[tuple[int, int, tuple[str, ...]], tuple[CodeType, SourceInfo]]] = PlainCache(
    16384, "ir.source.lines"
)
#: Lines put through further transformations, by the identity of the line, which an entry keeps alive.
_PASSED: Final[PlainCache[tuple[int, tuple[str, ...]], tuple[SourceInfo, SourceInfo]]] = PlainCache(
    16384, "ir.source.transformed"
)
for _cache in (_INSIDE, _LINES, _PASSED):
    register(_cache)


@final
class Position:
    """Where the contexts over one staging context are: at which line, and by which transformations."""

    __slots__ = ("scope", "source", "transformations")

    def __init__(self) -> None:
        #: What the part of the function is called that is being traced.
        self.scope: str = ""
        #: The line of the equation that an interpretation is at. None while a Python function is traced.
        self.source: SourceInfo | None = None
        #: Those which the primitive that is being applied goes through, the outermost first.
        self.transformations: tuple[str, ...] = ()

    def current(self, outside: int) -> SourceInfo | None:
        """The line of what is recorded now; the first `outside` transformations are yet to come."""
        source, by = self.source, self.transformations
        if outside:
            by = by[outside:]
        if source is not None:
            if not by:
                return source
            passed = _PASSED.entries.get((id(source), by))
            if passed is None:
                passed = _PASSED.put((id(source), by), (source, source.through(by)))
            return passed[1]
        return self.user_line(by)

    def user_line(self, by: tuple[str, ...] = ()) -> SourceInfo | None:
        """The line of user code that is being run, put through these transformations."""
        frame: FrameType | None = sys._getframe(2)  # whoever asks is no user
        internal = _INSIDE.entries
        while frame is not None:  # as user_frame() does, but many times
            file = frame.f_code.co_filename
            inside = internal.get(file)
            if inside is None:
                inside = _INSIDE.put(file, file.startswith(_INTERNAL))
            if not inside:
                break
            frame = frame.f_back
        else:
            return None
        code, at = frame.f_code, frame.f_lasti
        line = _LINES.entries.get((id(code), at, by))
        if line is None:
            line = _LINES.put((id(code), at, by), (code, source_of_frame(frame, by)))
        return evolve(line[1], scope=self.scope) if self.scope else line[1]


@final
class SourceCursor:
    """What new equations are attributed to.

    `transformations` are those of the context that has this cursor and of its parents, the outermost first: a context
    that transforms takes its parent's cursor with one more (`within`), any other the parent's own. All of them share a
    position. An interpretation sets `source` to the line of the equation that it is at, so that what it stages points
    there too; while a Python function is traced it is None, and the user's frame decides.

    A `shared` cursor is that of evaluation, which stages nothing: threads share it, so it never points anywhere.
    """

    __slots__ = ("_position", "transformations")

    def __init__(self, shared: bool = False) -> None:
        self._position: Position | None = None if shared else Position()
        self.transformations: tuple[str, ...] = ()

    def _of(self, position: Position | None, transformations: tuple[str, ...]) -> SourceCursor:
        cursor = SourceCursor(shared=True)
        cursor._position, cursor.transformations = position, transformations
        return cursor

    def within(self, transformation: str) -> SourceCursor:
        """The cursor of a context that applies a transformation, over the one that has this cursor."""
        return self._of(self._position, (*self.transformations, transformation))

    def private(self) -> SourceCursor:
        """A cursor for staging: this one, unless it is shared."""
        return self._of(Position(), self.transformations) if self._position is None else self

    def in_progress(self) -> SourceCursor:
        """This cursor, with the transformations that are being applied now: for a rule that is itself user code."""
        position = self._position
        if position is None or not position.transformations:
            return self
        return self._of(position, position.transformations)

    @property
    def to_attribute(self) -> Position | None:
        """Where to say which transformations apply; None where there are none, or where nothing is staged."""
        return self._position if self.transformations else None

    @property
    def position(self) -> Position:
        """Where it points. If it is shared, this is nobody's."""
        return Position() if self._position is None else self._position

    @property
    def source(self) -> SourceInfo | None:
        """The line of the equation that an interpretation is at."""
        return None if self._position is None else self._position.source

    @source.setter
    def source(self, line: SourceInfo | None) -> None:
        if self._position is not None:
            self._position.source = line

    @contextmanager
    def attributing(self) -> Iterator[Position]:
        """Attributes what is staged within the block to the transformations of this cursor. The line may be set, and
        is what it was before afterwards."""
        position = self.position
        before = position.source, position.transformations
        position.transformations = self.transformations
        try:
            yield position
        finally:
            position.source, position.transformations = before

    def current(self) -> SourceInfo | None:
        """The line of what is recorded now, by the staging context that has this cursor."""
        if self._position is None:
            return user_source()
        return self._position.current(len(self.transformations))
