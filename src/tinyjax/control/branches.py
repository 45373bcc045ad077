"""Programs of which one is chosen: making their types agree after each of them was transformed on its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar, final

from attrs import frozen

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.merging import sourced
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.program_value import well_typed
from tinyjax.ir.varying import axes_of, union
from tinyjax.primitives.casts import cast
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.structure import full
from tinyjax.transforms.dce import dce
from tinyjax.transforms.partial_eval import PartialEvaluation, partial_eval

T = TypeVar("T")


def any_of(marks: Sequence[tuple[bool, ...]]) -> tuple[bool, ...]:
    """What is marked for at least one of the branches."""
    return tuple(map(any, zip(*marks, strict=True)))


def with_types(jaxpr: Jaxpr, avals: Sequence[ShapedArray]) -> Jaxpr:
    """The program with its outputs converted to these types, of the same shapes."""
    if jaxpr.out_avals == tuple(avals):
        return jaxpr

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        outs = interpret(ctx, jaxpr, ins)
        return [
            cast(ctx, convert(ctx, out, aval.dtype, aval.weak_type), aval.axes)
            for out, aval in zip(outs, avals, strict=True)
        ]

    return stage(jaxpr.in_avals, run)


def of_one_type(branches: Sequence[Jaxpr]) -> tuple[Jaxpr, ...]:
    """The branches with outputs of equal types, where they differ only in weakness, of which strong wins, and in the
    axes of a mesh along which they vary, of which all do."""
    first = branches[0].out_avals
    if all(branch.out_avals == first for branch in branches):
        return tuple(branches)
    columns = zip(*[branch.out_avals for branch in branches], strict=True)
    avals = [
        (avals[0] if all(aval.weak_type for aval in avals) else avals[0].strengthen()).varying_over(
            union(axes_of(avals))
        )
        for avals in columns
    ]
    return tuple(with_types(branch, avals) for branch in branches)


def pick_outputs(jaxpr: Jaxpr, marks: Sequence[bool]) -> Jaxpr:
    """The program that returns the marked outputs only."""
    kept = tuple(atom for atom, mark in zip(jaxpr.outvars, marks, strict=True) if mark)
    return dce(well_typed(Jaxpr(jaxpr.invars, jaxpr.eqns, kept)))


@final
@frozen
class Divided:
    """Branches divided in two.

    The programs of `known` take the known operands and return the known outputs, then a residual for each slot. Those
    of `staged` take the operands at `forwarded`, the slots, and the unknown operands; they return the unknown outputs.
    """

    known: tuple[Jaxpr, ...]
    staged: tuple[Jaxpr, ...]
    unknown_out: tuple[bool, ...]
    forwarded: tuple[int, ...]
    slots: tuple[ShapedArray, ...]


def divide(branches: Sequence[Jaxpr], unknown: tuple[bool, ...]) -> Divided:
    """What can be computed of each branch without the unknown operands, and the rest.

    An output is unknown if it is in one branch. Branches share the slots for their residuals, as only one of them runs;
    a branch fills those that it doesn't need with zeros.
    """
    unknown_out = any_of([partial_eval(branch, unknown).unknown_out for branch in branches])
    parts = [partial_eval(branch, unknown, force_unknown=unknown_out) for branch in branches]
    forwarded = sorted({res.input for part in parts for res in part.residuals if res.input is not None})
    slots: list[ShapedArray] = []
    places = [_places(part, slots) for part in parts]
    known_avals = [aval for aval, mark in zip(branches[0].in_avals, unknown, strict=True) if not mark]
    unknown_avals = [aval for aval, mark in zip(branches[0].in_avals, unknown, strict=True) if mark]
    num_known = unknown_out.count(False)

    def known(part: PartialEvaluation, place: Sequence[int]) -> Jaxpr:
        def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
            outs = interpret(ctx, part.known, ins)
            filled = dict(zip(place, outs[num_known:], strict=True))
            return [
                *outs[:num_known],
                *(filled[i] if i in filled else full(ctx, aval, 0) for i, aval in enumerate(slots)),
            ]

        return stage(known_avals, run)

    def staged(part: PartialEvaluation, place: Sequence[int]) -> Jaxpr:
        def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
            passed = dict(zip(forwarded, ins, strict=False))
            computed = [ins[len(forwarded) + i] for i in place]
            residuals = sourced([res.input for res in part.residuals], passed, computed)
            return interpret(ctx, part.staged, [*residuals, *ins[len(forwarded) + len(slots) :]])

        return stage([*(branches[0].in_avals[i] for i in forwarded), *slots, *unknown_avals], run)

    return Divided(
        of_one_type([known(part, place) for part, place in zip(parts, places, strict=True)]),
        of_one_type([staged(part, place) for part, place in zip(parts, places, strict=True)]),
        unknown_out,
        tuple(forwarded),
        tuple(slots),
    )


def _places(part: PartialEvaluation, slots: list[ShapedArray]) -> list[int]:
    """A slot for each residual that a branch computes: one of its type that is free in this branch, or a new one."""
    free: defaultdict[ShapedArray, list[int]] = defaultdict(list)
    for i in reversed(range(len(slots))):
        free[slots[i]].append(i)
    places: list[int] = []
    for residual in part.residuals:
        if residual.input is not None:
            continue
        if free[residual.aval]:
            places.append(free[residual.aval].pop())
        else:
            places.append(len(slots))
            slots.append(residual.aval)
    return places
