"""Residuals: what the two parts of a divided program hand to each other, what they are called, and what makes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, final

from attrs import evolve, field, frozen
from typing_extensions import override

from tinyjax.caching import remembered
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.naming import InputNames, names_at
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.shown import Shown
from tinyjax.ir.program import Atom, ClosedJaxpr, Jaxpr, Var
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.traverse import subjaxprs
from tinyjax.primitives.annotations import Name
from tinyjax.transforms.forms import with_first

if TYPE_CHECKING:
    from tinyjax.ir.printing.display import Block


@final
@frozen
class Producer:
    """What computes a value: a primitive, at a line of user code, and the value's name by `checkpoint_name`."""

    primitive: Primitive
    source: SourceInfo | None
    name: str | None


@final
@frozen
class Residual:
    """A value that the known program hands to the staged one.

    `input` is the position of the input that it is, or None if the known program computes it. `name` is what the user
    calls it, by `checkpoint_name` or as an argument; `primitive` computes it, at the line `source`.
    """

    aval: ShapedArray
    input: int | None
    label: str | None = None
    _result: tuple[Jaxpr, int] | None = field(default=None, eq=False, repr=False)

    @cached_property
    def _producer(self) -> Producer | None:
        if self._result is None:
            return None
        program, position = self._result
        return _producers(program)[position]

    @property
    def name(self) -> str | None:
        return self.label if self.label is not None or self._producer is None else self._producer.name

    @property
    def primitive(self) -> Primitive | None:
        return None if self._producer is None else self._producer.primitive

    @property
    def source(self) -> SourceInfo | None:
        return None if self._producer is None else self._producer.source

    @property
    def nbytes(self) -> int:
        return self.aval.nbytes

    @property
    def origin(self) -> str:
        """Where it comes from, in words."""
        if self.input is not None:
            return f"input {self.input}" if self.name is None else self.name
        origin = "" if self.name is None else f"{self.name!r}, "
        origin += "computed" if self.primitive is None else f"the result of {self.primitive.name}"
        return origin if self.source is None else f"{origin} at {self.source.location}"

    def describe(self) -> str:
        """Its type and size, and where it comes from."""
        return f"{self.aval}, {self.nbytes} bytes: {self.origin}"


@final
class Residuals(Shown, tuple[Residual, ...]):
    """Residuals, which show themselves as a table."""

    __slots__ = ()

    @override
    def _blocks(self) -> Iterator[Block]:
        from tinyjax.ir.printing.display import Note, table

        rows = [(str(found.aval), f"{found.nbytes:,}", found.origin) for found in self]
        yield from table(("residual", "bytes", "what it is"), rows) if rows else (Note("no residuals"),)


def as_residuals(found: Iterable[Residual]) -> Residuals:
    """The same, as what shows itself."""
    return Residuals(found)


def part_names(
    names: InputNames | None, unknown: Sequence[bool], residuals: Sequence[Residual]
) -> tuple[InputNames | None, InputNames | None]:
    """The names of the inputs of the known program, and of the staged one, if those of the whole are known."""
    if names is None:
        return None, None
    now = [i for i, mark in enumerate(unknown) if not mark]
    later = [i for i, mark in enumerate(unknown) if mark]
    return names_at(names, now), names_at(names, [*(residual.input for residual in residuals), *later])


def close_over(
    closed: ClosedJaxpr, staged: Jaxpr, residuals: Sequence[Residual]
) -> tuple[ClosedJaxpr, tuple[Residual, ...]]:
    """A program that takes residuals of a closed one first, without those which are its constants; and the others."""
    n = len(closed.consts)
    constant = {i: residual.input for i, residual in enumerate(residuals) if residual.input is not None}
    first = [i for i, at in constant.items() if at < n]
    rest = [
        residual if residual.input is None else evolve(residual, input=residual.input - n)
        for i, residual in enumerate(residuals)
        if i not in first
    ]
    return with_first(staged, first, [closed.consts[constant[i]] for i in first]), tuple(rest)


def with_results(known: Jaxpr, residuals: Sequence[Residual]) -> tuple[Residual, ...]:
    """The residuals, each with its place among the results of the known program, of which they are the last."""
    positions = count(len(known.outvars) - sum(residual.input is None for residual in residuals))
    return tuple(
        residual if residual.input is not None else Residual(residual.aval, None, None, (known, next(positions)))
        for residual in residuals
    )


@remembered
def _producers(jaxpr: Jaxpr) -> tuple[Producer | None, ...]:
    """What computes each output of a program, also within calls; None for inputs and literals."""
    binding = {var.index: (eqn, i) for eqn in jaxpr.eqns for i, var in enumerate(eqn.outvars)}
    named = [(eqn.invars[0], eqn.primitive.label) for eqn in jaxpr.eqns if isinstance(eqn.primitive, Name)]
    labels = {atom.index: label for atom, label in named if isinstance(atom, Var)}

    def producer(atom: Atom) -> Producer | None:
        name: str | None = None
        found: Producer | None = None
        while isinstance(atom, Var) and atom.index in binding:
            eqn, position = binding[atom.index]
            name = name or labels.get(atom.index)
            if isinstance(eqn.primitive, Name):
                name = name or eqn.primitive.label
            found = Producer(eqn.primitive, eqn.source, name)
            if isinstance(eqn.primitive, Name):
                (atom,) = eqn.invars
                continue
            programs = subjaxprs(eqn.primitive)
            if len(programs) == 1 and len(programs[0].outvars) == len(eqn.outvars):
                inner = _producers(programs[0])[position]
                if inner is not None:
                    found = Producer(inner.primitive, inner.source, name or inner.name)
            break
        return found

    return tuple(map(producer, jaxpr.outvars))
