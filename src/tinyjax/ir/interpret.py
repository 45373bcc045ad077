"""The one evaluation loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tinyjax.ir.context import Context
from tinyjax.ir.program import Jaxpr, Var
from tinyjax.ir.verify import verify_call

V = TypeVar("V")


def interpret(ctx: Context[V], jaxpr: Jaxpr, args: Sequence[V]) -> list[V]:
    """Runs a program in a context: what every transformation that goes forward does.

    Because bindings are numbered in order, the environment is a list that grows by each equation's outputs. What the
    context stages is attributed to the line that the interpreted equation came from, and to the transformations that
    the context stands for. A program that was made by hand must typecheck.
    """
    if not jaxpr.well_typed or len(args) != len(jaxpr.invars):
        verify_call(jaxpr, len(args))
    env = list(args)
    bind, constant = ctx.bind, ctx.constant
    position = ctx.cursor.position
    outer, by = position.source, position.transformations
    position.transformations = ctx.cursor.transformations
    try:
        for eqn in jaxpr.eqns:
            position.source = eqn.source or outer
            ins = [env[atom.index] if isinstance(atom, Var) else constant(atom) for atom in eqn.invars]
            env += bind(eqn.primitive, *ins)
        return [env[atom.index] if isinstance(atom, Var) else constant(atom) for atom in jaxpr.outvars]
    finally:
        position.source, position.transformations = outer, by
