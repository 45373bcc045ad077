"""Blocks that repeat themselves become scans, and scans become their iterations."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from tinyjax.caching import remembered
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.scan import Scan
from tinyjax.ir.context import Context
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.shaping import reshape, squeeze
from tinyjax.primitives.slicing import concatenate, slice_in_dim
from tinyjax.primitives.stacking import stack
from tinyjax.transforms.rolling import LOOPING
from tinyjax.transforms.unroll import UNROLLING


@LOOPING.register(Primitive)
def _loop(first: Primitive, body: Jaxpr, length: int, reverse: bool, num_consts: int, num_carry: int) -> Scan:
    return Scan(body, length, reverse, num_consts, num_carry)


@UNROLLING.register(Scan)
def _scan(primitive: Scan, factor: int | None) -> Jaxpr | None:
    if factor == 1 or primitive.length == 0:
        return None
    return _unrolled(primitive, primitive.length if factor is None else min(factor, primitive.length))


@remembered
def _unrolled(scan: Scan, factor: int) -> Jaxpr:
    """A loop of as many times fewer iterations, if there are several, and those that are left over."""
    consts, carry, slices = scan.operands(scan.jaxpr.in_avals)
    looped = scan.length - scan.length % factor if scan.length > factor else 0

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        fixed, values, xs = scan.operands(ins)
        before: list[Atom] = []
        if looped:
            first = scan.length - looped if scan.reverse else 0
            parts = [slice_in_dim(ctx, x, first, first + looped, 1, 0) for x in xs]
            rows = [reshape(ctx, x, (looped // factor, factor, *x.aval.shape[1:])) for x in parts]
            loop = evolve(scan, jaxpr=_several(scan, factor), length=looped // factor)
            values, stacks = scan.results(ctx.bind(loop, *fixed, *values, *rows))
            before = [reshape(ctx, y, (looped, *y.aval.shape[2:])) for y in stacks]
        left = range(scan.length - looped) if scan.reverse else range(looped, scan.length)
        if left:
            values, ys = _one_after_the_other(ctx, scan, fixed, values, xs, left)
            pairs = zip(ys, before, strict=True) if scan.reverse else zip(before, ys, strict=True)
            before = [concatenate(ctx, pair, 0) for pair in pairs] if looped else [*ys]
        types = map(scan.stacked, scan.results(scan.jaxpr.out_avals)[1])
        exact = zip(before, types, strict=True)
        return [*values, *(convert(ctx, y, aval.dtype, aval.weak_type) for y, aval in exact)]

    return stage([*consts, *carry, *map(scan.stacked, slices)], run)


def _several(scan: Scan, factor: int) -> Jaxpr:
    """The body of so many iterations, which takes as many rows at once."""
    consts, carry, slices = scan.operands(scan.jaxpr.in_avals)
    rows = [aval.of_shape((factor, *aval.shape)) for aval in slices]

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        fixed, values, xs = scan.operands(ins)
        values, ys = _one_after_the_other(ctx, scan, fixed, values, xs, range(factor))
        return [*values, *ys]

    return stage([*consts, *carry, *rows], run)


def _one_after_the_other(
    ctx: Context[Atom], scan: Scan, consts: Sequence[Atom], carry: Sequence[Atom], xs: Sequence[Atom], at: range
) -> tuple[Sequence[Atom], Sequence[Atom]]:
    """What the iterations at these positions make of a carry, and the stacks of what else they return."""
    found: list[Sequence[Atom]] = []
    for i in reversed(at) if scan.reverse else at:
        rows = [squeeze(ctx, slice_in_dim(ctx, x, i, i + 1, 1, 0), (0,)) for x in xs]
        carry, ys = scan.results(interpret(ctx, scan.jaxpr, [*consts, *carry, *rows]))
        found.append(ys)
    if scan.reverse:
        found.reverse()
    stacks = zip(*found, strict=True)
    return carry, [stack(ctx, ys, 0) for ys in stacks]
