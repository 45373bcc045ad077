"""Whether a program that somebody hands to the library is one: asked of each program value once."""

from __future__ import annotations

from typing import Final

from tinyjax.caching import BoundedCache, Token, register
from tinyjax.errors import InputError, MissingRuleError
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.program_value import well_typed

#: The tokens of programs that have been checked.
_CHECKED: Final[BoundedCache[Token, bool]] = BoundedCache(4096, "ir.verify")
register(_CHECKED)


def verify(program: Jaxpr | ClosedJaxpr) -> None:
    """A VerificationError unless the program typechecks. What the library has traced or transformed does, and isn't
    looked at; nor is a program that equals one which has been checked.

    A program that applies primitives without types can't be checked, and passes.
    """
    if isinstance(program, ClosedJaxpr):
        if program.consts:
            from tinyjax.ir.typecheck import check_constants

            check_constants(program)
        program = program.jaxpr
    if not program.well_typed:
        _check(program)


def verify_call(jaxpr: Jaxpr, count: int) -> None:
    """The same, and an InputError unless the program takes so many inputs."""
    verify(jaxpr)
    if count != len(jaxpr.invars):
        raise InputError(f"the program takes {len(jaxpr.invars)} inputs, got {count}")


def _check(jaxpr: Jaxpr) -> None:
    from tinyjax.ir.typecheck import typecheck

    try:
        if _CHECKED.get(jaxpr.remembered_by):
            well_typed(jaxpr)
            return
    except (TypeError, ValueError, LookupError, AttributeError):
        pass  # it isn't even a value
    try:
        typecheck(jaxpr)
    except MissingRuleError:
        return
    _CHECKED.put(jaxpr.remembered_by, True)
