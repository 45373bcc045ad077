"""Parameters as they were written, before a registry says which classes they are of; and making instances of these."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, final

import attrs
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import ParameterError
from tinyjax.ir.declared import as_declared, check_field
from tinyjax.ir.parameters import Spelled
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr


@final
@frozen
class Record:
    """`Name(field=value, ...)` as it was written. Fields without a name have the name ""."""

    name: str
    fields: tuple[tuple[str, object], ...] = ()

    @override
    def __str__(self) -> str:
        fields = ", ".join(f"{name}={value}" if name else str(value) for name, value in self.fields)
        return f"{self.name}({fields})"


@final
@frozen
class Member:
    """`Name.MEMBER`, of an enumeration, as it was written."""

    enumeration: str
    name: str

    @override
    def __str__(self) -> str:
        return f"{self.enumeration}.{self.name}"


@final
@frozen
class Unreadable:
    """What was written in the place of something that can't be: `<function f at 0x7f>`."""

    text: str

    @override
    def __str__(self) -> str:
        return self.text


def unread(value: object) -> Record | Member | Unreadable | None:
    """A part of the value that is still as it was written, if there is one."""
    if isinstance(value, Record | Member | Unreadable):
        return value
    if isinstance(value, tuple | frozenset):
        return next((found for item in value if (found := unread(item)) is not None), None)
    return None


def build(cls: type, fields: Mapping[str, object]) -> object:
    """An instance of an attrs class with these fields; a ParameterError if there are others than it has, if one without
    a default is missing, or if a value isn't of the type that the class declares."""
    what = f"primitive {cls.name!r}" if issubclass(cls, Primitive) else cls.__name__
    if not attrs.has(cls):
        raise ParameterError(f"{what} is no record")
    attributes = {attribute.name: attribute for attribute in attrs.fields(cls) if attribute.init}
    for name, value in fields.items():
        left = unread(value)
        if left is not None:
            raise ParameterError(f"parameter {name!r} of {what} can't be read: nothing is known of {left}", name)
        check_field(cls, what, name, value)
    if issubclass(cls, Spelled):
        return cls.of_fields(fields)
    for name, attribute in attributes.items():
        if name not in fields and attribute.default is attrs.NOTHING:
            raise ParameterError(f"{what} lacks the parameter {name!r}")
    made: object = cls(**{attributes[name].alias: as_declared(cls, name, value) for name, value in fields.items()})
    return made


def member(cls: type, name: str) -> object:
    """The member of an enumeration; of flags, the union of those joined by `|`."""
    if not issubclass(cls, enum.Enum):
        raise ParameterError(f"{cls.__name__} is no enumeration, so it has no member {name}")
    members: list[enum.Enum] = []
    for part in name.split("|"):
        if part in cls.__members__:
            members.append(cls.__members__[part])
        elif issubclass(cls, enum.Flag) and part.isdecimal():
            members.append(cls(int(part)))
        else:
            raise ParameterError(f"{cls.__name__} has no member {part}: it has {', '.join(cls.__members__)}")
    union = members[0]
    for member in members[1:]:
        if not isinstance(union, enum.Flag) or not isinstance(member, enum.Flag):
            raise ParameterError(f"the members of {cls.__name__} are no flags that can be joined: {name}")
        union = union | member
    return union


def member_of_value(cls: type[enum.Enum], fields: Sequence[tuple[str, object]]) -> enum.Enum:
    """The member written by its value: `Flags(0)`."""
    if len(fields) == 1 and fields[0][0] == "":
        try:
            return cls(fields[0][1])
        except ValueError as error:
            raise ParameterError(str(error)) from None
    raise ParameterError(f"{cls.__name__} is an enumeration: write {cls.__name__}.MEMBER")


@final
@frozen
class Stateful:
    """A program that takes Refs, which are these of its inputs. What they hold at the end are its last results."""

    jaxpr: Jaxpr
    refs: tuple[int, ...]


@final
@frozen
class Span:
    """`1:3` along an axis, `1:` or `:`."""

    start: int
    stop: int | None


@final
@frozen
class Computed:
    """Along an axis an operand: a position or an array of them, or the start of so many."""

    size: int | None = None


#: For each axis what is chosen; None: all that there is.
Index: TypeAlias = tuple[int | Span | Computed, ...] | None


@final
@frozen
class WithValues:
    """An equation with what Refs hold in their place. `operands` are those of the equation as it was written, in a new
    order; each of `results` is a result as it was written, or `Last` of an operand. `name` is that of its primitive, if
    that is another one."""

    params: Mapping[str, object]
    operands: tuple[int, ...]
    results: tuple[int | Last, ...]
    name: str = ""


@final
@frozen
class Last:
    """What the Ref that is this operand holds after an equation."""

    operand: int


#: Makes an equation of values of one with Refs: of its parameters, of the names of Refs by their places among the
#: operands, and of the numbers of operands and results.
RefRule: TypeAlias = Callable[[Mapping[str, object], Mapping[int, str], int, int], WithValues]


def stateful_in(params: Mapping[str, object]) -> bool:
    """Whether a program among the parameters takes Refs."""
    return any(map(_is_stateful, params.values()))


def _is_stateful(value: object) -> bool:
    return any(map(_is_stateful, value)) if isinstance(value, tuple) else isinstance(value, Stateful)
