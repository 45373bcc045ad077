"""Unrolling: loops whose number of iterations is known, with the iterations one after the other."""

from __future__ import annotations

from typing import Final

from tinyjax.errors import InputError
from tinyjax.ir.holding import ProgramT, changed
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.rules import RuleTable
from tinyjax.transforms.arguments import whole
from tinyjax.transforms.rebuild import Rebuilding, bottom_up, read

#: The program that does what a loop does, with so many iterations (None: all) one after the other. None: as it is.
UNROLLING: Final[RuleTable[[int | None], Jaxpr | None]] = RuleTable("Unrolling", name="tinyjax.transforms.UNROLLING")


def unroll(program: ProgramT, factor: int | None = None) -> ProgramT:
    """The program with loops of known length unrolled: all of it, or `factor` iterations in one.

        { lambda ; a:f64[]. let b:f64[] = scan[length=2 num_consts=0 num_carry=1 jaxpr={ lambda ; a:f64[]. let
            b:f64[] = sin a in (b,) } …] a in (b,) }
        { lambda ; a:f64[]. let b:f64[] = sin a; c:f64[] = sin b in (c,) }

    With a factor, the loop has so many times fewer iterations, and those that are left over come after it. The programs
    within the program are treated too. `reroll` is the inverse. An InputError if the factor is less than 1.
    """
    if factor is not None and whole("unroll: factor", factor) < 1:
        raise InputError(f"unroll: the factor is a number of iterations, or None for all of them, got {factor}")
    return changed(program, "unroll", lambda jaxpr: bottom_up(jaxpr, lambda each: _unrolled(each, factor)))


def _unrolled(jaxpr: Jaxpr, factor: int | None) -> Jaxpr:
    ctx = Rebuilding(jaxpr.invars, jaxpr.names)
    env: list[Atom] = list(jaxpr.invars)
    different = False
    for eqn in jaxpr.eqns:
        ins = read(env, eqn.invars)
        rule = UNROLLING.find(type(eqn.primitive))
        found = None if rule is None else rule(eqn.primitive, factor)
        if found is None:
            env += ctx.again(eqn, ins)
            continue
        different = True
        env += ctx.applied(found, ins, eqn.source)
    return ctx.finish(read(env, jaxpr.outvars)) if different else jaxpr
