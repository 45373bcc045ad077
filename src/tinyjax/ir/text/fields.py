"""Whether values that were read are of the types that the fields of an attrs class declare."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal, Union

import attrs
import ml_dtypes
import numpy as np

from tinyjax.errors import ParameterError
from tinyjax.ir.dtypes import SUPPORTED

#: Classes that may be parameters themselves, by their full names.
HELD_TYPES: Final[Mapping[str, type]] = types.MappingProxyType(
    {
        f"{cls.__module__}.{cls.__qualname__}": cls
        for cls in (
            *(bool, bytes, complex, float, int, object, str, tuple, type(None)),
            np.generic,
            *sorted({dtype.type for dtype in SUPPORTED} | set(np.sctypeDict.values()), key=lambda cls: cls.__name__),
            ml_dtypes.bfloat16,
        )
    }
)
#: What a number may be where a field asks for one, as type checkers have it.
_WIDER: Final[Mapping[object, tuple[type, ...]]] = types.MappingProxyType(
    {float: (float, int), complex: (complex, float, int)}
)


@lru_cache(maxsize=4096)
def _hints(cls: type) -> Mapping[str, object]:
    """The types of a class's fields; none if its annotations refer to what only type checkers see."""
    try:
        return typing.get_type_hints(cls)
    except (NameError, TypeError, AttributeError):
        return {}


def check_field(cls: type[attrs.AttrsInstance], what: str, name: str, value: object) -> None:
    """A ParameterError unless the class has a field `name` which may have this value."""
    names = [attribute.name for attribute in attrs.fields(cls) if attribute.init]
    if name not in names:
        has = f"it has {', '.join(names)}" if names else "it has none"
        raise ParameterError(f"{what} has no parameter {name!r}: {has}", name)
    hint = _hints(cls).get(name)
    if hint is not None and not fits(value, hint):
        raise ParameterError(f"parameter {name!r} of {what} must be {_shown(hint)}, got {value}", name)


def as_declared(cls: type, name: str, value: object) -> object:
    """The value of a field: a bool where JAX's users have written 0 or 1 for it."""
    return bool(value) if type(value) is int and _hints(cls).get(name) is bool else value


def fits(value: object, hint: object) -> bool:
    """Whether a value is of a type, as far as the type says anything about parameters.

    >>> fits((1, 2), tuple[int, ...]), fits((1, 2.0), tuple[int, ...]), fits(None, int | None)
    (True, False, True)
    """
    if hint is None:
        return value is None
    origin = typing.get_origin(hint)
    if hint is bool and type(value) is int:
        return value in (0, 1)
    if origin is None:
        return isinstance(value, _WIDER.get(hint, hint)) if isinstance(hint, type) else True
    items = typing.get_args(hint)
    if origin is Union or origin is types.UnionType:
        return any(fits(value, item) for item in items)
    if origin is Literal:
        return any(type(value) is type(item) and value == item for item in items)
    if origin is tuple:
        return isinstance(value, tuple) and _fits_tuple(value, items)
    if origin is frozenset:
        return isinstance(value, frozenset) and all(fits(item, items[0]) for item in value)
    return isinstance(value, origin) if isinstance(origin, type) else True


def _fits_tuple(value: tuple[object, ...], items: tuple[object, ...]) -> bool:
    if len(items) == 2 and items[1] is Ellipsis:
        return all(fits(item, items[0]) for item in value)
    return len(value) == len(items) and all(map(fits, value, items))


def _shown(hint: object) -> str:
    if hint is None or hint is type(None):
        return "None"
    if typing.get_origin(hint) in (Union, types.UnionType):
        return " or ".join(map(_shown, typing.get_args(hint)))
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        return hint.__name__
    return str(hint).replace("typing.", "").replace("tinyjax.ir.program.", "")
