"""How programs are pickled: as columns, so that no depth of nesting makes pickle recurse.

The primitives of a program that hold other programs are taken apart, and these are replaced by their numbers. All else
is left to pickle, which knows, or with cloudpickle finds out, how to write classes, functions and arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, final

import attrs
import numpy as np
from attrs import frozen

from tinyjax.collecting import collecting_seldom
from tinyjax.errors import VerificationError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.files.columns import ColumnReader, ColumnWriter, Extent, program_key, programs_inner_first
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.traverse import programs_of

Reduced: TypeAlias = tuple[Callable[..., Jaxpr], tuple[object, ...]]


@final
@frozen
class _Nested:
    """Stands for a program within: its number."""

    number: int


@final
@frozen
class _Sequence:
    """Stands for a tuple or frozenset that holds programs."""

    kind: type[tuple[object, ...] | frozenset[object]]
    items: tuple[object, ...]


@final
@frozen
class _Record:
    """Stands for an instance of an attrs class that holds programs: the arguments that make it again."""

    kind: type
    fields: tuple[tuple[str, object], ...]


def reduce_program(jaxpr: Jaxpr) -> Reduced:
    """What `Jaxpr.__reduce__` returns."""
    try:
        return _read, _written(jaxpr)
    except VerificationError:
        # Programs that are malformed can be pickled too, to be looked at elsewhere.
        return _assembled, (jaxpr.invars, jaxpr.eqns, jaxpr.outvars)


def _assembled(invars: tuple[Var, ...], eqns: tuple[Eqn, ...], outvars: tuple[Atom, ...]) -> Jaxpr:
    return Jaxpr(invars, eqns, outvars)


@collecting_seldom
def _written(jaxpr: Jaxpr) -> tuple[object, ...]:
    writer = ColumnWriter()
    numbers: dict[tuple[int, Jaxpr], int] = {}
    primitives: list[object] = []
    known: dict[int, int] = {}
    programs: list[tuple[Extent, int]] = []
    names: list[tuple[str, ...]] = []

    def index_of(primitive: Primitive) -> int:
        found = known.get(id(primitive))
        if found is None:
            found = known[id(primitive)] = len(primitives)
            primitives.append(_taken_apart(primitive, numbers))
        return found

    for program in programs_inner_first(jaxpr):
        extent = writer.write(program, index_of)
        if program is not jaxpr:  # whose hash would take longer than all else
            numbers[program_key(program)] = len(programs)
        programs.append((extent, len(primitives)))
        names.append(() if program.names is None else program.input_names)
    tables = (tuple(writer.avals), tuple(writer.literals), tuple(writer.sources), tuple(primitives))
    return (*tables, tuple(programs), writer.columns(), names[-1], tuple(names[:-1]))


@collecting_seldom
def _read(
    avals: Sequence[ShapedArray],
    literals: Sequence[Literal],
    sources: Sequence[SourceInfo],
    primitives: Sequence[object],
    programs: Sequence[tuple[Extent, int]],
    columns: Mapping[str, HostArray],
    names: Sequence[str] = (),
    inner_names: Sequence[Sequence[str]] = (),
) -> Jaxpr:
    shared = [array_type(aval.shape, aval.dtype, aval.weak_type, aval.axes) for aval in avals]
    wide = {name: column.astype(np.uint64) for name, column in columns.items()}
    reader = ColumnReader(shared, literals, sources, wide)
    # What an older version has pickled has names for the outermost program only.
    called = (*(inner_names or [()] * (len(programs) - 1)), names)
    done: list[Jaxpr] = []
    made: list[object] = []
    for extent, count in programs:
        made += [_put_together(primitive, done) for primitive in primitives[len(made) : count]]
        done.append(reader.read(extent, made).with_names(called[len(done)]))
    return done[-1]


def _taken_apart(value: object, numbers: Mapping[tuple[int, Jaxpr], int]) -> object:
    """A parameter, with the numbers of the programs within it in their place; itself, if it holds none."""
    if isinstance(value, Jaxpr):
        number = numbers.get(program_key(value))
        return value if number is None else _Nested(number)  # None: in a field that is no part of the value
    cls = type(value)
    if not any(True for _ in programs_of(value)):
        return value
    if isinstance(value, tuple | frozenset):
        return _Sequence(type(value), tuple([_taken_apart(item, numbers) for item in value]))
    if not attrs.has(cls):
        return value
    fields = [attribute for attribute in attrs.fields(cls) if attribute.init]
    return _Record(cls, tuple([(field.alias, _taken_apart(getattr(value, field.name), numbers)) for field in fields]))


def _put_together(value: object, programs: Sequence[Jaxpr]) -> object:
    if isinstance(value, _Nested):
        return programs[value.number]
    if isinstance(value, _Sequence):
        return value.kind([_put_together(item, programs) for item in value.items])
    if isinstance(value, _Record):
        return value.kind(**{name: _put_together(item, programs) for name, item in value.fields})
    return value
