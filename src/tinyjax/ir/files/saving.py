"""A program as the members of the archive that `tinyjax.ir.files.program_files` describes."""

from __future__ import annotations

import msgspec

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.files import schema
from tinyjax.ir.files.archive import Content, elements_of
from tinyjax.ir.files.columns import ColumnWriter, program_key, programs_inner_first
from tinyjax.ir.files.encoding import ValueWriter, dtype_name, encode_number
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.value import ConcreteValue


def members_of(program: ClosedJaxpr | Jaxpr) -> dict[str, Content]:
    """The members of the archive."""
    jaxpr, consts = (program.jaxpr, program.consts) if isinstance(program, ClosedJaxpr) else (program, ())
    writer = ColumnWriter()
    numbers: dict[tuple[int, Jaxpr], int] = {}
    arrays: dict[int, int] = {}
    elements: list[Content] = []

    def aval_number(aval: ShapedArray) -> int:
        return writer.avals.setdefault(aval, len(writer.avals))

    def array_number(value: ConcreteValue) -> int:
        number = arrays.get(id(value.data))
        if number is None:
            number = arrays[id(value.data)] = len(elements)
            elements.append(elements_of(value.data))
        return number

    def program_number(inner: Jaxpr) -> int:
        return numbers[program_key(inner)]

    values = ValueWriter(aval_number, array_number, program_number)
    lines = ValueWriter(aval_number, array_number, program_number)

    def primitive_number(primitive: Primitive) -> int:
        return values.add(primitive, primitive.name)

    programs: list[schema.ProgramExtent] = []
    names: list[list[str]] = []
    for inner in programs_inner_first(jaxpr):
        extent = writer.write(inner, primitive_number)
        if inner is not jaxpr:  # whose hash would take longer than all else
            numbers[program_key(inner)] = len(programs)
        programs.append(schema.ProgramExtent(extent.inputs, extent.eqns, extent.outputs, len(values.entries)))
        names.append(_names(inner))
    held = [values.add(const, f"constant {number}") for number, const in enumerate(consts)]
    sources = [lines.add(source, "a source line") for source in writer.sources]
    literals = [schema.LiteralEntry(encode_number(item.value), aval_number(item.aval)) for item in writer.literals]
    columns = writer.columns()
    table = schema.Table(
        avals=[schema.Aval(dtype_name(aval.dtype), aval.shape, aval.weak_type) for aval in writer.avals],
        literals=literals,
        lines=list(lines.entries),
        sources=sources,
        values=list(values.entries),
        programs=programs,
        columns={name: f"u{column.dtype.itemsize}" for name, column in columns.items()},
        closed=isinstance(program, ClosedJaxpr),
        consts=held,
        varying=[(number, aval.axes) for aval, number in writer.avals.items() if aval.axes],
    )
    header = schema.Header(schema.FORMAT, schema.VERSION, f"tinyjax {schema.library_version()}")
    return {
        "header.json": msgspec.json.encode(header),
        "program.json": msgspec.json.encode(table),
        **({"names.json": msgspec.json.encode(names)} if any(names) else {}),
        **{f"columns/{name}": elements_of(column) for name, column in columns.items()},
        **{f"arrays/{number}": content for number, content in enumerate(elements)},
    }


def _names(jaxpr: Jaxpr) -> list[str]:
    """What the inputs are called; nothing, if none has a name. JSON has no surrogates, and names are for people."""
    found = () if jaxpr.names is None else jaxpr.input_names
    return [name.encode(errors="replace").decode() for name in found] if any(found) else []
