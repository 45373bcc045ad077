"""`composite`: a program under a name by which a compiler may know what it computes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import ClassVar, Final, TypeAlias, final

import numpy as np
from attrs import field, frozen
from typing_extensions import override

from tinyjax.control.call import Call, Calling
from tinyjax.errors import ParameterError
from tinyjax.ir.dtypes import COMPLEXES, INT64, KEYS, PYTHON_DTYPES, SUPPORTED, DType, integer_limits
from tinyjax.ir.literals import scalar_bits
from tinyjax.ir.primitive import Primitive, Split
from tinyjax.ir.program import Jaxpr, Literal
from tinyjax.ir.value import ConcreteValue

#: What an attribute may be: a literal is a number of NumPy's, which has a dtype; one of Python's has the widest.
Attribute: TypeAlias = (
    "bool | int | float | str | bytes | DType | Literal | ConcreteValue | tuple[Attribute, ...] | Dictionary"
)

#: What StableHLO takes as the name of an operation.
OPERATION: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*(?:[.][a-zA-Z0-9_$]+)+")


def _exact(value: Attribute) -> object:
    """What tells attributes apart: 1 is neither 1.0 nor True here, and the name of a dtype is no dtype."""
    if isinstance(value, tuple):
        return tuple(map(_exact, value))
    kept = scalar_bits(value) if isinstance(value, bool | int | float) else value
    return type(value).__name__, kept


def _sorted(entries: tuple[tuple[str, Attribute], ...]) -> tuple[tuple[str, Attribute], ...]:
    return tuple(sorted(entries, key=lambda entry: entry[0]))


@final
@frozen
class Dictionary:
    """An attribute that has attributes by name, in the order of their names."""

    entries: tuple[tuple[str, Attribute], ...] = field(converter=_sorted, eq=_exact)


@final
@frozen
class CompositeCall(Calling):
    """Applies `jaxpr`, the decomposition of an operation that a compiler may know by its name, version and attributes.

    The name is for these operands and results alone. So what the operation is transformed into (a derivative, a batch)
    is a call, of the decomposition transformed. It isn't divided: where something isn't known, all of it is left for
    later. Results that nothing reads are computed, too.
    """

    version: int = 0
    attributes: tuple[tuple[str, Attribute], ...] = field(default=(), converter=_sorted, eq=_exact)
    name: ClassVar[str] = "composite"

    @override
    def of(self, jaxpr: Jaxpr) -> Calling:
        return Call(self.function_name, jaxpr)

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split | None:
        return Primitive.partial_eval(self, unknown)


def attribute(what: str, value: object) -> Attribute:
    """A value of Python as an attribute; a ParameterError if it can't be one. `what` it is, for the message.

    >>> attribute("k", 3), attribute("k", [1.5, "a"]), attribute("k", {"b": True})
    (3, (1.5, 'a'), Dictionary(entries=(('b', True),)))
    """
    if isinstance(value, np.generic) and value.dtype in PYTHON_DTYPES.values() and value.dtype not in COMPLEXES:
        value = value.item()  # as which it has the same dtype
    if isinstance(value, Literal) and value.aval.dtype in PYTHON_DTYPES.values():
        value = value.value
    if isinstance(value, Enum):
        value = value.value if isinstance(value, int | str) else value
    if isinstance(value, bool | str | bytes | float | np.dtype | Dictionary | Literal | ConcreteValue):
        return value
    if isinstance(value, int):
        least, greatest = integer_limits(INT64)
        if least <= value <= greatest:
            return int(value)
        raise ParameterError(f"{what} is {value}, which is beyond int64: give it as a string")
    if isinstance(value, type) and issubclass(value, np.generic):
        return np.dtype(value)
    if isinstance(value, np.generic) and value.dtype in SUPPORTED and value.dtype not in COMPLEXES:
        return Literal.of(value)
    if isinstance(value, np.ndarray) and value.dtype in SUPPORTED and value.dtype not in KEYS:
        return ConcreteValue.of(value)
    if isinstance(value, tuple | list):
        return tuple(attribute(f"{what}[{i}]", item) for i, item in enumerate(value))
    if isinstance(value, Mapping):
        return Dictionary(entries(what, value))
    raise ParameterError(
        f"{what} is {value!r}, of type {type(value).__name__}. Attributes are numbers (not complex), strings, dtypes, "
        "NumPy arrays, and lists and dictionaries of them"
    )


def entries(what: str, values: Mapping[object, object]) -> tuple[tuple[str, Attribute], ...]:
    """Attributes by name."""
    found: list[tuple[str, Attribute]] = []
    for key, value in values.items():
        if not isinstance(key, str) or not key:
            raise ParameterError(f"{what} has the key {key!r}: attributes are named by strings")
        found.append((key, attribute(f"{what}[{key!r}]", value)))
    return tuple(found)


def plain(value: Attribute) -> object:
    """An attribute as the value of Python, or of NumPy, that it stands for.

    >>> plain((1, Dictionary((("a", Literal.of(np.float32(2))),))))
    (1, {'a': np.float32(2.0)})
    """
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, Dictionary):
        return {key: plain(item) for key, item in value.entries}
    if isinstance(value, Literal):
        return value.aval.dtype.type(value.value)
    return np.asarray(value.data) if isinstance(value, ConcreteValue) else value
