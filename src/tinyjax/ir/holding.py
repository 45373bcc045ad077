"""Programs in all the forms in which functions take them: a Jaxpr, a ClosedJaxpr, or a record that holds one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self, TypeAlias, TypeVar, cast

from tinyjax.collecting import collecting_seldom
from tinyjax.errors import InputError
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.verify import verify


class HoldsProgram(ABC):
    """A closed program with what else is known of it, such as the trees of a function's arguments."""

    __slots__ = ()

    @property
    @abstractmethod
    def closed_jaxpr(self) -> ClosedJaxpr:
        """The program."""

    @abstractmethod
    def with_program(self, program: ClosedJaxpr) -> Self:
        """The same record of another program, whose inputs and outputs are of the same types."""


AnyProgram: TypeAlias = Jaxpr | ClosedJaxpr | HoldsProgram
#: What takes a program of any form and returns one of the same.
ProgramT = TypeVar("ProgramT", bound=AnyProgram)


def as_closed(program: AnyProgram, what: str) -> ClosedJaxpr:
    """The program as a ClosedJaxpr; an InputError, which begins with `what`, if it is none."""
    if isinstance(program, ClosedJaxpr):
        return program
    if isinstance(program, Jaxpr):
        return ClosedJaxpr(program)
    if isinstance(program, HoldsProgram):
        return program.closed_jaxpr
    raise InputError(
        f"{what} takes a program: a Jaxpr, a ClosedJaxpr or what `tinyjax.trace` returns, not a "
        f"{type(program).__name__}. `tinyjax.make_jaxpr(f)(*args)` makes one of a function."
    )


def as_jaxpr(program: AnyProgram, what: str) -> Jaxpr:
    """The same, without its constants, which are then inputs."""
    return program if isinstance(program, Jaxpr) else as_closed(program, what).jaxpr


def checked(program: AnyProgram, what: str) -> ClosedJaxpr:
    """The program as a ClosedJaxpr, for what looks into it; a VerificationError if it doesn't typecheck."""
    closed = as_closed(program, what)
    verify(closed)
    return closed


def checked_jaxpr(program: AnyProgram, what: str) -> Jaxpr:
    """The same, without its constants, which are then inputs."""
    return checked(program, what).jaxpr


@collecting_seldom
def changed(
    program: ProgramT,
    what: str,
    change: Callable[[Jaxpr], Jaxpr],
    change_closed: Callable[[ClosedJaxpr], ClosedJaxpr] | None = None,
) -> ProgramT:
    """A program of the same form, changed by a function that keeps the inputs. `change_closed`: if constants matter.

    A VerificationError if it doesn't typecheck.
    """
    # Programs have no subclasses and records return their own class, which type checkers don't conclude: so the casts.
    if isinstance(program, Jaxpr):
        verify(program)
        return cast("ProgramT", _program(what, change(program)).named_like(program))
    closed = as_closed(program, what)
    verify(closed)
    if change_closed is not None:
        result = change_closed(closed)
    else:
        jaxpr = _program(what, change(closed.jaxpr))
        result = closed if jaxpr is closed.jaxpr else ClosedJaxpr(jaxpr.named_like(closed.jaxpr), closed.consts)
    if result is closed:
        return program
    return cast("ProgramT", program.with_program(result) if isinstance(program, HoldsProgram) else result)


def _program(what: str, found: Jaxpr) -> Jaxpr:
    """What a function of the user's has returned, which must be a program."""
    if not isinstance(found, Jaxpr):
        raise InputError(f"{what} must return a Jaxpr, but returned a {type(found).__name__}, {found!r}")
    return found
