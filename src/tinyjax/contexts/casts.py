"""Operands that vary along fewer axes of a mesh than they have to, in programs that are being made."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.ir.context import Context
from tinyjax.ir.program import Atom, Literal
from tinyjax.ir.shapes import Axes
from tinyjax.ir.varying import without
from tinyjax.primitives.collectives import PVary


def cast_operands(ctx: Context[Atom], args: Sequence[Atom], wanted: Sequence[Axes]) -> tuple[Atom, ...]:
    """The operands, each varying along the wanted axes. A literal is one that does: no derivative flows to it."""
    return tuple([_cast(ctx, arg, axes) for arg, axes in zip(args, wanted, strict=True)])


def _cast(ctx: Context[Atom], atom: Atom, axes: Axes) -> Atom:
    if isinstance(atom, Literal):
        return Literal(atom.value, atom.aval.varying_over(axes))
    more = without(axes, atom.aval.varying)
    return ctx.bind(PVary(more), atom)[0] if more else atom
