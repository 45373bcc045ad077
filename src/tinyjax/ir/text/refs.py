"""Where JAX's Refs are read and written: `b[0,:]`.

Programs here have values only. So a name of a Ref is bound to what it holds, and bound anew where that is written; a
program that takes Refs takes what they hold, and returns what they hold at the end, after its results.
"""

from __future__ import annotations

from typing import final

from attrs import frozen

from tinyjax.ir.program import Atom
from tinyjax.ir.text.lexer import Tokens
from tinyjax.ir.text.scope import Scope
from tinyjax.ir.text.written import Computed, Index, Span


@final
@frozen
class Place:
    """`b[0,:][c]`: a Ref by name, an index of it and one of what that gives, and the operands in them."""

    name: str
    indices: tuple[Index, ...]
    operands: tuple[Atom, ...]


def read_place(tokens: Tokens, scope: Scope) -> Place:
    """The place that is here."""
    name = tokens.text.partition("[")[0]
    if not scope.is_ref(name):
        tokens.fail(f"{name} is no Ref, of which `name:Ref{{f32[3]}} = new_ref x` makes one")
    tokens.seek(tokens.start + len(name))
    indices: list[Index] = []
    operands: list[Atom] = []
    while tokens.text == "[" and (tokens.start == tokens.before or not indices):
        tokens.advance()
        indices.append(_index(tokens, scope, operands))
    if not indices:
        tokens.fail(f"expected an index after {name}, '[...]', got {tokens.shown()}")
    return Place(name, tuple(indices), tuple(operands))


def _index(tokens: Tokens, scope: Scope, operands: list[Atom]) -> Index:
    """What is within the brackets."""
    found: list[int | Span | Computed] = []
    if tokens.skip("."):
        tokens.take(".", "'...'")
        tokens.take(".", "'...'")
        tokens.take("]")
        return None
    while not tokens.skip("]"):
        found.append(_entry(tokens, scope, operands))
        if not tokens.skip(",") and tokens.text != "]":
            tokens.fail(f"expected ',' or ']', got {tokens.shown()}")
    return tuple(found)


def _entry(tokens: Tokens, scope: Scope, operands: list[Atom]) -> int | Span | Computed:
    """What is chosen along an axis: `1`, `a`, `1:3`, `:`, or `a:a+2`."""
    start = _number(tokens)
    if start is None and tokens.kind == "word":
        operands.append(scope.atom("a position"))
        if not tokens.skip(":"):
            return Computed()
        tokens.advance()  # the name again
        size = _number(tokens) if tokens.text == "+" and _past(tokens) else None
        return Computed(size) if size is not None else tokens.fail("expected a number: 'start:start+2'")
    if not tokens.skip(":"):
        return start if start is not None else tokens.fail(f"expected a position, got {tokens.shown()}")
    return Span(start or 0, _number(tokens))


def _past(tokens: Tokens) -> bool:
    tokens.advance()
    return True


def _number(tokens: Tokens) -> int | None:
    """The whole number that is here, if there is one."""
    if tokens.kind != "number" or not tokens.text.removeprefix("-").isdecimal():
        return None
    found = int(tokens.text)
    tokens.advance()
    return found
