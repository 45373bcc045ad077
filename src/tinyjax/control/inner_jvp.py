"""Derivatives of programs within programs."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.ir.program import Jaxpr
from tinyjax.transforms.jvp import JvpProgram, jvp


def inner_jvp(jaxpr: Jaxpr, nonzero: Sequence[bool], *, force: Sequence[bool] | None = None) -> JvpProgram[Jaxpr]:
    """`jvp` of what a primitive calls. What it keeps for the way back will be its result, so that nobody can know any
    more that a softmax is nan where its maximum is ([017](docs/decisions/017-extremes-that-keep-nan.md)): it's said
    before."""
    if any(eqn.primitive.name == "reduce_max" for eqn in jaxpr.eqns):
        from tinyjax.transforms.subtracted_maxima import subtracted_maxima  # few programs have maxima

        jaxpr = subtracted_maxima(jaxpr)
    return jvp(jaxpr, nonzero, force=force)
