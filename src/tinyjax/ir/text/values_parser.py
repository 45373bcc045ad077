"""Reads parameters: numbers, strings, tuples, records, enumerations, dtypes, types, arrays and programs."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, Protocol, TypeAlias, TypeVar

import numpy as np

from tinyjax.errors import InputError, ParseError, TinyjaxError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import Literal
from tinyjax.ir.text.lexer import Tokens
from tinyjax.ir.text.registry import Member, Record, Registry, Unreadable
from tinyjax.ir.text.scalars import (
    DTYPE_WORDS,
    read_array,
    read_aval,
    read_complex,
    read_dtype,
    read_number,
    read_numpy_array,
    read_string,
)

T = TypeVar("T")
#: A rule of the grammar. It yields the rules that it consists of and is sent what they found, so that one loop runs
#: them, and nesting costs no recursion.
Rule: TypeAlias = "Generator[Rule, object, object]"

_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_CONSTANT_WORDS: Final[dict[str, object]] = {"None": None, **DTYPE_WORDS}
#: Parameters in which the dtype of a scalar of NumPy's counts: its numbers are literals.
_TYPED_KEYS: Final = ("attributes",)
#: Parameters in which JAX writes a program by a name.
_PROGRAM_KEYS: Final = ("jaxpr", "branches")


class Programs(Protocol):
    """What reads the programs among the parameters."""

    @property
    def tokens(self) -> Tokens: ...
    @property
    def registry(self) -> Registry: ...
    def program(self) -> Rule: ...
    def defined(self, name: str) -> Rule | None:
        """What is called so by a definition."""
        ...

    def nested(self) -> Rule:
        """A program with definitions of its own before it."""
        ...


def run(rule: Rule) -> object:
    """What a rule finds."""
    stack = [rule]
    found: object = None
    while stack:
        try:
            inner = stack[-1].send(found)
        except StopIteration as end:
            found = end.value
            stack.pop()
        else:
            stack.append(inner)
            found = None
    return found


def guarded(tokens: Tokens, at: int, read: Callable[[], T]) -> T:
    """read(), whose errors point at a place in the text."""
    try:
        return read()
    except ParseError:
        raise
    except RecursionError as error:
        tokens.fail("parameters are nested too deeply", at, error)
    except (TinyjaxError, TypeError, ValueError, LookupError, AttributeError) as error:
        tokens.fail(str(error), at, error)


def value(programs: Programs, key: str) -> Rule:
    """A parameter, or a part of the parameter called `key`; not yet resolved by the registry."""
    tokens = programs.tokens
    kind, text, start = tokens.kind, tokens.text, tokens.start
    if kind == "number":
        tokens.advance()
        return guarded(tokens, start, lambda: read_number(text))
    if kind == "unquoted":
        tokens.advance()
        return text
    if kind == "mark" and text == "]" and key == "name":  # an empty one
        return ""
    if tokens.at_definition():
        return (yield programs.nested())
    if kind == "word":
        tokens.advance()
        if text in _CONSTANT_WORDS:
            return _CONSTANT_WORDS[text]
        rule = programs.defined(text) if key.endswith(_PROGRAM_KEYS) else None
        return text if rule is None else (yield rule)
    if kind == "mark" and text == "{":
        tokens.advance()
        if tokens.kind == "word" and tokens.text == "lambda":
            tokens.seek(start)
            return (yield programs.program())
        items = yield _items(programs, "}", key)
        return guarded(tokens, start, lambda: _set(items))
    if kind == "mark" and text in ("(", "["):
        tokens.advance()
        return (yield _items(programs, _CLOSING[text], key))
    if kind == "call":
        tokens.advance()
        return (yield _call(programs, text.removesuffix("("), start, outer=key))
    if kind == "reference":
        rule = programs.defined(text)
        if rule is None:
            tokens.fail(f"nothing is defined as {text}; definitions are written `let {text} = ... in`")
        tokens.advance()
        return (yield rule)
    if kind == "held":
        tokens.advance()
        return guarded(tokens, start, lambda: programs.registry.type_named(text[5:-1]))
    if kind == "binder" and text.endswith("]"):
        tokens.fail(f"expected a value, got {tokens.shown()}")
    found = _simple(tokens, kind, text)
    if found is not None:
        return found
    return _unreadable(tokens)


def _simple(tokens: Tokens, kind: str, text: str) -> object:
    """The value of a token that is one by itself; None if it isn't."""
    start = tokens.start
    if kind in ("string", "bytes"):
        tokens.advance()
        return guarded(tokens, start, lambda: read_string(text))
    if kind == "complex":
        tokens.advance()
        return guarded(tokens, start, lambda: read_complex(text))
    if kind == "aval":
        tokens.advance()
        return guarded(tokens, start, lambda: read_aval(text))
    if kind == "member":
        tokens.advance()
        enumeration, _, name = text.rpartition(".")
        return {"np.True_": True, "np.False_": False}.get(text, Member(enumeration, name))
    if kind == "angled":
        tokens.advance()
        return Unreadable(text)
    return None


