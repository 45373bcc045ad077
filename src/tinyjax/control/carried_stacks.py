"""Loops that read rows from stacks among their carries, and write rows of their results there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

from attrs import evolve, frozen

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.scan import Scan
from tinyjax.ir.dtypes import INT32
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom, Literal
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.dynamic import dynamic_slice, dynamic_update_slice
from tinyjax.primitives.elementwise import add
from tinyjax.primitives.shaping import reshape
from tinyjax.transforms.rebuild import Rebuilding

#: Where the loop is, beside its other carries.
_POSITION: Final = array_type((), INT32)


@final
@frozen
class Place:
    """Where the rows of a stack are: in which memory, from which element of each of its rows on, and as what shape."""

    memory: int
    first: int
    part: Shape

    def row(self, ctx: StagingContext, memory: Atom, at: Atom, shape: Shape) -> Atom:
        """The row that is there at a position, with this shape."""
        return reshape(ctx, dynamic_slice(ctx, memory, (1, *self.part), *self._starts(ctx, at)), shape)

    def written(self, ctx: StagingContext, memory: Atom, at: Atom, row: Atom) -> Atom:
        """The memory with this row there."""
        return dynamic_update_slice(ctx, memory, reshape(ctx, row, (1, *self.part)), *self._starts(ctx, at))

    def _starts(self, ctx: StagingContext, at: Atom) -> list[Atom]:
        within = [self.first, *[0] * len(self.part)][: len(self.part)]
        return [at, *[ctx.constant(Literal.of(first, INT32)) for first in within]]


@final
@frozen
class Carried:
    """What a loop returns: its carries, by position the stacks that are written nowhere else, and each memory."""

    carry: Sequence[Atom]
    stacks: Mapping[int, Atom]
    memory: Mapping[int, Atom]


def carried(
    ctx: Rebuilding,
    scan: Scan,
    ins: Sequence[Atom],
    memory: Mapping[int, Atom],
    taken: Mapping[int, Place],
    given: Mapping[int, Place],
) -> Carried:
    """The loop with memory among its carries. Of the arrays that it goes through, the rows of those at the positions in
    `taken` are read there, and of the stacks that it returns those in `given` are written there: afterwards, in each
    iteration."""
    consts, carry, xs = scan.operands(ins)
    fixed, values, rows = scan.operands(scan.jaxpr.in_avals)
    kept = [k for k in range(len(xs)) if k not in taken]
    at = len(fixed) + len(values)

    def step(inner: StagingContext, now: list[Atom]) -> Sequence[Atom]:
        place = now[at]
        held = dict(zip(memory, now[at + 1 : at + 1 + len(memory)], strict=True))
        row = dict(zip(kept, now[at + 1 + len(memory) :], strict=True))
        for k, where in taken.items():
            row[k] = where.row(inner, held[where.memory], place, rows[k].shape)
        outs = interpret(inner, scan.jaxpr, [*now[:at], *[row[k] for k in range(len(xs))]])
        after, ys = scan.results(outs)
        for j, where in given.items():
            held[where.memory] = where.written(inner, held[where.memory], place, ys[j])
        next_place = add(inner, place, inner.constant(Literal.of(-1 if scan.reverse else 1, INT32)))
        return [*after, next_place, *held.values(), *[y for j, y in enumerate(ys) if j not in given]]

    body = stage([*fixed, *values, _POSITION, *[one.aval for one in memory.values()], *[rows[k] for k in kept]], step)
    loop = evolve(scan, jaxpr=body, num_carry=len(values) + 1 + len(memory))
    start = ctx.constant(Literal.of(scan.length - 1 if scan.reverse else 0, INT32))
    outs = ctx.bind(loop, *consts, *carry, start, *memory.values(), *[xs[k] for k in kept])
    n = len(values) + 1
    others = [j for j in range(scan.num_ys) if j not in given]
    return Carried(
        outs[: len(values)],
        dict(zip(others, outs[n + len(memory) :], strict=True)),
        dict(zip(memory, outs[n : n + len(memory)], strict=True)),
    )
