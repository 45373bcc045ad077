"""Programs for all devices of a mesh that neither take nor give sums yet to be made: for what doesn't know of these."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TypeVar

from attrs import evolve

from tinyjax.caching import remembered_of
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.shard_map import ShardMap
from tinyjax.ir.context import Context
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom
from tinyjax.meshes.spec import PartitionSpec
from tinyjax.primitives.bitwise import logical_and
from tinyjax.primitives.casts import name_of
from tinyjax.primitives.collectives import axis_index, psum
from tinyjax.primitives.comparison import eq
from tinyjax.primitives.selection import select
from tinyjax.primitives.structure import broadcast_in_dim, constant_like, full
from tinyjax.transforms.unvarying import unvarying

V = TypeVar("V")


def has_sums(mapped: ShardMap) -> bool:
    """Whether a specification says that an array is unreduced or reduced."""
    return any(spec.unreduced or spec.reduced for spec in (*mapped.in_specs, *mapped.out_specs))


@remembered_of
def with_sums_made(mapped: ShardMap) -> ShardMap:
    """The same, with types that say nothing along axes of the mesh: results that were sums yet to be made are made, and
    of an operand that was one, the first device has all of it, and the others zeros."""
    program = unvarying(mapped.jaxpr)

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        terms = [_term(ctx, x, sorted(spec.unreduced)) for x, spec in zip(ins, mapped.in_specs, strict=True)]
        outs = interpret(ctx, program, terms)
        return [
            psum(ctx, out, name_of(tuple(sorted(spec.unreduced)))) if spec.unreduced else out
            for out, spec in zip(outs, mapped.out_specs, strict=True)
        ]

    return evolve(
        mapped,
        jaxpr=stage(program.in_avals, run).named_by(program.names),
        in_specs=tuple(map(_plain, mapped.in_specs)),
        out_specs=tuple(map(_plain, mapped.out_specs)),
        check_vma=False,
    )


def _plain(spec: PartitionSpec) -> PartitionSpec:
    return spec.update(unreduced=frozenset(), reduced=frozenset())


def _term(ctx: Context[V], x: V, names: Sequence[str]) -> V:
    """x on the first device along these axes, zeros on the others."""
    if not names:
        return x
    indices = [axis_index(ctx, name) for name in names]
    marks = [eq(ctx, index, constant_like(ctx, index, 0)) for index in indices]
    first = reduce(lambda a, b: logical_and(ctx, a, b), marks)
    aval = ctx.aval(x)
    return select(ctx, broadcast_in_dim(ctx, first, aval.shape, ()), x, full(ctx, aval, 0))
