"""Whether parameters are of the types that the fields of their attrs class declare."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Final, Literal, TypeAlias, TypeVar, Union

import attrs

from tinyjax.errors import ParameterError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.parameters import PLAIN_TYPES
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.traverse import fields_of, nested_programs
from tinyjax.ir.value import ConcreteValue

T = TypeVar("T")
#: Whether a value is of some type.
Check: TypeAlias = Callable[[object], bool]
#: What a number may be where a field asks for one, as type checkers have it.
_WIDER: Final[Mapping[object, tuple[type, ...]]] = types.MappingProxyType(
    {float: (float, int), complex: (complex, float, int)}
)
#: Where a bool isn't what is meant, though Python takes it.
_NUMBERS: Final = (int, float, complex)
#: Parts of parameters that have checks of their own.
_CHECKED_ELSEWHERE: Final = (Primitive, Jaxpr, ClosedJaxpr, ShapedArray, ConcreteValue)


@lru_cache(maxsize=4096)
def _hints(cls: type) -> Mapping[str, object]:
    """The types of a class's fields; none if its annotations refer to what only type checkers see."""
    fields = {attribute.name for attribute in attrs.fields(cls)} if attrs.has(cls) else set()
    found: dict[str, object] = {}
    try:
        for base in reversed(cls.__mro__):  # a base's annotations are about what its own module knows
            own = {name: hint for name, hint in vars(base).get("__annotations__", {}).items() if name in fields}
            if own:
                held = types.SimpleNamespace(__annotations__=own)
                found |= typing.get_type_hints(held, vars(sys.modules[base.__module__]), dict(vars(base)))
    except (NameError, TypeError, AttributeError, KeyError):
        return {}
    return found


def check_field(cls: type[attrs.AttrsInstance], what: str, name: str, value: object) -> None:
    """A ParameterError unless the class has a field `name` which may have this value."""
    names = [attribute.name for attribute in attrs.fields(cls) if attribute.init]
    if name not in names:
        has = f"it has {', '.join(names)}" if names else "it has none"
        raise ParameterError(f"{what} has no parameter {name!r}: {has}", name)
    hint = _hints(cls).get(name)
    if hint is not None and not fits(value, hint):
        raise ParameterError(f"parameter {name!r} of {what} must be {_shown(hint)}, got {value}", name)


def refuse_misfits(primitive: object) -> None:
    """A ParameterError if a parameter of a primitive, or a field of a record in one, isn't of its declared type.

    Making a primitive checks only that its parameters are values, as tracing makes many. The verifier asks this
    of every equation; so does what fails, before it passes on whatever Python said.
    """
    if isinstance(primitive, Primitive):
        _refuse_misfits(primitive, f"primitive {primitive.name!r}")


def explained(jaxpr: Jaxpr, make: Callable[[], T]) -> T:
    """What `make` gives of a program. If it fails and a parameter isn't of its declared type, the error says that."""
    try:
        return make()
    except Exception:
        for program in nested_programs(jaxpr):
            for eqn in program.eqns:
                refuse_misfits(eqn.primitive)
        raise


@lru_cache(maxsize=4096)
def _checks(cls: type) -> Sequence[tuple[str, Check]]:
    """The fields of a class that are part of its value, and whether something may be the value of each."""
    hints = _hints(cls)
    return [(name, _always if (hint := hints.get(name)) is None else _check(hint, True)) for name in fields_of(cls)]


def _refuse_misfits(record: attrs.AttrsInstance, what: str) -> None:
    for name, check in _checks(type(record)):
        value = getattr(record, name)
        if not check(value):
            hint = _hints(type(record))[name]
            raise ParameterError(f"parameter {name!r} of {what} must be {_shown(hint)}, got {value!r}", name)
        for item in value if isinstance(value, tuple) else (value,):
            if type(item) not in PLAIN_TYPES and attrs.has(type(item)) and not isinstance(item, _CHECKED_ELSEWHERE):
                _refuse_misfits(item, f"{type(item).__name__}, which is parameter {name!r} of {what},")


def as_declared(cls: type, name: str, value: object) -> object:
    """The value of a field: a bool where JAX's users have written 0 or 1 for it."""
    return bool(value) if type(value) is int and _hints(cls).get(name) is bool else value


def fits(value: object, hint: object, strict: bool = False) -> bool:
    """Whether a value is of a type, as far as the type says anything about parameters. 0 and 1 are bools, and bools
    integers, as Python and JAX have it, unless it is `strict`.

    >>> fits((1, 2), tuple[int, ...]), fits((1, 2.0), tuple[int, ...]), fits(None, int | None)
    (True, False, True)
    """
    return _check(hint, strict)(value)


@lru_cache(maxsize=4096)
def _check(hint: object, strict: bool) -> Check:
    """What `fits` asks of values, for one type: made once, as programs have many parameters of few types."""
    if hint is None:
        return lambda value: value is None
    origin = typing.get_origin(hint)
    if origin is None:
        return _check_class(hint, strict) if isinstance(hint, type) else _always
    items = typing.get_args(hint)
    if origin is Union or origin is types.UnionType:
        checks = [_check(item, strict) for item in items]
        return lambda value: any(check(value) for check in checks)
    if origin is Literal:
        return lambda value: any(type(value) is type(item) and value == item for item in items)
    if origin is tuple:
        return _check_tuple(items, strict)
    if origin is frozenset:
        each = _check(items[0], strict)
        return lambda value: isinstance(value, frozenset) and all(map(each, value))
    return partial(_is_a, cls=origin) if isinstance(origin, type) else _always


def _check_class(hint: type, strict: bool) -> Check:
    wider = _WIDER.get(hint, hint)
    if hint is bool:
        return lambda value: type(value) is bool or (type(value) is int and not strict and value in (0, 1))
    if strict and hint in _NUMBERS:
        return lambda value: type(value) is hint or (type(value) is not bool and _is_a(value, wider))
    return lambda value: type(value) is hint or _is_a(value, wider)


def _check_tuple(items: tuple[object, ...], strict: bool) -> Check:
    if len(items) == 2 and items[1] is Ellipsis:
        each = _check(items[0], strict)
        return lambda value: isinstance(value, tuple) and all(map(each, value))
    checks = [_check(item, strict) for item in items]
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(checks)
        and all(check(item) for check, item in zip(checks, value, strict=True))
    )


def _always(value: object) -> bool:
    return True


def _is_a(value: object, cls: type | tuple[type, ...]) -> bool:
    try:
        return isinstance(value, cls)
    except TypeError:  # a protocol, whose members only type checkers look at
        return True


def _shown(hint: object) -> str:
    if hint is None or hint is type(None):
        return "None"
    if typing.get_origin(hint) in (Union, types.UnionType):
        return " or ".join(map(_shown, typing.get_args(hint)))
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        return hint.__name__
    return str(hint).replace("typing.", "").replace("tinyjax.ir.program.", "")
