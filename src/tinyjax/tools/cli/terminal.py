"""Colours, for terminals only."""

from __future__ import annotations

import os
import re
from typing import Final, Literal, TextIO, TypeAlias

When: TypeAlias = Literal["auto", "always", "never"]

_WORDS: Final = r"(?:lambda|let|in)\b"
#: What is coloured in the text of a program, and how. Types come before names, which they begin with.
_PARTS: Final = {
    "type": (r":~?\w+\[[\d,]*\]", "36"),
    "text": (r"'(?:[^'\\\n]|\\.)*'", "32"),
    "word": (_WORDS, "1"),
    "comment": (r"#.*", "2"),
    "key": (r"\b\w+=(?!=)", "2"),
    "primitive": (r"(?<== )[\w-]+", "34"),
    "number": (r"(?<![\w.])-?(?:\d[\w.]*(?:[+-]\d+)?|inf\b|nan\b)", "35"),
}
_TOKEN: Final = re.compile("|".join(f"(?P<{name}>{rule})" for name, (rule, _) in _PARTS.items()))


def wants_color(stream: TextIO | None, when: When) -> bool:
    """Whether to colour what is written to a stream: by default if it is a terminal, and nobody has set NO_COLOR."""
    if when != "auto":
        return when == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False


def paint(text: str, code: str, color: bool) -> str:
    """The text, in a colour if there is to be one."""
    return f"\x1b[{code}m{text}\x1b[0m" if color else text


def program_text(text: str, color: bool) -> str:
    """The text of a program, with types, primitives, numbers and words in colours.

    >>> program_text("{ lambda ; a:f32[]. let  in (a,) }", color=False)
    '{ lambda ; a:f32[]. let  in (a,) }'
    """
    if not color:
        return text
    return _TOKEN.sub(lambda m: paint(m[0], _PARTS[m.lastgroup or "word"][1], color), text)
