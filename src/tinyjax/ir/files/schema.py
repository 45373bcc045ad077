"""What the table of a program file says, as typed records: docs/files.md describes it.

Values are numbered, and refer by number to values before them, so that none contains itself, however a file was made.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final, TypeAlias, final

import msgspec

#: The version of the format that this library writes, and the newest that it reads.
VERSION: Final = 1
FORMAT: Final = "tinyjax program"


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A part of a program, written as a JSON array: a tag where there are several kinds, then the fields in order."""


@final
class NoneEntry(Entry, frozen=True, tag="none"):
    """None."""


@final
class BoolEntry(Entry, frozen=True, tag="bool"):
    value: bool


@final
class IntEntry(Entry, frozen=True, tag="int"):
    """An integer of any size: a number if 64 bits hold it, else its hexadecimal digits."""

    value: int | str


@final
class FloatEntry(Entry, frozen=True, tag="float"):
    """The bits of a float64, in hexadecimal."""

    bits: str


@final
class ComplexEntry(Entry, frozen=True, tag="complex"):
    """The bits of the real part, and those of the imaginary part."""

    real: str
    imag: str


@final
class StrEntry(Entry, frozen=True, tag="str"):
    value: str


@final
class SurrogatesEntry(Entry, frozen=True, tag="surrogates"):
    """A string that isn't Unicode text, such as the name of a file may be: its bytes in UTF-8 with surrogates."""

    value: bytes


@final
class BytesEntry(Entry, frozen=True, tag="bytes"):
    value: bytes


@final
class TupleEntry(Entry, frozen=True, tag="tuple"):
    items: tuple[int, ...]


@final
class SetEntry(Entry, frozen=True, tag="set"):
    items: tuple[int, ...]


@final
class DTypeEntry(Entry, frozen=True, tag="dtype"):
    name: str


@final
class TypeEntry(Entry, frozen=True, tag="type"):
    """A class that is itself a parameter, by its module and name."""

    name: str


@final
class AvalEntry(Entry, frozen=True, tag="aval"):
    """The number of an array type."""

    aval: int


@final
class ArrayEntry(Entry, frozen=True, tag="array"):
    """The number of an array, which is the member `arrays/N` of the file, and that of its type."""

    array: int
    aval: int


@final
class ProgramEntry(Entry, frozen=True, tag="program"):
    """The number of a program."""

    program: int


@final
class EnumEntry(Entry, frozen=True, tag="enum"):
    """The name of an enumeration, and that of a member, or a number for flags."""

    cls: str
    member: str | int


@final
class RecordEntry(Entry, frozen=True, tag="record"):
    """The name of an attrs class, and its fields by name."""

    cls: str
    fields: tuple[tuple[str, int], ...]


@final
class PrimitiveEntry(Entry, frozen=True, tag="primitive"):
    """The name of a primitive, that of its class, and its parameters by name."""

    name: str
    cls: str
    fields: tuple[tuple[str, int], ...]


Number: TypeAlias = BoolEntry | IntEntry | FloatEntry | ComplexEntry
Plain: TypeAlias = NoneEntry | Number | StrEntry | SurrogatesEntry | BytesEntry | DTypeEntry | TypeEntry | EnumEntry
Composite: TypeAlias = TupleEntry | SetEntry | RecordEntry | PrimitiveEntry
Value: TypeAlias = Plain | Composite | AvalEntry | ArrayEntry | ProgramEntry


@final
class Aval(Entry, frozen=True):
    """An array type."""

    dtype: str
    shape: tuple[int, ...]
    weak_type: bool


@final
class LiteralEntry(Entry, frozen=True):
    """A literal: its number, and the number of its type."""

    value: Number
    aval: int


@final
class ProgramExtent(Entry, frozen=True):
    """How many inputs, equations and outputs a program has, and how many values come before it."""

    inputs: int
    eqns: int
    outputs: int
    values: int


class Table(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The whole table. The last program is the one that was saved; `closed`: with constants, by the numbers of their
    values. `varying` has the array types that say something along axes of a mesh: their numbers, and what."""

    avals: list[Aval]
    literals: list[LiteralEntry]
    lines: list[Value]
    sources: list[int]
    values: list[Value]
    programs: list[ProgramExtent]
    columns: dict[str, str]
    closed: bool
    consts: list[int]
    varying: list[tuple[int, tuple[str, ...]]] = []


class Header(msgspec.Struct):
    """What every version of the format begins with."""

    format: str
    version: int
    written_by: str


def library_version() -> str:
    """The version of this library, for messages."""
    try:
        return version("tinyjax")
    except PackageNotFoundError:
        return "of an unknown version"
