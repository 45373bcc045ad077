"""How a function was called, said by the errors about it.

What the user called tells of the arguments what the place where an error is found doesn't know: their names, and what
they all were. An error that the library raises, and that doesn't name the function and an argument, leaves what the
user's line called with a last line of

    Called as concatenate(arrays=[f64[2], None], axis=0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from inspect import Parameter, Signature, signature
from types import FunctionType
from typing import Final

import numpy as np

from tinyjax.errors import IndexingError, InputError, ParameterError, TinyjaxError, TypingError

_ABOUT_ARGUMENTS: Final = (IndexingError, InputError, ParameterError, TypingError)
_WORD: Final = re.compile(r"\w+")
#: So much is shown of one argument, and so many of the parts of one.
_WIDTH: Final = 80
_PARTS: Final = 6
#: The kinds of dtypes whose names are a letter and how many bits they have.
_SIZED: Final = frozenset("iufc")


def say_call(error: TinyjaxError, function: FunctionType, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Says in an error about arguments how this function was called, rather than one within."""
    if not isinstance(error, _ABOUT_ARGUMENTS):
        return
    name, parameters = function.__name__, signature(function)
    error.called = None
    if not _names(str(error), name, parameters):
        of = ""
        if args and next(iter(parameters.parameters), None) in ("self", "cls"):  # whose method it is
            of, args = f"{shown(args[0])}.", args[1:]
            parameters = parameters.replace(parameters=[*parameters.parameters.values()][1:])
        error.called = f"{of}{name}({', '.join(_arguments(parameters, args, kwargs))})"


def _names(message: str, function: str, parameters: Signature) -> bool:
    """Whether a message names a function and one of its parameters. A single letter may be a word."""
    words = frozenset(_WORD.findall(message))
    return function in words and any(name in words for name in parameters.parameters if len(name) > 1)


def _arguments(parameters: Signature, args: Sequence[object], kwargs: Mapping[str, object]) -> Iterator[str]:
    for name, value in parameters.bind_partial(*args, **kwargs).arguments.items():
        kind = parameters.parameters[name].kind
        if kind is Parameter.VAR_KEYWORD:
            yield from (f"{key}={_cut(shown(entry))}" for key, entry in value.items())
        else:
            yield f"{'*' * (kind is Parameter.VAR_POSITIONAL)}{name}={_cut(shown(value))}"


def shown(value: object, depth: int = 2) -> str:
    """An argument in a few words: arrays by their types, what holds others by their parts.

    >>> shown((np.ones(2), [None, 1.5], "x"))
    "(f64[2], [None, 1.5], 'x')"
    """
    match value:
        case Enum():
            return str(value)
        case None | bool() | int() | float() | complex() | str() | bytes():
            return repr(value)
        case np.ndarray() | np.generic():
            return f"{_dtype(value.dtype)}[{','.join(map(str, value.shape))}]"
        case np.dtype():
            return str(value)
        case tuple() | list() if type(value) in (tuple, list):
            first = value[:_PARTS] if depth > 0 else ()
            parts = _some([shown(part, depth - 1) for part in first], len(value), depth)
            return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' * (len(value) == 1)})"
        case dict():
            items = list(value.items())[:_PARTS] if depth > 0 else ()
            return f"{{{_some([f'{k!r}: {shown(v, depth - 1)}' for k, v in items], len(value), depth)}}}"
        case _:
            found: object = getattr(value, "__name__", None)
            return found if isinstance(found, str) else _typed(value)


def _typed(value: object) -> str:
    """An array's type as programs spell it; or else the name of a value's class."""
    aval: object = getattr(value, "aval", None)
    return type(value).__name__ if aval is None else str(aval)


def _dtype(dtype: np.dtype[np.generic]) -> str:
    return f"{dtype.kind}{8 * dtype.itemsize}" if dtype.kind in _SIZED and dtype.isbuiltin == 1 else dtype.name


def _some(parts: Sequence[str], count: int, depth: int) -> str:
    """The parts that are shown, and that there are more; of what is deep within others, that there are some."""
    if depth <= 0 and count:
        return "..."
    return ", ".join(parts) + ", ..." * (count > len(parts))


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
