"""Removal of equations that nothing reads."""

from __future__ import annotations

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.ir.effects import must_stay
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var


def dce(jaxpr: Jaxpr) -> Jaxpr:
    """The program without the equations that no output depends on. The inputs stay; so do equations with effects.

    { lambda ; a:f64[]. let b:f64[] = sin a; c:f64[] = cos a in (c,) }
    { lambda ; a:f64[]. let b:f64[] = cos a in (b,) }
    """
    live = {atom.index for atom in jaxpr.outvars if isinstance(atom, Var)}
    kept: list[Eqn] = []
    for eqn in reversed(jaxpr.eqns):
        if any(out.index in live for out in eqn.outvars) or must_stay(eqn.effects):
            kept.append(eqn)
            live.update(atom.index for atom in eqn.invars if isinstance(atom, Var))
    if len(kept) == len(jaxpr.eqns):
        return jaxpr
    kept.reverse()

    def run(ctx: StagingContext, ins: list[Atom]) -> list[Atom]:
        env: dict[int, Atom] = dict(enumerate(ins))
        for eqn in kept:
            ctx.cursor.source = eqn.source
            args = [env[atom.index] if isinstance(atom, Var) else atom for atom in eqn.invars]
            env.update(zip((out.index for out in eqn.outvars), ctx.bind(eqn.primitive, *args), strict=True))
        return [env[atom.index] if isinstance(atom, Var) else atom for atom in jaxpr.outvars]

    return stage(jaxpr.in_avals, run)
