"""A program that grows: plain tuples, which are numbered in order and frozen at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Protocol, TypeAlias, final

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.naming import InputNames
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.spelling import format_literal
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.program_value import well_typed
from tinyjax.ir.roles import Foreign
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.value import ConcreteValue

Record: TypeAlias = tuple[Primitive, tuple[Atom, ...], tuple[Var, ...], SourceInfo | None]
Captured: TypeAlias = "ConcreteValue | Foreign"


class Values(Protocol):
    """What is known of the result of a program so far, for what feeds its first inputs."""

    def shown(self, jaxpr: Jaxpr, captured: Sequence[Captured]) -> str:
        """As text; "" for nothing."""

    def known(self, jaxpr: Jaxpr, captured: Sequence[Captured]) -> ConcreteValue | None:
        """Its elements, if they are the same for all."""


@final
class Recording:
    """The one place in the library where something grows. Several threads may record at the same time."""

    __slots__ = ("_values", "leading", "numbers", "records", "trailing")

    def __init__(self, values: Values | None = None) -> None:
        self._values = values
        self.records: list[Record] = []
        #: The inputs that come first, with the values from outside that feed them.
        self.leading: list[tuple[Var, Captured | None]] = []
        #: The inputs that are arguments.
        self.trailing: list[Var] = []
        self.numbers: Iterator[int] = count()  # no two threads get the same one

    def new(self, aval: ShapedArray) -> Var:
        return Var(next(self.numbers), aval)

    def finish(
        self, outs: Sequence[Atom], names: Callable[[], Sequence[str]] | None
    ) -> tuple[Jaxpr, tuple[Captured, ...]]:
        """The program with these outputs, and what feeds its first inputs. `names`: of the arguments."""
        leading = list(self.leading)
        inputs = (*(var for var, _ in leading), *self.trailing)
        captured = tuple(value for _, value in leading if value is not None)
        found = None if names is None else _names(len(leading), names)
        eqns = _in_order(inputs, self.records)
        if eqns is None:
            return renumber(inputs, self.records, outs, found), captured
        return well_typed(Jaxpr(inputs, tuple(eqns), tuple(outs), names=found)), captured

    @property
    def highest(self) -> int:
        """The highest number of a variable so far; -1 if there is none."""
        results = next((outs for _, _, outs, _ in reversed(self.records) if outs), ())
        found = (*(var for var, _ in self.leading[-1:]), *self.trailing[-1:], *results)
        return max([var.index for var in found], default=-1)

    def origin(self, value: Atom) -> tuple[str, SourceInfo | None, int | None]:
        """What an atom is, the line that made it, and its position among the arguments, if it is one."""
        if isinstance(value, Literal):
            return "a literal", None, None
        for primitive, _, outs, source in reversed(self.records):
            if value in outs:
                return f"the result of {primitive.name!r}", source, None
        if any(value == var for var, _ in self.leading):
            return "a value from outside the function", None, None
        return "", None, self.trailing.index(value)

    def shown(self, value: Atom) -> str:
        """An atom as text: a literal, or what is known of a variable, at least its type."""
        if isinstance(value, Literal):
            return format_literal(value)
        return ("" if self._values is None else self._values.shown(*self.finish([value], None))) or str(value.aval)

    def known(self, value: Atom) -> ConcreteValue | None:
        """The elements of an atom, computed of what is recorded so far, where that is possible."""
        return None if self._values is None else self._values.known(*self.finish([value], None))


def _names(leading: int, names: Callable[[], Sequence[str]]) -> InputNames:
    return InputNames(lambda: [*[""] * leading, *names()])


def _in_order(inputs: Sequence[Var], records: Sequence[Record]) -> list[Eqn] | None:
    """The equations. None if bindings are out of order: captured late, recorded by several threads, or interrupted
    before it was recorded."""
    if [var.index for var in inputs] != list(range(len(inputs))):
        return None
    at = len(inputs)
    eqns: list[Eqn] = []
    for primitive, ins, outs, source in records:
        for var in outs:
            if var.index != at:
                return None
            at += 1
        eqns.append(Eqn(primitive, ins, outs, source))
    return eqns


def renumber(inputs: Sequence[Var], records: Sequence[Record], outs: Sequence[Atom], names: InputNames | None) -> Jaxpr:
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
