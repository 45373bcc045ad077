"""Text made of pieces that are made when they are needed, however deeply programs are nested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

Pieces: TypeAlias = "Iterator[str | Pieces]"


def joined(pieces: Pieces) -> str:
    """The whole text, without recursion."""
    done: list[str] = []
    stack = [pieces]
    while stack:
        for piece in stack[-1]:
            if isinstance(piece, str):
                done.append(piece)
            else:
                stack.append(piece)
                break
        else:
            stack.pop()
    return "".join(done)
