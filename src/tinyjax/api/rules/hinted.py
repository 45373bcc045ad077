"""Staging where the elements behind some inputs are known: so that Python control flow can ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from typing_extensions import override

from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.staging import Staged, StagingContext
from tinyjax.errors import MissingRuleError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Literal, Var
from tinyjax.ir.roles import Foreign, Origin
from tinyjax.ir.source import SourceCursor
from tinyjax.ir.value import ConcreteValue


@final
class HintedContext(Context[Atom]):
    """Records equations, as a StagingContext does. Where it is asked for the elements behind a value that depends on
    known inputs only, it computes them: then, and not before."""

    __slots__ = ("_evaluation", "_hints", "_made", "cursor", "staged")

    def __init__(self) -> None:
        self.staged: StagingContext = StagingContext()
        self.cursor: SourceCursor = self.staged.cursor
        self._evaluation = EvalContext()
        self._hints: dict[Var, ConcreteValue | None] = {}
        self._made: dict[Var, tuple[Primitive, tuple[Atom, ...], tuple[Var, ...]]] = {}

    def argument(self, aval: ShapedArray, hint: ConcreteValue | None = None) -> Var:
        """A new input of the program, and its elements if they are known."""
        var = self.staged.argument(aval)
        self._hints[var] = hint
        return var

    @override
    def bind(self, primitive: Primitive, *args: Atom) -> tuple[Var, ...]:
        outs = self.staged.bind(primitive, *args)
        self._made.update(dict.fromkeys(outs, (primitive, args, outs)))
        return outs

    @override
    def constant(self, value: ConcreteValue | Literal) -> Atom:
        atom = self.staged.constant(value)
        if isinstance(atom, Var) and isinstance(value, ConcreteValue):
            self._hints[atom] = value
        return atom

    @override
    def aval(self, value: Atom) -> ShapedArray:
        return value.aval

    @override
    def holds(self, value: object) -> bool:
        return self.staged.holds(value)

    @override
    def lift(self, value: Foreign) -> Var:
        return self.staged.lift(value)

    @override
    def concrete(self, value: Atom) -> ConcreteValue | None:
        """The elements behind a value, where everything that it depends on is known."""
        pending = [value]
        while pending:
            atom = pending[-1]
            if isinstance(atom, Literal) or atom in self._hints or atom not in self._made:
                pending.pop()
                continue
            primitive, args, outs = self._made[atom]
            missing = [arg for arg in args if isinstance(arg, Var) and arg in self._made and arg not in self._hints]
            if missing:
                pending += missing
            else:
                self._hints.update(zip(outs, self._evaluate(primitive, args, len(outs)), strict=True))
        return self._hint(value)

    def _hint(self, atom: Atom) -> ConcreteValue | None:
        return self._evaluation.constant(atom) if isinstance(atom, Literal) else self._hints.get(atom)

    def _evaluate(self, primitive: Primitive, args: Sequence[Atom], count: int) -> Sequence[ConcreteValue | None]:
        values = [hint for arg in args if (hint := self._hint(arg)) is not None]
        if primitive.effects or len(values) < len(args):
            return [None] * count
        try:
            return self._evaluation.bind(primitive, *values)
        except MissingRuleError:
            return [None] * count

    @override
    def origin(self, value: Atom) -> Origin:
        return self.staged.origin(value)

    def finish(self, outs: Sequence[Atom]) -> Staged:
        """The program that was recorded, with these outputs."""
        return self.staged.finish(outs)
