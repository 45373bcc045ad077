"""What `--args` says: types of arrays, Python literals, and trees of both.

    arguments = [[name "="] item {[","] [name "="] item}]
    item      = type | literal | "[" items "]" | "(" items ")" | "{" key ":" item {"," ...} "}"

A type is written as in programs: `f32[8,8]`, `~f64[]` for a weak one, `key<fry>[]` for a key. Nothing is evaluated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, final

from attrs import frozen

from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.text.scalars import read_aval
from tinyjax.tools.cli.failure import CommandError
from tinyjax.tools.cli.streams import as_python_reads

#: What an argument is: a type, a literal, or a tree of them.
Argument: TypeAlias = "ShapedArray | Fixed | list[Argument] | tuple[Argument, ...] | dict[object, Argument]"

_STRING: Final = r"""[rRbB]{0,2}(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")"""
_NUMBER: Final = r"[+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?[jJ]?(?!\w)"
_TOKEN: Final = re.compile(
    rf"\s*(?:(?P<aval>~?[^\W\d]\w*(?:<\w+>)?\s*\[[\d,\s]*\])|(?P<string>{_STRING})|(?P<number>{_NUMBER})"
    r"|(?P<word>\w+)|(?P<mark>[][(){},:])|(?P<end>\Z)|(?P<other>.))",
    re.DOTALL,
)
_WORDS: Final = {"True": True, "False": False, "None": None}
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
#: Deeper trees are no use, and would need more of Python's stack than there is.
_DEEPEST: Final = 100


@final
@frozen
class Fixed:
    """A Python literal: it isn't traced."""

    value: object


@final
@frozen
class Arguments:
    """What a function is called with: by position, and by name."""

    positional: tuple[Argument, ...]
    named: Mapping[str, Argument] = {}


def parse_arguments(text: str) -> Arguments:
    """The arguments that a text is of; a CommandError that shows the place for anything else.

    >>> parse_arguments("f32[8,8], {'w': f32[3]} scale=2").positional
    (ShapedArray(f32[8,8]), {'w': ShapedArray(f32[3])})
    """
    return _Reader(text).whole()


@final
class _Reader:
    def __init__(self, text: str) -> None:
        self._source = text
        self._matches: Iterator[re.Match[str]] = _TOKEN.finditer(text)
        self._kind = self._text = ""
        self._start = self._depth = 0
        self._advance()

    def _advance(self) -> None:
        match = next(self._matches, None)
        kind = None if match is None else match.lastgroup
        if match is None or kind is None:
            self._kind, self._text, self._start = "end", "", len(self._source)
        else:
            self._kind, self._text, self._start = kind, match[kind], match.start(kind)

    def _fail(self, problem: str) -> CommandError:
        # One line, with the place marked in it.
        before, after = self._source[: self._start], self._source[self._start :]
        return CommandError(f"--args: {problem}, at column {self._start + 1}: {before}>>>{after}")

    def _shown(self) -> str:
        return "the end" if self._kind == "end" else repr(self._text)

    def whole(self) -> Arguments:
        """Arguments up to the end. Commas between them may be left out."""
        positional: list[Argument] = []
        named: dict[str, Argument] = {}
        while self._kind != "end" and self._text not in (")", "]", "}"):
            name = self._name()
            if name is None and named:
                raise self._fail("arguments by position come before those by name")
            if name is None:
                positional.append(self._item())
            elif name in named:
                raise self._fail(f"{name} is given twice")
            else:
                named[name] = self._item()
            if self._text == ",":
                self._advance()
        if self._kind != "end":
            raise self._fail(f"expected a type or a literal, got {self._shown()}")
        return Arguments(tuple(positional), named)

    def _name(self) -> str | None:
        """The name before an `=`, which is read with it."""
        text = self._text
        if self._kind != "word" or not self._source[self._start + len(text) :].lstrip().startswith("="):
            return None
        if not text.isidentifier():
            raise self._fail(f"{text} is no name")
        self._advance()
        self._advance()
        return as_python_reads(text)

    def _items(self, closing: str) -> list[Argument]:
        """Items up to a closing bracket, which stays."""
        found: list[Argument] = []
        while self._kind != "end" and self._text not in (")", "]", "}"):
            found.append(self._item())
            if self._text == ",":
                self._advance()
            elif self._text != closing:
                raise self._fail(f"expected ',' or {closing!r}, got {self._shown()}")
        return found

    def _item(self) -> Argument:
        kind, text = self._kind, self._text
        if kind == "aval":
            try:
                aval = read_aval("".join(text.split()))
            except InputError as error:
                raise self._fail(str(error)) from None
            self._advance()
            return aval
        if kind == "mark" and text in _CLOSING:
            return self._tree(text)
        return Fixed(self._literal())

    def _literal(self) -> object:
        kind, text = self._kind, self._text
        if kind == "word" and text in _WORDS:
            self._advance()
            return _WORDS[text]
        if kind in ("string", "number"):
            try:
                value: object = ast.literal_eval(text)
            except (SyntaxError, ValueError):
                raise self._fail(f"{text} is no literal") from None
            self._advance()
            return value
        if kind == "word" and self._source[self._start + len(text) :].lstrip().startswith("["):
            raise self._fail(f"expected a type such as {text}[8,8]: sizes and a closing bracket")
        if kind == "word":
            raise self._fail(f"{text!r} is neither a type such as f32[8,8] nor a literal; strings are quoted")
        raise self._fail(f"expected a type such as f32[8,8] or a literal, got {self._shown()}")

    def _tree(self, opening: str) -> Argument:
        if self._depth == _DEEPEST:
            raise self._fail(f"trees may be {_DEEPEST} deep")
        self._depth += 1
        self._advance()
        result: Argument
        if opening == "{":
            result = self._entries()
        else:
            items = self._items(_CLOSING[opening])
            result = items if opening == "[" else tuple(items)
            if opening == "(" and len(items) == 1 and self._previous_is_item():
                result = items[0]
        if self._text != _CLOSING[opening]:
            raise self._fail(f"expected {_CLOSING[opening]!r}, got {self._shown()}")
        self._advance()
        self._depth -= 1
        return result

    def _previous_is_item(self) -> bool:
        """Whether there is no comma before the closing bracket: then `(x)` is x."""
        return not self._source[: self._start].rstrip().endswith(",")

    def _entries(self) -> dict[object, Argument]:
        found: dict[object, Argument] = {}
        while self._kind != "end" and self._text != "}":
            key = self._literal()
            if self._text != ":":
                raise self._fail(f"expected ':' after the key {key!r}, got {self._shown()}")
            self._advance()
            found[key] = self._item()
            if self._text == ",":
                self._advance()
            elif self._text != "}":
                raise self._fail(f"expected ',' or '}}', got {self._shown()}")
        return found


# What is traced of them, and what is fixed.


def leaves_of(argument: Argument) -> list[ShapedArray]:
    """The types in an argument, in the order in which trees are flattened: dictionaries by their sorted keys."""
    if isinstance(argument, ShapedArray):
        return [argument]
    return [aval for item in _children(argument) for aval in leaves_of(item)]


def is_fixed(argument: Argument) -> bool:
    """Whether there is nothing to trace in an argument."""
    return not leaves_of(argument)


def traced_part(argument: Argument, make: Callable[[ShapedArray], object]) -> object:
    """The argument as a tree of what `make` makes of types, with None in the place of literals."""
    if isinstance(argument, ShapedArray):
        return make(argument)
    if isinstance(argument, Fixed):
        return None
    if isinstance(argument, dict):
        return {key: traced_part(item, make) for key, item in argument.items()}
    items = [traced_part(item, make) for item in argument]
    return items if isinstance(argument, list) else tuple(items)


def filled(argument: Argument, traced: object) -> object:
    """The tree with its literals again: what `traced_part` was of."""
    if isinstance(argument, Fixed):
        return argument.value
    if isinstance(argument, dict) and isinstance(traced, dict):
        return {key: filled(item, traced[key]) for key, item in argument.items()}
    if isinstance(argument, list | tuple) and isinstance(traced, list | tuple):
        items = [filled(item, value) for item, value in zip(argument, traced, strict=True)]
        return items if isinstance(argument, list) else tuple(items)
    return traced


def _children(argument: Argument) -> Sequence[Argument]:
    if isinstance(argument, dict):
        return [argument[key] for key in sorted(argument, key=repr)]
    return argument if isinstance(argument, list | tuple) else ()