def _items(programs: Programs, closing: str, key: str) -> Rule:
    """The items of a tuple, a list or a set up to the closing bracket. Between lines, and between names of programs,
    there may be no commas."""
    tokens = programs.tokens
    items: list[object] = []
    while not (tokens.kind == "mark" and tokens.text == closing):
        item = yield value(programs, key)
        if closing == "}" and tokens.skip(":"):
            item = Record("", ((str(item), (yield value(programs, key))),))
        items.append(item)
        named = key.endswith(_PROGRAM_KEYS) and tokens.kind == "word"
        if not tokens.skip(",") and not tokens.starts_line() and not named and tokens.text != closing:
            tokens.fail(f"expected ',' or {closing!r}, got {tokens.shown()}")
    tokens.advance()
    return tuple(items)


def _set(items: object) -> object:
    """A frozenset; or, of what was written as a dictionary, a record."""
    if not isinstance(items, tuple):
        return items
    entries = [item.fields[0] for item in items if isinstance(item, Record) and item.name == ""]
    return Record("dict", tuple(entries)) if entries else frozenset(items)


def _call(programs: Programs, name: str, start: int, outer: str) -> Rule:
    """What follows `name(`: a record's fields, an array's type and elements, or the names and sizes of a mesh. `outer`
    is the parameter that it is part of."""
    tokens, passed = programs.tokens, outer if outer in _TYPED_KEYS else ""
    fields: list[tuple[str, object]] = []
    while not (tokens.kind == "mark" and tokens.text == ")"):
        key = ""
        if tokens.kind == "key":
            key = tokens.text[:-1]
            if any(key == other for other, _ in fields):
                tokens.fail(f"the field {key!r} of {name} is given twice")
            tokens.advance()
        item = yield value(programs, key or passed)
        if not key and tokens.skip(":"):
            item = Record("", ((str(item), (yield value(programs, key))),))
        fields.append((key, item))
        if not tokens.skip(",") and not tokens.starts_line() and tokens.text != ")":
            tokens.fail(f"expected ',' or ')', got {tokens.shown()}")
    tokens.advance()
    return guarded(tokens, start, lambda: _made(name, tuple(fields), bool(passed)))


def _made(name: str, fields: tuple[tuple[str, object], ...], typed: bool) -> object:
    items = [item for _, item in fields]
    if name == "array" and len(items) == 2:
        aval, elements = items
        if isinstance(aval, ShapedArray) and isinstance(elements, tuple | str):
            return read_array(aval, elements)
    if name == "array":
        found = read_numpy_array(fields)
        if found is None:
            raise InputError('an array is written array(type, [elements]) or array(type, "bytes in base 64")')
        return found
    if name == "dtype" and len(items) == 1:
        return read_dtype(items[0])
    if name.startswith("np.") and len(items) == 1 and isinstance(items[0], int | float | complex):
        found = getattr(np, name.removeprefix("np."), None)
        if isinstance(found, type) and issubclass(found, np.number | np.bool_):
            return Literal.of(items[0], np.dtype(found)) if typed else items[0]
    return Record(name, fields)


def _unreadable(tokens: Tokens) -> Unreadable:
    """Goes past what can't be read: to the next mark that can end it, or the next parameter."""
    start, depth = tokens.start, 0
    while tokens.kind != "end":
        if depth == 0 and (tokens.kind == "key" or (tokens.kind == "mark" and tokens.text in "])},;")):
            break
        if tokens.kind == "call" or (tokens.kind == "mark" and tokens.text in _CLOSING):
            depth += 1
        elif tokens.kind == "mark" and tokens.text in _CLOSING.values():
            depth -= 1
        tokens.advance()
    if tokens.start == start:
        tokens.fail(f"expected a value, got {tokens.shown()}")
    return Unreadable(tokens.source[start : tokens.before])
