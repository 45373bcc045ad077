"""Division of programs into a part that can be computed now and a part for later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, final, overload

from attrs import field, frozen

from tinyjax.caching import remembered
from tinyjax.contexts.partial_eval import Partial, PartialEvalContext, Unknown
from tinyjax.contexts.rebuilding import Known
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.holding import AnyProgram, HoldsProgram, as_closed
from tinyjax.ir.interpret import interpret
from tinyjax.ir.naming import InputNames
from tinyjax.ir.printing.shown import Record
from tinyjax.ir.program import Atom, ClosedJaxpr, Jaxpr, Var
from tinyjax.ir.verify import verify
from tinyjax.transforms.arguments import marks as marks_each
from tinyjax.transforms.forms import Form
from tinyjax.transforms.kept import needed
from tinyjax.transforms.residuals import Residual, as_residuals, close_over, part_names, with_results


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
        names, staged_names = part_names(closed.jaxpr.names, found.unknown_in, found.residuals)
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
    def run(ctx: PartialEvalContext[Atom], args: Sequence[Partial[Atom]]) -> Outputs:
        return interpret(ctx, jaxpr, args), force

    return divide(jaxpr.in_avals, unknown, run, jaxpr.names)


#: The outputs of what is divided, and which of them the staged program returns even if they are known.
Outputs: TypeAlias = tuple[Sequence[Partial[Atom]], Sequence[bool]]


def divide(
    avals: Sequence[ShapedArray],
    unknown: tuple[bool, ...],
    run: Callable[[PartialEvalContext[Atom], Sequence[Partial[Atom]]], Outputs],
    names: InputNames | None,
) -> PartialEvaluation:
    """What `run` computes of inputs of these types, called so, in two parts: of those that are known, and the rest."""
    positions = [i for i, mark in enumerate(unknown) if not mark]
    parts: list[tuple[Jaxpr, tuple[bool, ...], tuple[Residual, ...]]] = []

    def known_part(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        inner = PartialEvalContext[Atom](ctx)
        known_ins = iter(ins)
        args: list[Partial[Atom]] = [
            inner.unknown(aval) if mark else Known(next(known_ins)) for aval, mark in zip(avals, unknown, strict=True)
        ]
        outs, force = run(inner, args)
        unknown_out = tuple(isinstance(out, Unknown) or mark for out, mark in zip(outs, force, strict=True))
        later = [inner.instantiate(out) for out, mark in zip(outs, unknown_out, strict=True) if mark]
        staged = needed(inner.finish(later), ctx)
        residuals = tuple(Residual(atom.aval, _input_position(atom, positions)) for atom in staged.residuals)
        parts.append((staged.jaxpr, unknown_out, residuals))
        known_outs = [
            out.value for out, mark in zip(outs, unknown_out, strict=True) if not mark and isinstance(out, Known)
        ]
        computed = [atom for atom, res in zip(staged.residuals, residuals, strict=True) if res.input is None]
        return [*known_outs, *computed]

    known = stage([avals[i] for i in positions], known_part)
    ((staged, unknown_out, residuals),) = parts
    known_names, staged_names = part_names(names, unknown, residuals)
    known, staged = known.named_by(known_names), staged.named_by(staged_names)
    return PartialEvaluation(known, staged, unknown, unknown_out, with_results(known, residuals))


def _input_position(atom: Atom, positions: Sequence[int]) -> int | None:
    """Which input of the whole program an atom of the known program is."""
    return positions[atom.index] if isinstance(atom, Var) and atom.index < len(positions) else None
