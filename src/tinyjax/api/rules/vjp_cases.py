"""The rules of a custom_vjp function for every choice of what is differentiated with respect to, as programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import final

from attrs import frozen

from tinyjax.api.rules.applications import check_types
from tinyjax.api.rules.cases import Asked
from tinyjax.api.rules.programs import Program
from tinyjax.contexts.cells import Cell
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.branches import any_of, with_types
from tinyjax.control.custom_linear import CustomLin
from tinyjax.control.recursion import Backward, VjpCase
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES, FLOAT0, SUPPORTED, DType
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.tangents import cotangent_avals, has_tangent
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import add
from tinyjax.primitives.structure import broadcast_in_dim, full, reduce_sum
from tinyjax.refs.ref import Ref
from tinyjax.tracing.array import Array
from tinyjax.tracing.functions import as_arrays


@final
@frozen(eq=False)
class StagedBackward:
    """`bwd` for a choice of cotangents: its program, with what that closes over, and which cotangents it returns: those
    of arguments, then of Refs among them. `cells` are those that it uses."""

    program: Program
    returned: tuple[bool, ...]
    own: tuple[Ref, ...] = ()
    cells: tuple[Cell[Array], ...] = ()


@final
@frozen(eq=False)
class StagedCase:
    """The programs of a case: `fwd`, which uses `cells`, and `bwd` for choices of cotangents."""

    given: tuple[bool, ...]
    fwd: Program
    residuals: tuple[ShapedArray, ...]
    backwards: Asked[StagedBackward]
    cells: tuple[Cell[Array], ...] = ()

    @property
    def programs(self) -> list[Program]:
        return [self.fwd, *(each.program for each in self.backwards.found)]

    def finished(
        self, programs: Iterator[Jaxpr], in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]
    ) -> VjpCase:
        """The case, of these programs in the place of its own. All of `bwd` return what one of them does, and all there
        can be if what the rule returns isn't known in every case."""
        fwd = with_types(next(programs), [*out_avals, *self.residuals])
        owns = [each.returned for each in self.backwards.found]
        everywhere = bool(self.backwards.refused)
        marks = any_of([*owns, tuple(everywhere and has_tangent(aval) for aval in in_avals)])
        found = [next(programs) for _ in owns]
        types = {i: aval.cotangent for i, aval in enumerate(in_avals)}
        for jaxpr, own in zip(found, owns, strict=True):
            types.update(zip(compress(range(len(own)), own), jaxpr.out_avals, strict=True))
        wanted = [(i, types[i]) for i, mark in enumerate(marks) if mark]
        same = [_returning(jaxpr, own, wanted) for jaxpr, own in zip(found, owns, strict=True)]
        cts = cotangent_avals(out_avals)
        if same:
            bwd, special = backward(list(map(Backward, self.backwards.given, same)), cts)
        else:
            captured = fwd.in_avals[: len(fwd.in_avals) - len(in_avals)]
            bwd, special = unknown([*captured, *self.residuals, *cts], [aval for _, aval in wanted]), ()
        return VjpCase(self.given, fwd, bwd, marks, special, self.backwards.refused or None)


def backward(cases: Sequence[Backward], cts: Sequence[ShapedArray]) -> tuple[Jaxpr, tuple[Backward, ...]]:
    """`bwd` for when all cotangents are there, of these types, and the other cases. Where a rule doesn't know that one,
    the sum of those that it knows tells at least what depends on what."""
    first, *others = cases
    if all(first.given):
        return first.jaxpr, tuple(others)
    n = len(first.jaxpr.invars) - sum(first.given)

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        columns = zip(
            *[interpret(ctx, case.jaxpr, [*ins[:n], *compress(ins[n:], case.given)]) for case in cases], strict=True
        )
        return [_sum(ctx, column) for column in columns]

    return with_types(stage([*first.jaxpr.in_avals[:n], *cts], run), first.jaxpr.out_avals), tuple(cases)


def linear(
    name: str,
    residuals: int,
    cases: Asked[Jaxpr],
    ins: Sequence[ShapedArray],
    outs: Sequence[ShapedArray],
) -> CustomLin:
    """The derivative whose transposes are these programs, for choices of cotangents. `ins` are the types of residuals
    and of all cotangents, `outs` those of what is returned."""
    known = list(map(Backward, cases.given, cases.found))
    bwd, special = backward(known, ins[residuals:]) if known else (unknown(ins, outs), ())
    return CustomLin(name, bwd, residuals, special or None, cases.refused or None)


def unknown(ins: Sequence[ShapedArray], outs: Sequence[ShapedArray]) -> Jaxpr:
    """What stands for a rule that knows no case: nobody runs it, and as far as anyone can tell, everything depends on
    everything."""

    def run(ctx: StagingContext, atoms: list[Atom]) -> Sequence[Atom]:
        def total(dtype: DType) -> Atom:
            terms = [
                convert(ctx, reduce_sum(ctx, x, tuple(range(x.aval.ndim))), dtype)
                for x in atoms
                if x.aval.dtype != FLOAT0
            ]
            return _sum(ctx, terms) if terms else full(ctx, ShapedArray((), dtype), 0)

        return [broadcast_in_dim(ctx, total(aval.dtype), aval.shape, ()) for aval in outs]

    return with_types(stage(ins, run), outs)


def _sum(ctx: StagingContext, terms: Sequence[Atom]) -> Atom:
    total = terms[0]
    for term in terms[1:]:
        total = add(ctx, total, term)
    return total


def _returning(jaxpr: Jaxpr, own: Sequence[bool], wanted: Sequence[tuple[int, ShapedArray]]) -> Jaxpr:
    """A program that returns these cotangents, with zeros in the place of those that it doesn't return itself."""

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        found = iter(interpret(ctx, jaxpr, ins))
        by_position = {i: next(found) for i, mark in enumerate(own) if mark}
        return [by_position[i] if i in by_position else full(ctx, aval, 0) for i, aval in wanted]

    return with_types(stage(jaxpr.in_avals, run), [aval for _, aval in wanted])


def checked_cotangent(what: str, cotangent: object, aval: ShapedArray, where: str) -> Array:
    """A cotangent that bwd returned, as this type: numbers of another dtype are converted, but complex ones to real."""
    (array,) = as_arrays([cotangent], lambda _: f"{what} {where}")
    given = array.aval.dtype
    if given != aval.dtype and given in (SUPPORTED if aval.dtype in COMPLEXES else SUPPORTED - COMPLEXES):
        array = array.astype(aval.dtype)
    return check_types(what, [array], [aval], lambda _: where, "that of the argument's tangents")[0]
