"""Parameters of primitives: values, checked and settled when a primitive is made.

Nothing here has to do with what a primitive means.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import ClassVar, Final, Self

import attrs
import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.caching import Keyed, bounded
from tinyjax.errors import ParameterError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.immutable import Immutable
from tinyjax.ir.nans import settled
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.value import ConcreteValue


@frozen
class Opaque(ABC):
    """A parameter whose content can't be written down, such as a Python function that a program calls.

    A subclass is a frozen attrs class that says with `==` and `hash` which of its instances are interchangeable within
    this process. Programs with such parameters can be compared and compiled like others, but have no `content_hash`.
    """

    @abstractmethod
    @override
    def __str__(self) -> str:
        """What printed programs show: the same in every process."""


class Spelled(ABC):
    """A frozen attrs class among parameters that is written otherwise than by its fields, and made otherwise.

    A reader of the registry's, `read_record_by`, reads what `spelled` writes.
    """

    __slots__ = ()

    @abstractmethod
    def spelled(self) -> str:
        """What printed programs show: to the bit, and on one line."""

    @classmethod
    @abstractmethod
    def of_fields(cls, fields: Mapping[str, object]) -> Self:
        """The value with these fields; those that have defaults may be missing."""


#: The types of parameters that hold nothing else.
PLAIN_TYPES: frozenset[type] = frozenset({int, float, complex, bool, str, bytes, type(None)})
#: Those of which equal ones are interchangeable.
_SETTLED_TYPES: Final = PLAIN_TYPES - {float, complex}


def is_value(parameter: object) -> bool:
    """Whether this may be a parameter: an immutable value, compared and hashed by its content."""
    cls = type(parameter)
    if cls in PLAIN_TYPES:
        return True
    if isinstance(parameter, tuple | frozenset):
        plain = PLAIN_TYPES.issuperset(map(type, parameter))
        return cls in (tuple, frozenset) and (plain or all(map(is_value, parameter)))
    if isinstance(parameter, Jaxpr):
        return _is_settled(parameter)
    if isinstance(parameter, ShapedArray | ConcreteValue | np.dtype | enum.Enum | type | Opaque):
        return True
    if not attrs.has(cls) or cls.__eq__ is object.__eq__ or cls.__hash__ is None:
        return False
    return all(is_value(getattr(parameter, attribute.name)) for attribute in attrs.fields(cls) if attribute.eq)


def _plain(parameter: object) -> object:
    """The parameter with Python's integers and bools in the place of NumPy's, also within tuples."""
    if isinstance(parameter, np.integer | np.bool_):
        return parameter.item()
    if type(parameter) is tuple:
        return tuple([_plain(item) for item in parameter])
    return parameter


def _is_settled(jaxpr: Jaxpr) -> bool:
    """Whether a program is hashable. What it caches is computed now if there are programs within, so that asking for it
    never recurses through them, however deep they nest."""
    if not jaxpr.inner:  # and so nothing that wasn't looked at when its primitives were made, but their classes
        return None not in {type(eqn.primitive).__hash__ for eqn in jaxpr.eqns}
    try:
        hash(jaxpr)
        hash(jaxpr.effects)
        hash(jaxpr.lines)
    except TypeError:
        return False
    return True


@bounded(4096)
def _parameter_names(cls: type[Parameters]) -> tuple[str, ...]:
    return tuple([attribute.name for attribute in attrs.fields(cls)])


def _made_again(cls: type[Parameters], fields: Mapping[str, object]) -> Parameters:
    return cls(**fields)


@frozen
class Parameters(Immutable, Keyed, ABC):
    """The base class of primitives, whose fields are the parameters."""

    name: ClassVar[str]

    def __attrs_post_init__(self) -> None:
        for name in _parameter_names(type(self)):
            parameter = getattr(self, name)
            if type(parameter) in _SETTLED_TYPES:
                continue
            if not is_value(parameter):
                plain = _plain(parameter)
                if plain is not parameter and is_value(plain):
                    object.__setattr__(self, name, settled(plain))
                    continue
                raise ParameterError(
                    f"parameter {name!r} of primitive {self.name!r} is a {type(parameter).__name__}: "
                    f"{parameter!r}. Parameters must be immutable, hashable values: numbers, strings, tuples, enums, "
                    "dtypes, frozen attrs classes or jaxprs."
                )
            one = settled(parameter)
            if one is not parameter:
                object.__setattr__(self, name, one)

    @override
    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__repr__" not in vars(cls):  # or attrs would write one for each class, and Python compile it
            type.__setattr__(cls, "__repr__", Parameters.__repr__)

    @override
    def __repr__(self) -> str:
        """As attrs has it."""
        fields = [attribute for attribute in attrs.fields(type(self)) if attribute.repr]
        ways = [repr if attribute.repr is True else attribute.repr for attribute in fields]
        shown = [f"{field.name}={way(getattr(self, field.name))}" for field, way in zip(fields, ways, strict=True)]
        return f"{type(self).__qualname__.rpartition('>.')[2]}({', '.join(shown)})"

    @override
    def __str__(self) -> str:
        return self.name

    @override
    def __reduce__(self) -> tuple[object, ...]:
        # Made again by the class, so that what holds of every primitive of this process holds of it.
        fields = [attribute for attribute in attrs.fields(type(self)) if attribute.init]
        return _made_again, (type(self), {field.alias: getattr(self, field.name) for field in fields})

    @property
    @override
    def remembered_by(self) -> Hashable:
        """Itself; and what tells it from those whose equal programs are from other lines of user code."""
        from tinyjax.ir.traverse import subjaxprs

        return self, *[program.remembered_by for program in subjaxprs(self)]

    @property
    def params(self) -> Mapping[str, object]:
        """The parameters by name, read-only."""
        fields = attrs.fields(type(self))
        return MappingProxyType({attribute.name: getattr(self, attribute.name) for attribute in fields})

    @property
    def applied_programs(self) -> tuple[Jaxpr, ...]:
        """The programs that applying this primitive may run: all that it holds, unless it says otherwise."""
        from tinyjax.ir.traverse import subjaxprs

        return subjaxprs(self)
