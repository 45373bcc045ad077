"""Rules of custom derivatives: from the order in which JAX has operands and results to ours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.interpret import interpret
from tinyjax.ir.merging import sourced
from tinyjax.ir.primitive import Zero
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.tangents import has_tangent
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.structure import instantiate
from tinyjax.transforms.dce import dce

Avals = Sequence[ShapedArray]


def with_captured(body: Jaxpr, captured: int, more: Avals) -> Jaxpr:
    """A function's program that takes, after the values that it closes over, more, which it doesn't read."""
    if not more:
        return body
    avals = [*body.in_avals[:captured], *more, *body.in_avals[captured:]]

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        return interpret(ctx, body, [*ins[:captured], *ins[captured + len(more) :]])

    return stage(avals, run)


def jvp_program(
    rule: Jaxpr, captured: Avals, places: Sequence[int], args: Avals, outs: Avals, in_zeros: Sequence[bool],
    out_zeros: Sequence[bool], wanted: Sequence[bool],
) -> Jaxpr:  # fmt: skip
    """`CustomJvp.jvp_jaxpr`, or that of a `JvpCase`. JAX's rule takes of what is captured that at `places`, and a
    tangent for every argument, also one without bits, but those that `in_zeros` marks; it returns none for the results
    that `out_zeros` marks. Returned are those that are `wanted` of the tangents that results can have."""
    moving = [aval.tangent for aval, zero in zip(args, in_zeros, strict=True) if has_tangent(aval) and not zero]
    if not captured and all(map(has_tangent, (*args, *outs))) and not any(out_zeros) and not any(in_zeros):
        return rule

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        primals = ins[len(captured) : len(captured) + len(args)]
        given = iter(ins[len(captured) + len(args) :])
        taken = [aval for aval, zero in zip(args, in_zeros, strict=True) if not zero]
        tangents = [next(given) if has_tangent(aval) else no_bits(ctx, aval) for aval in taken]
        results = interpret(ctx, rule, [*(ins[at] for at in places), *primals, *tangents])
        found = iter(results[len(outs) :])
        derived = [None if zero else next(found) for zero in out_zeros]
        possible = [(t, aval) for t, aval in zip(derived, outs, strict=True) if has_tangent(aval)]
        kept = [
            instantiate(ctx, Zero(aval.tangent)) if t is None else t
            for (t, aval), mark in zip(possible, wanted, strict=True)
            if mark
        ]
        return [*results[: len(outs)], *kept]

    return dce(stage([*captured, *args, *moving], run))


def no_bits(ctx: StagingContext, aval: ShapedArray) -> Atom:
    """The tangent of what can't have one."""
    zeros = np.zeros(aval.shape, FLOAT0)
    return ctx.bind(Constant(ConcreteValue(zeros, ShapedArray(aval.shape, FLOAT0))))[0]


def fwd_program(
    rule: Jaxpr, captured: Avals, places: Sequence[int], own: int, args: Avals, num_outs: int,
    forwarded: Sequence[int | None],
) -> Jaxpr:  # fmt: skip
    """`CustomVjp.fwd_jaxpr`. JAX's rule takes of what is captured that at `places`. It returns residuals first, without
    those that are operands of JAX's equation, as `forwarded` says, which has the first `own` of what is captured."""

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        operands = ins[len(captured) :]
        results = interpret(ctx, rule, [*(ins[at] for at in places), *operands])
        split = len(results) - num_outs
        return [*results[split:], *sourced(forwarded, [*ins[:own], *operands], results[:split])]

    return stage([*captured, *args], run)


def bwd_program(rule: Jaxpr, captured: Avals, places: Sequence[int]) -> Jaxpr:
    """`CustomVjp.bwd_jaxpr`. JAX's rule takes of what is captured that at `places`."""
    if not captured:
        return rule

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        return interpret(ctx, rule, [*(ins[at] for at in places), *ins[len(captured) :]])

    return stage([*captured, *rule.in_avals[len(places) :]], run)
