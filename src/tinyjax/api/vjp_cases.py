"""The rules of a custom_vjp function for every choice of what is differentiated with respect to, as programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

from attrs import frozen

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.branches import any_of, with_types
from tinyjax.control.recursion import Backward, VjpCase
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.primitives.structure import full
from tinyjax.tracing.core import Array


@final
@frozen(eq=False)
class StagedCase:
    """The programs of a case: `fwd`, then `bwd` for cotangents that are there, and which cotangents each returns."""

    given: tuple[bool, ...]
    programs: list[tuple[Jaxpr, tuple[Array, ...]]]
    present: list[tuple[bool, ...]]
    returned: list[tuple[bool, ...]]
    residuals: tuple[ShapedArray, ...]

    def finished(self, programs: Iterator[Jaxpr], out_avals: Sequence[ShapedArray]) -> VjpCase:
        """The case, of these programs in the place of its own. All of `bwd` return what one of them does."""
        fwd = with_types(next(programs), [*out_avals, *self.residuals])
        whole, *others = [next(programs) for _ in self.present]
        marks = any_of(self.returned)
        types: dict[int, ShapedArray] = {}
        for jaxpr, own in zip((whole, *others), self.returned, strict=True):
            types.update(zip([i for i, mark in enumerate(own) if mark], jaxpr.out_avals, strict=True))
        wanted = [(i, types[i]) for i, mark in enumerate(marks) if mark]
        bwd, *special = [
            _returning(jaxpr, own, wanted) for jaxpr, own in zip((whole, *others), self.returned, strict=True)
        ]
        return VjpCase(self.given, fwd, bwd, marks, tuple(map(Backward, self.present[1:], special)))


def _returning(jaxpr: Jaxpr, own: Sequence[bool], wanted: Sequence[tuple[int, ShapedArray]]) -> Jaxpr:
    """A program that returns these cotangents, with zeros in the place of those that it doesn't return itself."""

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        found = iter(interpret(ctx, jaxpr, ins))
        by_position = {i: next(found) for i, mark in enumerate(own) if mark}
        return [by_position[i] if i in by_position else full(ctx, aval, 0) for i, aval in wanted]

    return with_types(stage(jaxpr.in_avals, run), [aval for _, aval in wanted])
