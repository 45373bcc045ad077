"""Division of programs into a part that can be computed now and a part for later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Generic, final, overload

from attrs import evolve, field, frozen
from typing_extensions import override

from tinyjax.caching import remembered
from tinyjax.contexts.partial_eval import Known, Partial, PartialEvalContext, Unknown
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.holding import AnyProgram, HoldsProgram, as_closed
from tinyjax.ir.interpret import interpret
from tinyjax.ir.naming import InputNames
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.shown import Record, Shown
from tinyjax.ir.program import Atom, ClosedJaxpr, Jaxpr, Var
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.traverse import subjaxprs
from tinyjax.ir.verify import verify
from tinyjax.primitives.annotations import Name
from tinyjax.transforms.arguments import marks as marks_each
from tinyjax.transforms.forms import Form, with_first

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


@final
@frozen(repr=False)
class PartialEvaluation(Record, Generic[Form]):
    """A program divided in two.

    `known` takes the known inputs and returns the known outputs, then every residual that isn't an input. `staged`
    takes all residuals, then the unknown inputs, and returns the unknown outputs. `unknown_out` says which those are.
    """

    known: Form
    staged: Form
    unknown_in: tuple[bool, ...]
    unknown_out: tuple[bool, ...]
    residuals: tuple[Residual, ...] = field(converter=as_residuals)


@overload
def partial_eval(
    jaxpr: Jaxpr, unknown: Sequence[bool], *, force_unknown: Sequence[bool] | None = None
) -> PartialEvaluation[Jaxpr]: ...
@overload
def partial_eval(
    jaxpr: ClosedJaxpr | HoldsProgram, unknown: Sequence[bool], *, force_unknown: Sequence[bool] | None = None
) -> PartialEvaluation[ClosedJaxpr]: ...
def partial_eval(
    jaxpr: AnyProgram, unknown: Sequence[bool], *, force_unknown: Sequence[bool] | None = None
) -> PartialEvaluation[Jaxpr] | PartialEvaluation[ClosedJaxpr]:
    """What can be computed of a program without its unknown inputs, and the rest.

        { lambda ; a:f64[] b:f64[]. let c:f64[] = sin a; d:f64[] = mul c b in (d,) }       # b unknown
        known   { lambda ; a:f64[]. let b:f64[] = sin a in (b,) }
        staged  { lambda ; a:f64[] b:f64[]. let c:f64[] = mul a b in (c,) }

    `force_unknown` marks outputs that the staged program returns even if they are known. The constants of a closed
    program are known, and no residuals: the staged program has those that it needs.
    """
    if not isinstance(jaxpr, Jaxpr):
        closed = as_closed(jaxpr, "partial_eval")
        verify(closed)
        given = marks_each("partial_eval: unknown", unknown, len(closed.in_avals), "inputs", closed)
        n = len(closed.consts)
        found = partial_eval(closed.jaxpr, (*[False] * n, *given), force_unknown=force_unknown)
        names, staged_names = _names(closed.jaxpr, found.unknown_in, found.residuals)
        known, later = found.known.named_by(names), found.staged.named_by(staged_names)
        staged, residuals = close_over(closed, later, found.residuals)
        return PartialEvaluation(ClosedJaxpr(known, closed.consts), staged, given, found.unknown_out, residuals)
    verify(jaxpr)
    n = len(jaxpr.outvars)
    marks = marks_each("partial_eval: unknown", unknown, len(jaxpr.invars), "inputs", jaxpr)
    force = (False,) * n
    if force_unknown is not None:
        force = marks_each("partial_eval: force_unknown", force_unknown, n, "outputs")
    return _partial_eval(jaxpr, marks, force)


@remembered
def _partial_eval(jaxpr: Jaxpr, unknown: tuple[bool, ...], force: tuple[bool, ...]) -> PartialEvaluation:
    avals = jaxpr.in_avals
    positions = [i for i, mark in enumerate(unknown) if not mark]
    parts: list[tuple[Jaxpr, tuple[bool, ...], tuple[Residual, ...]]] = []

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        inner = PartialEvalContext[Atom](ctx)
        known_ins = iter(ins)
        args: list[Partial[Atom]] = [
            inner.unknown(aval) if mark else Known(next(known_ins)) for aval, mark in zip(avals, unknown, strict=True)
        ]
        outs = interpret(inner, jaxpr, args)
        unknown_out = tuple(isinstance(out, Unknown) or mark for out, mark in zip(outs, force, strict=True))
        staged = inner.finish([inner.instantiate(out) for out, mark in zip(outs, unknown_out, strict=True) if mark])
        residuals = tuple(Residual(atom.aval, _input_position(atom, positions)) for atom in staged.residuals)
        parts.append((staged.jaxpr, unknown_out, residuals))
        known_outs = [
            out.value for out, mark in zip(outs, unknown_out, strict=True) if not mark and isinstance(out, Known)
        ]
        computed = [atom for atom, res in zip(staged.residuals, residuals, strict=True) if res.input is None]
        return [*known_outs, *computed]

    known = stage([avals[i] for i in positions], run)
    ((staged, unknown_out, residuals),) = parts
    names, staged_names = _names(jaxpr, unknown, residuals)
    known, staged = known.named_by(names), staged.named_by(staged_names)
    return PartialEvaluation(known, staged, unknown, unknown_out, _with_results(known, residuals))


def _names(
    jaxpr: Jaxpr, unknown: Sequence[bool], residuals: Sequence[Residual]
) -> tuple[InputNames | None, InputNames | None]:
    """The names of the inputs of the known program, and of the staged one."""
    now = [i for i, mark in enumerate(unknown) if not mark]
    later = [i for i, mark in enumerate(unknown) if mark]
    return jaxpr.names_at(now), jaxpr.names_at([*(residual.input for residual in residuals), *later])


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


def _with_results(known: Jaxpr, residuals: Sequence[Residual]) -> tuple[Residual, ...]:
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


def _input_position(atom: Atom, positions: Sequence[int]) -> int | None:
    """Which input of the whole program an atom of the known program is."""
    return positions[atom.index] if isinstance(atom, Var) and atom.index < len(positions) else None
