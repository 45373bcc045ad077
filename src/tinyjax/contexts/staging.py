"""Staging: values are the atoms of a program that grows, and applying a primitive records an equation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeAlias, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context, Foreign, Origin
from tinyjax.ir.dtypes import SUPPORTED
from tinyjax.ir.naming import InputNames
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.spelling import format_literal
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.program_value import well_typed
from tinyjax.ir.result_types import result_types
from tinyjax.ir.source import SourceCursor, SourceInfo
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.constant import Constant

_Record: TypeAlias = tuple[Primitive, tuple[Atom, ...], tuple[Var, ...], SourceInfo | None]
Captured: TypeAlias = "ConcreteValue | Foreign"


@final
@frozen
class Staged:
    """A finished program, and the values from outside that feed its first inputs."""

    jaxpr: Jaxpr
    captured: tuple[Captured, ...]


@final
class StagingContext(Context[Atom]):
    """Records equations. The one place in the library where something grows: plain tuples until `finish` freezes them.

    Values from outside become leading inputs of the program (closure conversion), one for each distinct array; scalars
    become literals.
    """

    __slots__ = (
        "_kept",
        "_keys",
        "_leading",
        "_numbers",
        "_outside",
        "_position",
        "_records",
        "_trailing",
        "cursor",
    )

    def __init__(self, cursor: SourceCursor | None = None) -> None:
        self.cursor: SourceCursor = SourceCursor() if cursor is None else cursor
        self._position = self.cursor.position
        self._outside = len(self.cursor.transformations)
        self._records: list[_Record] = []
        self._leading: list[tuple[Var, Captured | None]] = []  # one list, which several threads may append to
        self._trailing: list[Var] = []
        self._kept: list[object] = []  # what `_keys` identifies by id must not be freed while we stage
        self._keys: dict[int, Var] = {}
        self._numbers = count()  # no two threads get the same one

    def _new(self, aval: ShapedArray) -> Var:
        return Var(next(self._numbers), aval)

    def argument(self, aval: ShapedArray) -> Var:
        """A new input of the program."""
        var = self._new(aval)
        self._trailing.append(var)
        return var

    @property
    def argument_types(self) -> tuple[ShapedArray, ...]:
        """The types of the inputs that are arguments, so far."""
        return tuple([var.aval for var in self._trailing])

    def leading(self, aval: ShapedArray, captured: Captured | None = None) -> Var:
        """A new input that comes before all arguments, and the value from outside that feeds it."""
        var = self._new(aval)
        self._leading.append((var, captured))
        return var

    @override
    def bind(self, primitive: Primitive, *args: Atom) -> tuple[Var, ...]:
        avals = result_types(primitive, [arg.aval for arg in args])
        if len(avals) == 1:  # as it nearly always is
            outs: tuple[Var, ...] = (Var(next(self._numbers), avals[0]),)
        else:
            outs = tuple(map(self._new, avals))
        self._records.append((primitive, args, outs, self._position.current(self._outside)))
        return outs

    @override
    def constant(self, value: ConcreteValue | Literal) -> Atom:
        if isinstance(value, Literal):
            return value
        data = value.data
        if value.aval.shape == () and isinstance(data, np.ndarray) and value.aval.dtype in SUPPORTED:
            return Literal(data.item(), value.aval) if data.dtype.kind != "V" else _extended_literal(value)
        known = self._keys.get(id(data))
        if known is None or known.aval != value.aval:
            known = self._capture(value.frozen_copy(), id(data), data)
        return known

    @override
    def lift(self, value: Foreign) -> Var:
        known = self._keys.get(id(value))
        return self._capture(value, id(value), value) if known is None else known

    def _capture(self, value: Captured, key: int, kept_alive: object) -> Var:
        var = self.leading(value.aval, value)
        self._keys[key] = var
        self._kept.append(kept_alive)
        return var

    @override
    def aval(self, value: Atom) -> ShapedArray:
        return value.aval

    @override
    def holds(self, value: object) -> bool:
        return isinstance(value, Literal) or (isinstance(value, Var) and 0 <= value.index <= self._highest())

    def _highest(self) -> int:
        """The highest number of a variable so far; -1 if there is none."""
        results = next((outs for _, _, outs, _ in reversed(self._records) if outs), ())
        found = (*(var for var, _ in self._leading[-1:]), *self._trailing[-1:], *results)
        return max([var.index for var in found], default=-1)

    @override
    def origin(self, value: Atom) -> Origin:
        if isinstance(value, Literal):
            return Origin(self, "a literal")
        for primitive, _, outs, source in reversed(self._records):
            if value in outs:
                return Origin(self, f"the result of {primitive.name!r}", source)
        if any(value == var for var, _ in self._leading):
            return Origin(self, "a value from outside the function")
        return Origin(self, input=self._trailing.index(value))

    def finish(self, outs: Sequence[Atom], names: Callable[[], Sequence[str]] | None = None) -> Staged:
        """The program that was recorded, with these outputs. `names`: of the arguments."""
        leading = list(self._leading)
        inputs = (*(var for var, _ in leading), *self._trailing)
        captured = tuple(value for _, value in leading if value is not None)
        found = None if names is None else _names(len(leading), names)
        # Out of order: captured late, recorded by several threads, or interrupted before it was recorded.
        order = [var.index for var in inputs] + [var.index for record in self._records for var in record[2]]
        if order == list(range(len(order))):
            eqns = tuple([Eqn(*record) for record in self._records])
            return Staged(well_typed(Jaxpr(inputs, eqns, tuple(outs), names=found)), captured)
        return Staged(_renumber(inputs, self._records, outs, found), captured)

    @override
    def rule_of(self, primitive: Primitive, args: Sequence[Atom]) -> str:
        return "type_of"

    @override
    def shown(self, value: Atom) -> str:
        return format_literal(value) if isinstance(value, Literal) else str(value.aval)


def _names(leading: int, names: Callable[[], Sequence[str]]) -> InputNames:
    return InputNames(lambda: [*[""] * leading, *names()])


def stage(avals: Sequence[ShapedArray], run: Callable[[StagingContext, list[Atom]], Sequence[Atom]]) -> Jaxpr:
    """The program that `run` records on inputs of these types. Array constants in it become equations."""
    ctx = StagingContext()
    staged = ctx.finish(run(ctx, [ctx.argument(aval) for aval in avals]))
    if not staged.captured:
        return staged.jaxpr
    constants = [value for value in staged.captured if isinstance(value, ConcreteValue)]
    jaxpr, n = staged.jaxpr, len(constants)
    records: list[_Record] = [(Constant(c), (), (v,), None) for c, v in zip(constants, jaxpr.invars[:n], strict=True)]
    records += [(eqn.primitive, eqn.invars, eqn.outvars, eqn.source) for eqn in jaxpr.eqns]
    return _renumber(jaxpr.invars[n:], records, jaxpr.outvars, None)


def _extended_literal(value: ConcreteValue) -> Literal:
    """A literal of a dtype that isn't NumPy's own, such as bfloat16."""
    return Literal(float(np.asarray(value.data)), value.aval)


def _renumber(
    inputs: Sequence[Var], records: Sequence[_Record], outs: Sequence[Atom], names: InputNames | None
) -> Jaxpr:
    """The program with its bindings numbered in order."""
    new: dict[int, Var] = {}

    def bound(var: Var) -> Var:
        fresh = new[var.index] = Var(len(new), var.aval)
        return fresh

    invars = tuple(map(bound, inputs))
    eqns = []
    for primitive, ins, results, source in records:
        read = tuple([new[atom.index] if type(atom) is Var else atom for atom in ins])
        made = (bound(results[0]),) if len(results) == 1 else tuple(map(bound, results))
        eqns.append(Eqn(primitive, read, made, source))
    outvars = tuple([new[atom.index] if type(atom) is Var else atom for atom in outs])
    return well_typed(Jaxpr(invars, tuple(eqns), outvars, names=names))
