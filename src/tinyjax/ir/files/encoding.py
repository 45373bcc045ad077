"""Parameters as entries of a table, and back: every kind of value that a program may hold, to the bit."""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, TypeVar, final

import attrs
import numpy as np

from tinyjax.errors import FileFormatError, ParameterError, TinyjaxError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import WORDS, DType, Scalar
from tinyjax.ir.effects import NamedAxisEffect
from tinyjax.ir.files import schema
from tinyjax.ir.parameters import Opaque
from tinyjax.ir.primitive import BatchAxis, Primitive
from tinyjax.ir.program import ClosedJaxpr, Jaxpr, Literal, Var
from tinyjax.ir.program_type import JaxprType
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.text.registry import Registry, build
from tinyjax.ir.value import ConcreteValue

#: Classes of the IR itself, which every file may refer to.
_OWN: Final[Mapping[str, type]] = {
    cls.__name__: cls for cls in (BatchAxis, ClosedJaxpr, JaxprType, Literal, NamedAxisEffect, SourceInfo, Var)
}
#: The names of dtypes in files.
DTYPE_NAMES: Final[Mapping[DType, str]] = WORDS
DTYPES: Final[Mapping[str, DType]] = {name: dtype for dtype, name in DTYPE_NAMES.items()}
#: A parameter may be made of so many parts at most: a small file can refer to the same ones again and again.
_LARGEST: Final = 10_000_000
#: And nest so deep: what is nested deeper can't be hashed.
_DEEPEST: Final = 1000
#: What constructors raise for arguments that they don't accept.
_REFUSALS: Final = (TinyjaxError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def encode_number(value: Scalar) -> schema.Number:
    if isinstance(value, bool):
        return schema.BoolEntry(value)
    if isinstance(value, int):
        return schema.IntEntry(value if -(2**63) <= value < 2**63 else hex(value))
    if isinstance(value, float):
        return schema.FloatEntry(_bits(value))
    return schema.ComplexEntry(_bits(value.real), _bits(value.imag))


def decode_number(entry: schema.Number) -> Scalar:
    """The number; a FileFormatError if the text of its bits isn't that."""
    if isinstance(entry, schema.BoolEntry):
        return entry.value
    if isinstance(entry, schema.IntEntry):
        try:
            return entry.value if isinstance(entry.value, int) else int(entry.value, 16)
        except ValueError:
            raise FileFormatError(f"{_short(entry.value)} is no integer in hexadecimal") from None
    if isinstance(entry, schema.FloatEntry):
        return _float(entry.bits)
    return complex(_float(entry.real), _float(entry.imag))


def _bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def _float(bits: str) -> float:
    try:
        value: float
        (value,) = struct.unpack(">d", bytes.fromhex(bits))
    except (ValueError, struct.error):
        raise FileFormatError(f"{_short(bits)} are not the 64 bits of a float, in hexadecimal") from None
    return value


def dtype_name(dtype: DType) -> str:
    """The name of a dtype; a ParameterError if programs can't have it."""
    name = DTYPE_NAMES.get(dtype)
    if name is None:
        raise ParameterError(f"the dtype {dtype!r} can't be written to a file")
    return name


def dtype_named(name: str) -> DType:
    dtype = DTYPES.get(name)
    if dtype is None:
        raise FileFormatError(f"there is no dtype {_short(name)}")
    return dtype


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@final
class ValueWriter:
    """Numbers values: equal ones once, parts before what they are parts of.

    `program_number`, `aval_number` and `array_number` say how programs, types and arrays are referred to.
    """

    def __init__(
        self,
        aval_number: Callable[[ShapedArray], int],
        array_number: Callable[[ConcreteValue], int],
        program_number: Callable[[Jaxpr], int],
    ) -> None:
        self._aval_number = aval_number
        self._array_number = array_number
        self._program_number = program_number
        self.entries: dict[schema.Value, int] = {}
        self._done: dict[int, tuple[object, int]] = {}
        self._classes: dict[str, type] = {}

    def add(self, value: object, where: str) -> int:
        """The number of a value. `where` it is, for messages: a ParameterError if it can't be written."""
        path: list[tuple[object, str, bool]] = [(value, where, False)]
        numbers: list[int] = []
        while path:
            item, place, ready = path.pop()
            if not ready:
                done = self._done.get(id(item))
                if done is not None:
                    numbers.append(done[1])
                    continue
                parts = _parts(item)
                if parts:
                    path.append((item, place, True))
                    path += [(part, f"{place}{name}", False) for name, part in reversed(parts)]
                    continue
                entry = self._entry(item, (), place)
            else:
                count = len(_parts(item))
                entry = self._entry(item, numbers[len(numbers) - count :], place)
                del numbers[len(numbers) - count :]
            number = self.entries.setdefault(entry, len(self.entries))
            # The value is kept, so that its identity stays its own.
            self._done[id(item)] = item, number
            numbers.append(number)
        return numbers[0]

    def _entry(self, value: object, parts: Sequence[int], where: str) -> schema.Value:
        """The entry of a value whose parts have these numbers."""
        if value is None:
            return schema.NoneEntry()
        if isinstance(value, enum.Enum):
            return self._member(value)
        if type(value) in (bool, int, float, complex) and isinstance(value, bool | int | float | complex):
            return encode_number(value)
        if isinstance(value, str):
            return _text(value)
        if isinstance(value, bytes):
            return schema.BytesEntry(value)
        if isinstance(value, tuple):
            return schema.TupleEntry(tuple(parts))
        if isinstance(value, frozenset):
            return schema.SetEntry(tuple(parts))
        if isinstance(value, Jaxpr):
            return schema.ProgramEntry(self._program_number(value))
        if isinstance(value, ShapedArray):
            return schema.AvalEntry(self._aval_number(value))
        if isinstance(value, ConcreteValue):
            return schema.ArrayEntry(self._array_number(value), self._aval_number(value.aval))
        if isinstance(value, np.dtype):
            if value not in DTYPE_NAMES:
                raise ParameterError(f"{where} can't be written to a file: programs have no values of {value!r}")
            return schema.DTypeEntry(DTYPE_NAMES[value])
        if isinstance(value, type):
            return schema.TypeEntry(f"{value.__module__}.{value.__qualname__}")
        if isinstance(value, Opaque):
            raise ParameterError(
                f"{where} can't be written to a file: {value} is a function of this process, and a file holds no code. "
                "Save the program without it, or replace the callback by primitives."
            )
        cls = type(value)
        if not attrs.has(cls):
            raise ParameterError(f"{where} can't be written to a file: {value!r} is no immutable value")
        names = [name.removeprefix(".") for name, _ in _parts(value)]
        fields = tuple(zip(names, parts, strict=True))
        if isinstance(value, Primitive):
            return schema.PrimitiveEntry(value.name, self._name_of(cls), fields)
        return schema.RecordEntry(self._name_of(cls), fields)

    def _member(self, value: enum.Enum) -> schema.EnumEntry:
        cls = type(value)
        if cls.__members__.get(value.name) is value:
            return schema.EnumEntry(self._name_of(cls), value.name)
        number: object = value.value  # of flags that are joined, or none of them
        if not isinstance(number, int):
            raise ParameterError(f"the member {value!r} can't be written to a file: it has no name")
        return schema.EnumEntry(self._name_of(cls), number)

    def _name_of(self, cls: type) -> str:
        """The name that a registry has the class under."""
        name = cls.__name__
        other = self._classes.setdefault(name, _OWN.get(name, cls))
        if other is not cls:
            raise ParameterError(
                f"{cls.__module__}.{cls.__qualname__} and {other.__module__}.{other.__qualname__} can't be in one "
                "file, where classes go by their names: rename one of them"
            )
        return name


def _text(value: str) -> schema.StrEntry | schema.SurrogatesEntry:
    try:
        value.encode()
    except UnicodeEncodeError:
        return schema.SurrogatesEntry(value.encode("utf-8", "surrogatepass"))
    return schema.StrEntry(value)


def _parts(value: object) -> Sequence[tuple[str, object]]:
    """What a value is made of, and how each part is called. Sets in an order that is the same in every process."""
    if isinstance(value, tuple):
        return [(f"[{i}]", item) for i, item in enumerate(value)]
    if isinstance(value, frozenset):
        return [("{}", item) for item in sorted(value, key=lambda item: (type(item).__name__, repr(item)))]
    atomic = Jaxpr | ShapedArray | ConcreteValue | np.dtype | type | Opaque | enum.Enum
    cls = type(value)
    if isinstance(value, atomic) or not attrs.has(cls):
        return ()
    # The fields that are part of the value, and those that it can't be made without.
    fields = [item for item in attrs.fields(cls) if item.init and (item.eq or item.default is attrs.NOTHING)]
    return [(f".{item.name}", getattr(value, item.name)) for item in fields]


@final
class ValueReader:
    """Values by number, read one after another. A FileFormatError names what is wrong."""

    def __init__(
        self,
        registry: Registry,
        avals: Sequence[ShapedArray],
        array: Callable[[int, ShapedArray], ConcreteValue],
    ) -> None:
        self._registry = registry
        self._avals = avals
        self._array = array
        self.values: list[object] = []
        # How many parts each value has, counted as often as they are referred to.
        self._sizes: list[int] = []
        self._depths: list[int] = []

    def read(self, entries: Sequence[schema.Value], programs: Sequence[Jaxpr]) -> None:
        """Reads some more entries, which may refer to these programs."""
        for entry in entries:
            number = len(self.values)
            try:
                size, depth = self._extent(entry)
                value = self._value(entry, programs)
            except FileFormatError as error:
                raise FileFormatError(f"value {number}: {error}") from None
            except _REFUSALS as error:
                self._refuse(number, entry, error)
            self.values.append(value)
            self._sizes.append(size)
            self._depths.append(depth)

    def _refuse(self, number: int, entry: schema.Value, error: Exception) -> NoReturn:
        if isinstance(entry, schema.PrimitiveEntry):
            what = f"the primitive {_short(entry.name)}"
        elif isinstance(entry, schema.RecordEntry | schema.EnumEntry):
            what = f"{_short(entry.cls)}"
        else:
            what = "it"
        raise FileFormatError(f"value {number}: {what} can't be made: {error}") from error

    def _extent(self, entry: schema.Value) -> tuple[int, int]:
        """How many parts a value has, and how deep they nest. A program counts as one, as its hash is computed once."""
        if not isinstance(entry, schema.Composite):
            return 1, 1
        items = entry.items if isinstance(entry, schema.TupleEntry | schema.SetEntry) else [n for _, n in entry.fields]
        size, depth = 1, 1
        for item in items:
            if not 0 <= item < len(self._sizes):
                raise FileFormatError(f"refers to value {item}, which does not come before it")
            size += self._sizes[item]
            depth = max(depth, 1 + self._depths[item])
        if size > _LARGEST or depth > _DEEPEST:
            raise FileFormatError(f"a parameter of {size} parts, nested {depth} deep, is too large")
        return size, depth

    def _value(self, entry: schema.Value, programs: Sequence[Jaxpr]) -> object:
        if isinstance(entry, schema.NoneEntry):
            return None
        if isinstance(entry, schema.Number):
            return decode_number(entry)
        if isinstance(entry, schema.StrEntry | schema.BytesEntry):
            return entry.value
        if isinstance(entry, schema.SurrogatesEntry):
            return entry.value.decode("utf-8", "surrogatepass")
        if isinstance(entry, schema.TupleEntry):
            return tuple([self.values[item] for item in entry.items])
        if isinstance(entry, schema.SetEntry):
            return frozenset([self.values[item] for item in entry.items])
        if isinstance(entry, schema.DTypeEntry):
            return dtype_named(entry.name)
        if isinstance(entry, schema.TypeEntry):
            return self._registry.type_named(entry.name)
        if isinstance(entry, schema.AvalEntry):
            return pick(self._avals, entry.aval, "type")
        if isinstance(entry, schema.ArrayEntry):
            return self._array(entry.array, pick(self._avals, entry.aval, "type"))
        if isinstance(entry, schema.ProgramEntry):
            return pick(programs, entry.program, "program")
        if isinstance(entry, schema.EnumEntry):
            return self._member(entry)
        fields = {name: self.values[item] for name, item in entry.fields}
        if len(fields) != len(entry.fields):
            raise FileFormatError("a field is there twice")
        if isinstance(entry, schema.PrimitiveEntry):
            return build(self._primitive(entry), fields)
        return build(self._class(entry.cls), fields)

    def _primitive(self, entry: schema.PrimitiveEntry) -> type[Primitive]:
        cls = self._registry.primitive(entry.name)
        if cls.__name__ != entry.cls:
            raise FileFormatError(
                f"the primitive {entry.name!r} of the file is a {entry.cls}, but that of the registry is a "
                f"{cls.__name__}: pass a registry with the class that the file was written with"
            )
        return cls

    def _class(self, name: str) -> type:
        return _OWN.get(name) or self._registry.class_named(name)

    def _member(self, entry: schema.EnumEntry) -> enum.Enum:
        cls = self._class(entry.cls)
        if not issubclass(cls, enum.Enum):
            raise FileFormatError(f"{entry.cls} is no enumeration")
        if isinstance(entry.member, str):
            if entry.member not in cls.__members__:
                raise FileFormatError(f"{entry.cls} has no member {_short(entry.member)}")
            return cls.__members__[entry.member]
        if not issubclass(cls, enum.Flag):
            raise FileFormatError(f"{entry.cls} has no flags, but is written as the number {entry.member}")
        return cls(entry.member)


T = TypeVar("T")


def pick(table: Sequence[T], number: int, what: str) -> T:
    """An entry of a table; a FileFormatError if it has none of this number."""
    if not 0 <= number < len(table):
        raise FileFormatError(f"refers to {what} {number}, and there are {len(table)}")
    return table[number]
