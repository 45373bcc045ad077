"""Transposition: runs a linear program backwards, from cotangents of its outputs to cotangents of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tinyjax.errors import LinearityError, MissingRuleError
from tinyjax.ir import contracts
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import UndefPrimal, Zero
from tinyjax.ir.program import Atom, Jaxpr, Var
from tinyjax.ir.source import Position
from tinyjax.primitives.boundaries import fit, gathered
from tinyjax.primitives.elementwise import add

V = TypeVar("V")


def transpose(
    ctx: Context[V], jaxpr: Jaxpr, args: Sequence[V | UndefPrimal], cotangents: Sequence[V | Zero]
) -> list[V | Zero | None]:
    """The cotangents of the arguments that are UndefPrimal, and None for the others.

    The program must be linear in the UndefPrimal arguments. What depends on the others alone is computed first, in
    order; then the linear equations are transposed in reverse order, and cotangents of the same variable added.
    """
    env = _forward(ctx, jaxpr, args)
    with ctx.cursor.within("transpose").attributing() as position:
        return _backward(ctx, jaxpr, env, args, cotangents, position)


def _backward(
    ctx: Context[V],
    jaxpr: Jaxpr,
    env: Sequence[V | UndefPrimal],
    args: Sequence[V | UndefPrimal],
    cotangents: Sequence[V | Zero],
    position: Position,
) -> list[V | Zero | None]:
    pending: dict[int, V] = {}
    outer = position.source

    def accumulate(atom: Atom, cotangent: V) -> None:
        if isinstance(atom, Var) and isinstance(env[atom.index], UndefPrimal):
            before = pending.get(atom.index)
            pending[atom.index] = cotangent if before is None else add(ctx, before, cotangent)

    for atom, cotangent in zip(jaxpr.outvars, cotangents, strict=True):
        if not isinstance(cotangent, Zero):
            accumulate(atom, cotangent)
    for eqn in reversed(jaxpr.eqns):
        for out in eqn.outvars:
            if out.index in pending:
                break
        else:
            continue
        position.source = eqn.source or outer
        outs: list[V | Zero] = []
        for out in eqn.outvars:
            found = pending.pop(out.index, None)
            outs.append(Zero(out.aval.cotangent) if found is None else found)
        ins = [env[atom.index] if isinstance(atom, Var) else ctx.constant(atom) for atom in eqn.invars]
        if UndefPrimal not in map(type, ins):
            raise LinearityError(
                f"the equation is not linear: {eqn}" + (f" at {eqn.source.location}" if eqn.source else "")
            )
        try:
            results = contracts.transpose(eqn.primitive, ctx, outs, ins)
        except (LinearityError, MissingRuleError) as error:
            if not hasattr(error, "__notes__"):
                error.add_note(
                    f"while transposing the equation: {eqn}" + (f"\nat {eqn.source.location}" if eqn.source else "")
                )
            raise
        held = not eqn.primitive.plain  # programs may take a value as one that varies along axes of a mesh
        for atom, result in zip(eqn.invars, results, strict=True):
            if result is not None and not isinstance(result, Zero):
                accumulate(atom, gathered(ctx, result, atom.aval.cotangent) if held else result)
    position.source = outer

    def total(var: Var) -> V | Zero:
        """The cotangent of an input: as weak as the input is, and varying along the same axes of a mesh."""
        found = pending.get(var.index)
        if found is None:
            return Zero(var.aval.cotangent)
        return fit(ctx, found, var.aval.cotangent)

    return [total(var) if isinstance(arg, UndefPrimal) else None for var, arg in zip(jaxpr.invars, args, strict=True)]


def _forward(ctx: Context[V], jaxpr: Jaxpr, args: Sequence[V | UndefPrimal]) -> list[V | UndefPrimal]:
    """The values of all variables that don't depend on a linear input, and UndefPrimal for those that do."""
    env = list(args)
    with ctx.cursor.attributing() as position:
        outer = position.source
        for eqn in jaxpr.eqns:
            known: list[V] = []
            for atom in eqn.invars:
                value = env[atom.index] if isinstance(atom, Var) else ctx.constant(atom)
                if isinstance(value, UndefPrimal):
                    env += [UndefPrimal(var.aval) for var in eqn.outvars]
                    break
                known.append(value)
            else:
                position.source = eqn.source or outer
                env += ctx.bind(eqn.primitive, *known)
    return env
