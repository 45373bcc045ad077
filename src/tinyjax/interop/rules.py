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
from tinyjax.ir.tangents import has_tangent, tangent_avals
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.structure import instantiate
from tinyjax.transforms.dce import dce

Avals = Sequence[ShapedArray]


def jvp_program(rule: Jaxpr, captured: Avals, args: Avals, outs: Avals, out_zeros: Sequence[bool]) -> Jaxpr:
    """`CustomJvp.jvp_jaxpr`. JAX's rule doesn't take what is captured, takes a tangent for every argument, also one
    without bits, and returns none for the results that `out_zeros` marks."""
    if not captured and all(map(has_tangent, (*args, *outs))) and not any(out_zeros):
        return rule

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        primals = ins[len(captured) : len(captured) + len(args)]
        given = iter(ins[len(captured) + len(args) :])
        tangents = [next(given) if has_tangent(aval) else _no_bits(ctx, aval) for aval in args]
        results = interpret(ctx, rule, [*primals, *tangents])
        found = iter(results[len(outs) :])
        derived = [None if zero else next(found) for zero in out_zeros]
        kept = [
            instantiate(ctx, Zero(aval.tangent)) if t is None else t
            for t, aval in zip(derived, outs, strict=True)
            if has_tangent(aval)
        ]
        return [*results[: len(outs)], *kept]

    return dce(stage([*captured, *args, *tangent_avals(args)], run))


def _no_bits(ctx: StagingContext, aval: ShapedArray) -> Atom:
    """The tangent of what can't have one, for a rule that doesn't look at it."""
    zeros = np.zeros(aval.shape, FLOAT0)
    return ctx.bind(Constant(ConcreteValue(zeros, ShapedArray(aval.shape, FLOAT0))))[0]


def fwd_program(rule: Jaxpr, captured: Avals, args: Avals, num_outs: int, forwarded: Sequence[int | None]) -> Jaxpr:
    """`CustomVjp.fwd_jaxpr`. JAX's rule returns residuals first, without those that are operands, as `forwarded`
    says."""

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        results = interpret(ctx, rule, ins[len(captured) :])
        split = len(results) - num_outs
        return [*results[split:], *sourced(forwarded, ins, results[:split])]

    return stage([*captured, *args], run)


def bwd_program(rule: Jaxpr, captured: Avals) -> Jaxpr:
    """`CustomVjp.bwd_jaxpr`. JAX's rule doesn't take what is captured."""
    if not captured:
        return rule
    return stage([*captured, *rule.in_avals], lambda ctx, ins: interpret(ctx, rule, ins[len(captured) :]))
