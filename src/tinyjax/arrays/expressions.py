"""The user's expression that a frame is at, for messages.

Python says where the code of an instruction stands. From 3.12 on that is less than what is wanted here where the value
of a condition is asked for, or a part of a text is made: `n` of `1.0 if n else 2.0`, `{n}` of `f"{n} and {m}"`.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from itertools import islice
from types import FrameType
from typing import TypeAlias

#: The first and the last line, and the columns in bytes.
Place: TypeAlias = tuple[int, int, int, int]


def expression_at(frame: FrameType) -> ast.expr | None:
    """The expression that a frame is at; None if there is no source."""
    place = _place(frame)
    if place is None:
        return None
    first, last, start, end = place
    lines = [line.encode() for line in linecache.getlines(frame.f_code.co_filename, frame.f_globals)[first - 1 : last]]
    if len(lines) != last - first + 1:
        return None
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        return ast.parse(f"({b''.join(lines).decode()})", mode="eval").body
    except (SyntaxError, ValueError):
        return None


def choice_at(frame: FrameType) -> ast.IfExp | None:
    """The `a if b else c` of whose condition, or a part of it, a frame asks the value."""
    found = (node for node in _nodes(frame) if isinstance(node, ast.IfExp))
    return next((node for node in found if _is_at(frame, node, *_conditions(node.test))), None)


def text_at(frame: FrameType) -> ast.JoinedStr | None:
    """The f-string of which a frame makes a part."""
    found = (node for node in _nodes(frame) if isinstance(node, ast.JoinedStr))
    return next((node for node in found if _is_at(frame, node, *node.values)), None)


def _place(frame: FrameType) -> Place | None:
    first, last, start, end = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    if first is None or last is None or start is None or end is None:
        return None
    return first, last, start, end


def _nodes(frame: FrameType) -> Iterator[ast.AST]:
    """What the source of a frame consists of, outer things first."""
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    try:
        yield from ast.walk(ast.parse("".join(lines)))
    except (SyntaxError, ValueError):
        return


def _is_at(frame: FrameType, *nodes: ast.expr) -> bool:
    """Whether a frame is at one of these expressions."""
    place = _place(frame)
    return any(place == (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) for node in nodes)


def _conditions(test: ast.expr) -> Iterator[ast.expr]:
    """The parts of a condition whose value is asked for, each by itself."""
    yield test
    parts: list[ast.expr] = []
    if isinstance(test, ast.BoolOp):
        parts = test.values
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        parts = [test.operand]
    elif isinstance(test, ast.IfExp):
        parts = [test.test, test.body, test.orelse]
    for part in parts:
        yield from _conditions(part)
