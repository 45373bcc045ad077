"""Staging: values are the atoms of a program that grows, and applying a primitive records an equation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from attrs import frozen
from typing_extensions import override

from tinyjax.contexts.casts import cast_operands
from tinyjax.contexts.literals import as_literal
from tinyjax.contexts.recording import Captured, Recording, Tape, Values, renumber
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.result_types import types_of
from tinyjax.ir.roles import Foreign, Origin
from tinyjax.ir.shapes import Axes
from tinyjax.ir.source import SourceCursor
from tinyjax.ir.value import ConcreteValue
from tinyjax.ir.varying import UnevenError, also
from tinyjax.primitives.constant import Constant


@final
@frozen
class Staged:
    """A finished program, and the values from outside that feed its first inputs."""

    jaxpr: Jaxpr
    captured: tuple[Captured, ...]


@final
class StagingContext(Context[Atom]):
    """Records equations.

    Values from outside become leading inputs of the program (closure conversion), one for each distinct array; scalars
    become literals.
    """

    __slots__ = ("_eqns", "_kept", "_keys", "_numbers", "_outside", "_position", "_program", "_varying", "cursor")

    def __init__(self, cursor: SourceCursor | None = None, varying: Axes = (), values: Values | None = None) -> None:
        self._varying = varying  # along which axes of a mesh values from outside vary at least
        self.cursor: SourceCursor = SourceCursor() if cursor is None else cursor
        self._position = self.cursor.position
        self._outside = len(self.cursor.transformations)
        self._program = Recording(values)
        self._eqns, self._numbers = self._program.eqns, self._program.numbers
        self._kept: list[object] = []  # what `_keys` identifies by id must not be freed while we stage
        self._keys: dict[int, Var] = {}

    def argument(self, aval: ShapedArray) -> Var:
        """A new input of the program."""
        var = self._program.new(aval)
        self._program.trailing.append(var)
        return var

    @property
    def argument_types(self) -> tuple[ShapedArray, ...]:
        """The types of the inputs that are arguments, so far."""
        return tuple([var.aval for var in self._program.trailing])

    def leading(self, aval: ShapedArray, captured: Captured | None = None) -> Var:
        """A new input that comes before all arguments, and the value from outside that feeds it."""
        var = self._program.new(aval)
        self._program.leading.append((var, captured))
        return var

    @override
    def bind(self, primitive: Primitive, *args: Atom) -> tuple[Var, ...]:
        try:
            avals = types_of(primitive, args)
        except UnevenError as uneven:
            return self.bind(primitive, *cast_operands(self, args, uneven.wanted))
        if len(avals) == 1:  # as it nearly always is
            outs: tuple[Var, ...] = (Var(next(self._numbers), avals[0]),)
        else:
            outs = tuple(map(self._program.new, avals))
        self._eqns.append(Eqn(primitive, args, outs, self._position.current(self._outside)))
        return outs

    @override
    def constant(self, value: ConcreteValue | Literal) -> Atom:
        if isinstance(value, Literal):
            return value
        literal = as_literal(value)
        if literal is not None:
            return literal
        data = value.data
        known = self._keys.get(id(data))
        if known is None or known.aval != self._inside(value.aval):
            known = self._capture(value.frozen_copy(), id(data), data)
        return known

    @override
    def lift(self, value: Foreign) -> Var:
        known = self._keys.get(id(value))
        return self._capture(value, id(value), value) if known is None else known

    def _capture(self, value: Captured, key: int, kept_alive: object) -> Var:
        var = self.leading(self._inside(value.aval), value)
        self._keys[key] = var
        self._kept.append(kept_alive)
        return var

    def _inside(self, aval: ShapedArray) -> ShapedArray:
        return aval.varying_over(also(aval.axes, self._varying)) if self._varying else aval

    @override
    def aval(self, value: Atom) -> ShapedArray:
        return value.aval

    def finish(self, outs: Sequence[Atom], names: Callable[[], Sequence[str]] | None = None) -> Staged:
        """The program that was recorded, with these outputs. `names`: of the arguments."""
        return Staged(*self._program.finish(outs, names))

    def tape(self, outs: Sequence[Atom]) -> Tape:
        """What was recorded, with these outputs, as it is. What feeds its first inputs isn't in it."""
        return self._program.tape(outs)

    @override
    def holds(self, value: object) -> bool:
        return isinstance(value, Literal) or (isinstance(value, Var) and 0 <= value.index <= self._program.highest)

    @override
    def origin(self, value: Atom) -> Origin:
        return Origin(self, *self._program.origin(value), known=lambda: self._program.known(value))

    @override
    def rule_of(self, primitive: Primitive, args: Sequence[Atom]) -> str:
        return "type_of"

    @override
    def shown(self, value: Atom) -> str:
        return self._program.shown(value)


def stage(avals: Sequence[ShapedArray], run: Callable[[StagingContext, list[Atom]], Sequence[Atom]]) -> Jaxpr:
    """The program that `run` records on inputs of these types. Array constants in it become equations."""
    ctx = StagingContext()
    staged = ctx.finish(run(ctx, [ctx.argument(aval) for aval in avals]))
    if not staged.captured:
        return staged.jaxpr
    constants = [value for value in staged.captured if isinstance(value, ConcreteValue)]
    jaxpr, n = staged.jaxpr, len(constants)
    first = [Eqn(Constant(constant), (), (v,)) for constant, v in zip(constants, jaxpr.invars[:n], strict=True)]
    return renumber(jaxpr.invars[n:], [*first, *jaxpr.eqns], jaxpr.outvars, None)
