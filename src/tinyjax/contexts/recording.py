"""A program that grows: equations as they are recorded, which are numbered in order at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Protocol, TypeAlias, final

from attrs import frozen

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import Effects, effects_of
from tinyjax.ir.naming import InputNames
from tinyjax.ir.printing.spelling import format_literal
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.program_value import well_typed
from tinyjax.ir.roles import Foreign
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.value import ConcreteValue

Captured: TypeAlias = "ConcreteValue | Foreign"


class Values(Protocol):
    """What is known of the result of a program so far, for what feeds its first inputs."""

    def shown(self, jaxpr: Jaxpr, captured: Sequence[Captured]) -> str:
        """As text; "" for nothing."""

    def known(self, jaxpr: Jaxpr, captured: Sequence[Captured]) -> ConcreteValue | None:
        """Its elements, if they are the same for all."""


class Equations(Protocol):
    """Equations with inputs and outputs: a program, or the tape of one."""

    @property
    def invars(self) -> tuple[Var, ...]: ...
    @property
    def eqns(self) -> tuple[Eqn, ...]: ...
    @property
    def outvars(self) -> tuple[Atom, ...]: ...
    @property
    def effects(self) -> Effects: ...


@final
@frozen(eq=False)
class Tape:
    """Equations as they were recorded. It reads like a program, but variables are numbered in any order, below `count`.

    What is run backwards, or changed first, is left as that: numbering makes all variables and equations anew.
    """

    invars: tuple[Var, ...]
    eqns: tuple[Eqn, ...]
    outvars: tuple[Atom, ...]
    count: int

    @property
    def effects(self) -> Effects:
        return effects_of([eqn.primitive for eqn in self.eqns])

    def numbered(self) -> Jaxpr:
        """The program."""
        return _numbered(self.invars, self.eqns, self.outvars, None)


@final
class Recording:
    """The one place in the library where something grows. Several threads may record at the same time."""

    __slots__ = ("_values", "eqns", "leading", "numbers", "trailing")

    def __init__(self, values: Values | None = None) -> None:
        self._values = values
        self.eqns: list[Eqn] = []
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
        return _numbered(inputs, tuple(self.eqns), tuple(outs), found), captured

    def tape(self, outs: Sequence[Atom]) -> Tape:
        """The same as it was recorded."""
        inputs = (*(var for var, _ in self.leading), *self.trailing)
        return Tape(inputs, tuple(self.eqns), tuple(outs), next(self.numbers))

    @property
    def highest(self) -> int:
        """The highest number of a variable so far; -1 if there is none."""
        results = next((eqn.outvars for eqn in reversed(self.eqns) if eqn.outvars), ())
        found = (*(var for var, _ in self.leading[-1:]), *self.trailing[-1:], *results)
        return max([var.index for var in found], default=-1)

    def origin(self, value: Atom) -> tuple[str, SourceInfo | None, int | None]:
        """What an atom is, the line that made it, and its position among the arguments, if it is one."""
        if isinstance(value, Literal):
            return "a literal", None, None
        for eqn in reversed(self.eqns):
            if value in eqn.outvars:
                return f"the result of {eqn.primitive.name!r}", eqn.source, None
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


def _numbered(
    inputs: tuple[Var, ...], eqns: tuple[Eqn, ...], outs: tuple[Atom, ...], names: InputNames | None
) -> Jaxpr:
    if _in_order(inputs, eqns):
        return well_typed(Jaxpr(inputs, eqns, outs, names=names))
    return renumber(inputs, eqns, outs, names)


def _in_order(inputs: Sequence[Var], eqns: Sequence[Eqn]) -> bool:
    """Whether bindings are in order. They aren't if something was captured late, if several threads recorded, or if one
    was interrupted before it recorded what it had made."""
    if [var.index for var in inputs] != list(range(len(inputs))):
        return False
    at = len(inputs)
    for eqn in eqns:
        for var in eqn.outvars:
            if var.index != at:
                return False
            at += 1
    return True


def renumber(inputs: Sequence[Var], eqns: Sequence[Eqn], outs: Sequence[Atom], names: InputNames | None) -> Jaxpr:
    """The program with its bindings numbered in order."""
    new: dict[int, Var] = {}

    def bound(var: Var) -> Var:
        fresh = new[var.index] = Var(len(new), var.aval)
        return fresh

    invars = tuple(map(bound, inputs))
    made: list[Eqn] = []
    for eqn in eqns:
        read = tuple([new[atom.index] if type(atom) is Var else atom for atom in eqn.invars])
        results = eqn.outvars
        results = (bound(results[0]),) if len(results) == 1 else tuple(map(bound, results))
        made.append(Eqn(eqn.primitive, read, results, eqn.source))
    outvars = tuple([new[atom.index] if type(atom) is Var else atom for atom in outs])
    return well_typed(Jaxpr(invars, tuple(made), outvars, names=names))
