"""Programs as tables of what they hold, and columns of indices into these tables: what files and pickles are made of.

    { lambda ; a:f32[]. let            types     f32[]
        b:f32[] = mul a 2.0            literals  2.0
        c:f32[] = add b a              columns   primitive      mul         add
      in (c,) }                                  operand_count  2           2
                                                 operand        a  ~0       b  a    c
                                                 binding        f32[] |  f32[]  f32[]

The columns of all programs follow one another, so a program costs a few bytes for each operand, and those within others
are written before these, by themselves: neither writing nor reading recurses.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, final

import numpy as np
import numpy.typing as npt
from attrs import frozen

from tinyjax.errors import FileFormatError, VerificationError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.traverse import nested_programs

Indices: TypeAlias = npt.NDArray[np.uint64]

#: For each equation: its primitive, the number of its source line (0: none), how many operands and results it has. For
#: each operand: twice the number of a variable, or twice that of a literal and one; those of a program's equations,
#: then its outputs. For each binding: its type; a program's inputs, then its equations' results.
COLUMNS: Final = ("primitive", "source", "operand_count", "result_count", "operand", "binding")


@final
@frozen
class Extent:
    """How much of the columns one program takes up: its numbers of inputs, equations and outputs."""

    inputs: int
    eqns: int
    outputs: int


def program_key(jaxpr: Jaxpr) -> tuple[int, Jaxpr]:
    """What programs within others are written once by: their value, and the lines that they came from."""
    return jaxpr.lines, jaxpr


def programs_inner_first(jaxpr: Jaxpr) -> list[Jaxpr]:
    """The distinct programs within a program, by value and source lines, inner ones first; itself last."""
    return nested_programs(jaxpr, program_key)


@final
class ColumnWriter:
    """Writes programs, one after another. `avals`, `literals` and `sources` are numbered as they come up."""

    def __init__(self) -> None:
        self.avals: dict[ShapedArray, int] = {}
        self.literals: dict[Literal, int] = {}
        self.sources: dict[SourceInfo, int] = {}
        self._columns = {name: array("Q") for name in COLUMNS}

    def write(self, jaxpr: Jaxpr, index_of: Callable[[Primitive], int]) -> Extent:
        """Adds a program; `index_of` gives the numbers of primitives. A VerificationError if it is malformed."""
        avals, literals, sources = self.avals, self.literals, self.sources
        add_primitive, add_source, add_operand_count, add_result_count, add_operand, add_binding = (
            self._columns[name].append for name in COLUMNS
        )
        bound: list[ShapedArray] = []
        primitives: dict[int, int] = {}

        def bind(variables: Sequence[Var]) -> None:
            for var in variables:
                if var.index != len(bound):
                    raise _malformed(f"variable number {var.index} is bound where number {len(bound)} is due")
                aval = var.aval
                bound.append(aval)
                add_binding(avals.setdefault(aval, len(avals)))

        def read(atoms: Sequence[Atom]) -> None:
            for atom in atoms:
                if isinstance(atom, Var):
                    index = atom.index
                    if not 0 <= index < len(bound):
                        raise _malformed(f"variable number {index} is read before it is bound")
                    aval = bound[index]
                    if aval is not atom.aval and aval != atom.aval:
                        raise _malformed(f"variable number {index} is bound as {aval}, but read as {atom.aval}")
                    add_operand(2 * index)
                else:
                    add_operand(2 * literals.setdefault(atom, len(literals)) + 1)

        bind(jaxpr.invars)
        for eqn in jaxpr.eqns:
            primitive, source = eqn.primitive, eqn.source
            number = primitives.get(id(primitive))
            if number is None:
                number = primitives[id(primitive)] = index_of(primitive)
            add_primitive(number)
            add_source(0 if source is None else sources.setdefault(source, len(sources)) + 1)
            add_operand_count(len(eqn.invars))
            add_result_count(len(eqn.outvars))
            read(eqn.invars)
            bind(eqn.outvars)
        read(jaxpr.outvars)
        return Extent(len(jaxpr.invars), len(jaxpr.eqns), len(jaxpr.outvars))

    def columns(self) -> dict[str, HostArray]:
        """The columns so far, as arrays of the narrowest type."""
        wide = {name: np.array(column, np.uint64) for name, column in self._columns.items()}
        return {
            name: column.astype(np.min_scalar_type(int(np.max(column, initial=0)))) for name, column in wide.items()
        }


def _malformed(problem: str) -> VerificationError:
    return VerificationError(f"a malformed program can't be written: {problem}. `typecheck(program)` says where.")


@final
class ColumnReader:
    """Reads programs, one after another. A FileFormatError if the columns or tables don't fit together.

    What it returns has the right shape, but may be ill-typed, or read variables that aren't bound yet: `typecheck` it.
    """

    def __init__(
        self,
        avals: Sequence[ShapedArray],
        literals: Sequence[Literal],
        sources: Sequence[SourceInfo],
        columns: Mapping[str, Indices],
    ) -> None:
        self._avals = avals
        self._literals = literals
        self._lines = (None, *sources)
        self._columns = columns
        self._position = dict.fromkeys(COLUMNS, 0)

    def read(self, extent: Extent, primitives: Sequence[object]) -> Jaxpr:
        """The next program. `primitives` holds its primitives, at their numbers, and perhaps other things."""
        if min(extent.inputs, extent.eqns, extent.outputs) < 0:
            raise FileFormatError(f"a program can't have the sizes {extent}")
        numbers = self._take("primitive", extent.eqns)
        sources = self._take("source", extent.eqns)
        operand_counts = self._take("operand_count", extent.eqns)
        result_counts = self._take("result_count", extent.eqns)
        operands = self._take("operand", _total(operand_counts) + extent.outputs)
        bindings = self._take("binding", _total(result_counts) + extent.inputs)
        _check_indices("primitive", numbers, len(primitives))
        _check_indices("source", sources, len(self._lines))
        _check_indices("operand", operands[operands % 2 == 0] // 2, len(bindings))
        _check_indices("operand", operands[operands % 2 == 1] // 2, len(self._literals))
        _check_indices("binding", bindings, len(self._avals))
        found = {int(number): _primitive(primitives[number]) for number in np.unique(numbers)}

        avals, literals, lines = self._avals, self._literals, self._lines
        variables = [Var(index, avals[aval]) for index, aval in enumerate(bindings.tolist())]
        atoms: list[Atom] = [
            literals[operand >> 1] if operand & 1 else variables[operand >> 1] for operand in operands.tolist()
        ]
        eqns: list[Eqn] = []
        read, bound = 0, extent.inputs
        columns = (numbers, sources, operand_counts, result_counts)
        for number, source, ins, outs in zip(*(column.tolist() for column in columns), strict=True):
            invars, outvars = tuple(atoms[read : read + ins]), tuple(variables[bound : bound + outs])
            eqns.append(Eqn(found[number], invars, outvars, lines[source]))
            read, bound = read + ins, bound + outs
        return Jaxpr(tuple(variables[: extent.inputs]), tuple(eqns), tuple(atoms[read:]))

    def _take(self, name: str, count: int) -> Indices:
        column, start = self._columns[name], self._position[name]
        if not 0 <= count <= len(column) - start:
            raise FileFormatError(
                f"column {name!r} has {len(column)} entries, too few for programs that need {start + count} or more"
            )
        self._position[name] = start + count
        return column[start : start + count]

    def finish(self) -> None:
        """A FileFormatError if something is left over."""
        for name, column in self._columns.items():
            if len(column) != self._position[name]:
                raise FileFormatError(
                    f"column {name!r} has {len(column)} entries, but the programs take {self._position[name]}"
                )


def _total(counts: Indices) -> int:
    """The sum, which may be far too large if the counts are wrong, but doesn't wrap around."""
    return sum(counts.tolist())


def _check_indices(name: str, indices: Indices, size: int) -> None:
    largest = int(np.max(indices, initial=0))
    if len(indices) and largest >= size:
        raise FileFormatError(f"column {name!r} refers to entry {largest} of a table of {size}")


def _primitive(value: object) -> Primitive:
    if not isinstance(value, Primitive):
        raise FileFormatError(f"an equation applies {value!r}, which is not a primitive")
    return value
