"""The programs within a program: those that its primitives hold as parameters."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import lru_cache
from typing import TypeVar

import attrs

from tinyjax.caching import bounded
from tinyjax.errors import InputError
from tinyjax.ir.parameters import PLAIN_TYPES, Opaque, Parameters
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Eqn, Jaxpr
from tinyjax.ir.value import ConcreteValue

P = TypeVar("P", bound=Primitive)


@bounded(4096)
def fields_of(cls: type) -> tuple[str, ...]:
    """The names of the fields of an attrs class that are part of its values: those that `==` looks at."""
    return tuple(attribute.name for attribute in attrs.fields(cls) if attribute.eq) if attrs.has(cls) else ()


def value_fields(record: object) -> tuple[str, ...]:
    """The names of the fields of an attrs class that are part of its value: those that `==` looks at."""
    return fields_of(type(record))


def record_values(record: object) -> Iterator[tuple[str, object]]:
    """The names and values of these fields."""
    for name in value_fields(record):
        yield name, getattr(record, name)


def shown_values(record: object) -> Iterator[tuple[str, object]]:
    """The same without the fields that are None because nothing was given: text leaves them out."""
    cls = type(record)
    optional = _optional_fields(cls) if attrs.has(cls) else frozenset()
    for name, value in record_values(record):
        if value is not None or name not in optional:
            yield name, value


@lru_cache(maxsize=4096)
def _optional_fields(cls: type[attrs.AttrsInstance]) -> frozenset[str]:
    return frozenset(attribute.name for attribute in attrs.fields(cls) if attribute.default is None)


def subjaxprs(primitive: Parameters) -> tuple[Jaxpr, ...]:
    """The programs that a primitive holds, in the order of its fields; also those within tuples and attrs records.

    Not those within these programs: see `nested_programs`.

    Raises:
      InputError: it is no primitive.
    """
    if not isinstance(primitive, Parameters):
        raise InputError(f"subjaxprs takes a primitive, such as eqn.primitive; got {primitive!r}")
    return _held(primitive)


def _held(primitive: Parameters) -> tuple[Jaxpr, ...]:
    found: tuple[Jaxpr, ...] = ()
    for name in value_fields(primitive):
        value = getattr(primitive, name)
        if not _is_plain(value):
            found += tuple(programs_of(value))
    return found


def _is_plain(parameter: object) -> bool:
    """Whether a parameter is a number, a name, or a tuple of such, which hold no programs."""
    return type(parameter) in PLAIN_TYPES or (type(parameter) is tuple and PLAIN_TYPES.issuperset(map(type, parameter)))


def programs_of(parameter: object) -> Iterator[Jaxpr]:
    """The programs in a parameter: itself, or those within tuples and attrs records."""
    if isinstance(parameter, Jaxpr):
        yield parameter
    elif isinstance(parameter, tuple | frozenset):
        for item in items_of(parameter):
            if type(item) not in PLAIN_TYPES:
                yield from programs_of(item)
    elif not isinstance(parameter, ConcreteValue | Opaque):
        for _, value in record_values(parameter):
            yield from programs_of(value)


def items_of(parameter: tuple[object, ...] | frozenset[object]) -> Iterable[object]:
    """The items; of a set in the order of their texts, which is the same in every process, as that of hashes isn't."""
    return parameter if isinstance(parameter, tuple) or len(parameter) < 2 else sorted(parameter, key=_text)


def _text(item: object) -> str:
    return f"{{{', '.join(sorted(map(_text, item)))}}}" if isinstance(item, frozenset) else repr(item)


def nested_programs(jaxpr: Jaxpr, key: Callable[[Jaxpr], Hashable] | None = None) -> list[Jaxpr]:
    """The distinct programs within a program, at every depth, inner ones first, and the program itself last. `key` says
    what tells them apart: by default, their value."""
    order: list[Jaxpr] = []
    seen: set[Hashable] = set()
    path: list[tuple[Jaxpr, Iterator[Jaxpr]]] = [(jaxpr, iter(jaxpr.inner))]
    while path:
        program, children = path[-1]
        for child in children:
            found = child if key is None else key(child)
            if found not in seen:
                seen.add(found)
                path.append((child, iter(child.inner)))
                break
        else:
            order.append(program)
            path.pop()
    return order


def inner_programs(eqns: Iterable[Eqn]) -> Iterator[Jaxpr]:
    """The programs that equations hold, one after the other."""
    without: set[int] = set()  # primitives that hold none: many equations apply the same one
    for eqn in eqns:
        primitive = eqn.primitive
        if id(primitive) not in without:
            found = _held(primitive)
            if found:
                yield from found
            else:
                without.add(id(primitive))


def holds_programs(primitive: Primitive) -> bool:
    """Whether there are programs within a primitive."""
    for name in value_fields(primitive):
        value = getattr(primitive, name)
        if not _is_plain(value) and any(True for _ in programs_of(value)):
            return True
    return False


def map_programs(primitive: P, change: Callable[[Jaxpr], Jaxpr]) -> P:
    """The primitive with `change` of each of its programs in their places; itself if that changes none."""
    changed = _changed_fields(primitive, change)
    return attrs.evolve(primitive, **changed) if changed else primitive


def _changed_fields(record: object, change: Callable[[Jaxpr], Jaxpr]) -> dict[str, object]:
    changed: dict[str, object] = {}
    for name, value in record_values(record):
        if type(value) not in PLAIN_TYPES:
            new = _mapped(value, change)
            if new is not value:
                changed[name.lstrip("_")] = new
    return changed


def _mapped(value: object, change: Callable[[Jaxpr], Jaxpr]) -> object:
    if isinstance(value, Jaxpr):
        return change(value)
    if isinstance(value, tuple | frozenset):
        items = [item if type(item) in PLAIN_TYPES else _mapped(item, change) for item in value]
        return value if all(map(operator.is_, items, value)) else type(value)(items)
    if isinstance(value, Primitive):
        return map_programs(value, change)
    if isinstance(value, ConcreteValue | Opaque):
        return value
    changed = _changed_fields(value, change)
    cls = type(value)
    if not changed or not attrs.has(cls):
        return value
    fields = {(each.alias or each.name): getattr(value, each.name) for each in attrs.fields(cls) if each.init}
    return cls(**fields | changed)
