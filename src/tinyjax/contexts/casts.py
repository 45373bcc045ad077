"""Operands that vary along fewer axes of a mesh than they have to, in programs that are being made."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.errors import TypingError
from tinyjax.ir.context import Context
from tinyjax.ir.program import Atom, Literal
from tinyjax.ir.shapes import UNREDUCED, Axes
from tinyjax.ir.varying import without
from tinyjax.primitives.casts import cast


def cast_operands(ctx: Context[Atom], args: Sequence[Atom], wanted: Sequence[Axes]) -> tuple[Atom, ...]:
    """The operands, each varying along the wanted axes. A literal is one that does: no derivative flows to it."""
    return tuple([_cast(ctx, arg, axes) for arg, axes in zip(args, wanted, strict=True)])


def _cast(ctx: Context[Atom], atom: Atom, axes: Axes) -> Atom:
    if isinstance(atom, Literal):
        if atom.value != 0 and any(name.startswith(UNREDUCED) for name in without(axes, atom.aval.axes)):
            raise _no_term(atom, axes)
        return Literal(atom.value, atom.aval.varying_over(axes))
    more = without(axes, atom.aval.axes)
    if more and any(name.startswith(UNREDUCED) for name in more):
        raise _no_term(atom, axes)
    return cast(ctx, atom, axes) if more else atom


def _no_term(atom: Atom, axes: Axes) -> TypingError:
    """What meets a sum yet to be made is no such sum."""
    names = [name.removeprefix(UNREDUCED) for name in without(axes, atom.aval.axes) if name.startswith(UNREDUCED)]
    shown = ", ".join(map(repr, names))
    return TypingError(
        f"{atom.aval} meets a value that is unreduced along {shown}, a sum that the devices have yet to make, and "
        f"isn't such a sum itself. Make the sum first, lax.psum(x, {names[0]!r}), or make terms of what varies: "
        f"lax.pcast(x, {names[0]!r}, to='unreduced')"
    )
