"""Transposition: runs a linear program backwards, from cotangents of its outputs to cotangents of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from tinyjax.contexts.recording import Equations
from tinyjax.errors import LinearityError, MissingRuleError
from tinyjax.ir import contracts
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import UndefPrimal, Zero
from tinyjax.ir.program import Atom, Var
from tinyjax.ir.source import Position
from tinyjax.primitives.boundaries import fit, gathered
from tinyjax.primitives.elementwise import add

V = TypeVar("V")


def transpose(
    ctx: Context[V], program: Equations, args: Sequence[V | UndefPrimal], cotangents: Sequence[V | Zero]
) -> list[V | Zero | None]:
    """The cotangents of the arguments that are UndefPrimal, and None for the others.

    The program must be linear in the UndefPrimal arguments. What depends on the others alone is computed first, in
    order; then the linear equations are transposed in reverse order, and cotangents of the same variable added.
    """
    known = _forward(ctx, program, args)
    with ctx.cursor.within("transpose").attributing() as position:
        return _backward(ctx, program, known, args, cotangents, position)


def _backward(
    ctx: Context[V],
    program: Equations,
    known: Mapping[int, V],
    args: Sequence[V | UndefPrimal],
    cotangents: Sequence[V | Zero],
    position: Position,
) -> list[V | Zero | None]:
    pending: dict[int, V] = {}
    outer = position.source

    def accumulate(atom: Atom, cotangent: V) -> None:
        if isinstance(atom, Var) and atom.index not in known:
            before = pending.get(atom.index)
            pending[atom.index] = cotangent if before is None else add(ctx, before, cotangent)

    for atom, cotangent in zip(program.outvars, cotangents, strict=True):
        if not isinstance(cotangent, Zero):
            accumulate(atom, cotangent)
    for eqn in reversed(program.eqns):
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
        ins: list[V | UndefPrimal] = []
        for atom in eqn.invars:
            if not isinstance(atom, Var):
                ins.append(ctx.constant(atom))
            else:
                ins.append(known[atom.index] if atom.index in known else UndefPrimal(atom.aval))
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

    return [total(var) if isinstance(arg, UndefPrimal) else None for var, arg in zip(program.invars, args, strict=True)]


def _forward(ctx: Context[V], program: Equations, args: Sequence[V | UndefPrimal]) -> dict[int, V]:
    """The values of all variables that don't depend on a linear input, by their numbers."""
    known = {var.index: arg for var, arg in zip(program.invars, args, strict=True) if not isinstance(arg, UndefPrimal)}
    with ctx.cursor.attributing() as position:
        outer = position.source
        for eqn in program.eqns:
            for atom in eqn.invars:
                if isinstance(atom, Var) and atom.index not in known:
                    break
            else:
                position.source = eqn.source or outer
                ins = [known[atom.index] if isinstance(atom, Var) else ctx.constant(atom) for atom in eqn.invars]
                for var, value in zip(eqn.outvars, ctx.bind(eqn.primitive, *ins), strict=True):
                    known[var.index] = value
    return known
