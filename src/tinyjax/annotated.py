"""Which argument isn't what the annotation of its parameter says: looked for once a function has failed."""

from __future__ import annotations

import builtins
import collections.abc
import re
import sys
import types
from collections.abc import Iterator, Mapping
from inspect import Parameter, signature
from numbers import Number
from typing import Final, SupportsIndex, Union, get_args, get_origin

import numpy as np

_HOME: Final = __name__.partition(".")[0] + "."
#: What stands between brackets, innermost first.
_BRACKETS: Final = re.compile(r"\[[^\[\]]*\]")
#: What is no array, and no number either.
_NO_ARRAY: Final = (str, bytes, dict, set, frozenset, slice, type, types.FunctionType, types.BuiltinFunctionType)


def misfit(function: types.FunctionType, arguments: Mapping[str, object]) -> str | None:
    """What to say of the first such argument, or of one that is a key: "strides takes Sequence[int] | None, got 5".

    It raises what the user's objects raise when they are shown.
    """
    for name, value in arguments.items():
        if getattr(getattr(value, "dtype", None), "names", None):  # as those of records, which keys are
            return f"{name} is a key of random numbers, of which this takes none: tinyjax.random.bits(key) is a number"
        parameter = signature(function).parameters[name]
        said = parameter.annotation
        if not isinstance(said, str) or parameter.kind is Parameter.VAR_KEYWORD:
            continue
        values = value if parameter.kind is Parameter.VAR_POSITIONAL and isinstance(value, tuple) else (value,)
        for one in values:
            if not any(_fits(one, kind, function.__globals__) for kind in _kinds(said)):
                return f"{name} takes {said}, got {one!r}"
    return None


def _kinds(said: str) -> Iterator[str]:
    """The names in a union, without what stands in brackets."""
    while said != (said := _BRACKETS.sub("", said)):
        pass
    yield from map(str.strip, said.split("|"))


def _fits(value: object, kind: str, names: Mapping[str, object]) -> bool:
    """Whether a value may be of this kind: what isn't known here may be anything."""
    if kind == "None":
        return value is None
    if kind == "ArrayLike":
        return value is not None and (not isinstance(value, _NO_ARRAY) or hasattr(value, "__jax_array__"))
    module, _, attribute = kind.partition(".")
    if attribute:  # os.PathLike
        return _is_of(value, getattr(names.get(module), attribute, None))
    for home in (names, vars(builtins), vars(collections.abc)):
        if kind in home:
            return _is_of(value, home[kind])
    if kind == "PyTreeDef":  # of jaxlib, which need not be there yet
        return type(value).__name__ == kind
    # What only type checkers import stands in other modules of the library.
    homes = [vars(module) for name, module in list(sys.modules.items()) if name.startswith(_HOME)]
    found = [home[kind] for home in homes if kind in home]
    return not found or any(_is_of(value, one) for one in found)


def _is_of(value: object, kind: object) -> bool:
    if get_origin(kind) in (Union, types.UnionType):
        return any(_is_of(value, part) for part in get_args(kind))
    if kind in (float, complex):  # numbers, and arrays that hold one
        return isinstance(value, Number | np.number) or getattr(value, "shape", None) == ()
    if kind is int:
        return isinstance(value, SupportsIndex)
    if kind is bool:
        return isinstance(value, bool | np.bool_ | int) or getattr(value, "shape", None) == ()
    if kind is collections.abc.Callable or get_origin(kind) is collections.abc.Callable:
        return callable(value)
    found = get_origin(kind) or kind
    try:
        return not isinstance(found, type) or isinstance(value, found)
    except TypeError:  # a protocol that isn't there while programs run
        return True
