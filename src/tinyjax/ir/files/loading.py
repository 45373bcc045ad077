"""The program in an archive, as `program_files` describes it. Nothing that the archive says is taken on trust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar, final

import msgspec
import numpy as np

from tinyjax.errors import FileFormatError, TinyjaxError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.files import schema
from tinyjax.ir.files.archive import Archive, array_of
from tinyjax.ir.files.columns import COLUMNS, ColumnReader, Extent, Indices
from tinyjax.ir.files.encoding import ValueReader, decode_number, dtype_named, pick
from tinyjax.ir.program import ClosedJaxpr, Jaxpr, Literal
from tinyjax.ir.shapes import as_axes
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.text.registry import Registry
from tinyjax.ir.typecheck import typecheck
from tinyjax.ir.value import ConcreteValue

T = TypeVar("T")
_WIDTHS: Final = ("u1", "u2", "u4", "u8")
#: What typing rules may raise for parameters that make no sense.
_REFUSALS: Final = (
    TinyjaxError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


def program_in(archive: Archive, registry: Registry) -> ClosedJaxpr | Jaxpr:
    """The program, verified; a FileFormatError that says what is wrong."""
    program = _Loader(archive, _table(archive), registry).program()
    try:
        typecheck(program)
    except _REFUSALS as error:
        raise FileFormatError(f"it holds a program that is not valid: {error}") from error
    return program


def _table(archive: Archive) -> schema.Table:
    header = _decoded(archive, "header.json", schema.Header)
    if header.format != schema.FORMAT:
        raise FileFormatError(f"it is no program file: it calls its format {header.format!r}")
    if header.version != schema.VERSION:
        raise FileFormatError(
            f"it was written by {header.written_by} in version {header.version} of the format, and this is tinyjax "
            f"{schema.library_version()}, which reads version {schema.VERSION}. Load it with a newer tinyjax."
        )
    return _decoded(archive, "program.json", schema.Table)


def _decoded(archive: Archive, member: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(archive.read(member), type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise FileFormatError(f"its member {member!r} is wrong: {error}") from error


@final
class _Loader:
    """Makes the program of what one file says."""

    def __init__(self, archive: Archive, table: schema.Table, registry: Registry) -> None:
        self._archive = archive
        self._table = table
        self._avals = [_aval(aval) for aval in table.avals]
        for number, axes in table.varying:
            self._avals[number] = pick(self._avals, number, "type").varying_over(as_axes(axes))
        self._registry = registry
        self._arrays: dict[tuple[int, ShapedArray], ConcreteValue] = {}

    def program(self) -> ClosedJaxpr | Jaxpr:
        table = self._table
        literals = [Literal(decode_number(item.value), pick(self._avals, item.aval, "type")) for item in table.literals]
        reader = ColumnReader(self._avals, literals, self._sources(), self._columns())
        values = ValueReader(self._registry, self._avals, self._array)
        programs: list[Jaxpr] = []
        names = self._names()
        for extent in table.programs:
            if not len(values.values) <= extent.values <= len(table.values):
                raise FileFormatError(f"program {len(programs)} comes after {extent.values} values, which can't be")
            values.read(table.values[len(values.values) : extent.values], programs)
            program = reader.read(Extent(extent.inputs, extent.eqns, extent.outputs), values.values)
            programs.append(program.with_names(names[len(programs)]) if names else program)
        values.read(table.values[len(values.values) :], programs)
        reader.finish()
        if not programs:
            raise FileFormatError("it holds no program")
        consts = [_const(pick(values.values, number, "value")) for number in table.consts]
        if table.closed:
            return ClosedJaxpr(programs[-1], tuple(consts))
        if consts:
            raise FileFormatError("it has constants for a program that takes none")
        return programs[-1]

    def _names(self) -> list[list[str]]:
        """What the inputs of each program are called. Older files, and those without names, lack the member."""
        if "names.json" not in self._archive:
            return []
        names, programs = _decoded(self._archive, "names.json", list[list[str]]), self._table.programs
        if len(names) != len(programs):
            raise FileFormatError(f"it has names for {len(names)} programs, but holds {len(programs)}")
        for number, (found, extent) in enumerate(zip(names, programs, strict=True)):
            if found and len(found) != extent.inputs:
                raise FileFormatError(f"it has {len(found)} names for the {extent.inputs} inputs of program {number}")
        return names

    def _sources(self) -> list[SourceInfo]:
        lines = ValueReader(self._registry, self._avals, self._array)
        lines.read(self._table.lines, ())
        return [_source(pick(lines.values, number, "source line")) for number in self._table.sources]

    def _columns(self) -> Mapping[str, Indices]:
        widths = self._table.columns
        if set(widths) != set(COLUMNS) or not set(widths.values()) <= set(_WIDTHS):
            raise FileFormatError(f"its columns are {widths}, which are not those of this version")
        return {name: self._column(name, width) for name, width in widths.items()}

    def _column(self, name: str, width: str) -> Indices:
        content = self._archive.read(f"columns/{name}")
        if len(content) % int(width.removeprefix("u")):
            raise FileFormatError(f"column {name!r} ends in the middle of an entry")
        return np.frombuffer(content, f"<{width}").astype(np.uint64)

    def _array(self, number: int, aval: ShapedArray) -> ConcreteValue:
        found = self._arrays.get((number, aval))
        if found is None:
            elements = self._archive.read(f"arrays/{number}")
            found = self._arrays[number, aval] = ConcreteValue(array_of(elements, aval.dtype, aval.shape), aval)
        return found


def _aval(aval: schema.Aval) -> ShapedArray:
    if any(size < 0 for size in aval.shape):
        raise FileFormatError(f"there is no array type of shape {aval.shape}")
    return array_type(aval.shape, dtype_named(aval.dtype), aval.weak_type)


def _const(value: object) -> ConcreteValue:
    if not isinstance(value, ConcreteValue):
        raise FileFormatError(f"{value!r} is there where a constant should be")
    return value


def _source(value: object) -> SourceInfo:
    if not isinstance(value, SourceInfo):
        raise FileFormatError(f"{value!r} is there where a source line should be")
    return value
