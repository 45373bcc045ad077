"""What makes a program a value: how it is compared, hashed and remembered, and what its inputs are called.

Nothing here has to do with what a program means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self, TypeVar

from attrs import evolve, field, frozen
from typing_extensions import override

from tinyjax.caching import BoundedCache, Keyed, Token, register
from tinyjax.ir.equality import same_program
from tinyjax.ir.immutable import Immutable
from tinyjax.ir.names_of_jax import NamesOfJax
from tinyjax.ir.naming import InputNames, names_at, names_for
from tinyjax.ir.printing.printed import Printed

if TYPE_CHECKING:
    from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var


ProgramT = TypeVar("ProgramT", bound="ProgramValue")


class ProgramPart(Printed, Immutable, NamesOfJax):
    """An equation, a program or a closed program: it never changes, and shows itself."""

    __slots__ = ()


@frozen(eq=False, repr=False)
class ProgramValue(ProgramPart, Keyed):
    """The base class of programs."""

    names: InputNames | None = field(default=None, kw_only=True)
    token: Token | None = field(default=None, init=False)
    #: Whether it is known to typecheck: because it was checked, or because of how it was made. See `verify`.
    well_typed: bool = field(default=False, init=False)

    if TYPE_CHECKING:

        @property
        def invars(self) -> tuple[Var, ...]: ...
        @property
        def eqns(self) -> tuple[Eqn, ...]: ...
        @property
        def outvars(self) -> tuple[Atom, ...]: ...

    @property
    @override
    def remembered_by(self) -> Token:
        """One object for all equal programs from the same lines of user code, so that it is quick to compare."""
        return _find_token(self) if self.token is None else self.token

    @property
    def input_names(self) -> tuple[str, ...]:
        """What the function that the program was traced from calls each input, such as `params['w']`; "" if nothing.

        >>> from tinyjax import make_jaxpr
        >>> make_jaxpr(lambda p, x: p["w"] * x)({"w": 1.0}, 2.0).jaxpr.input_names
        ("p['w']", 'x')
        """
        return names_for(() if self.names is None else self.names.found, len(self.invars))

    def with_names(self, names: Sequence[str]) -> Self:
        """The same program, whose inputs are called so: the first ones, if there are fewer names."""
        found = tuple(names)
        return self.named_by(InputNames(lambda: found) if any(found) else None)

    def named_by(self, names: InputNames | None) -> Self:
        """The same, with names that are found when they are asked for."""
        if names is self.names:
            return self
        named = evolve(self, names=names)
        object.__setattr__(named, "token", self.token)
        object.__setattr__(named, "well_typed", self.well_typed)
        return named

    def named_like(self, other: Self) -> Self:
        """The program, with the names of another one's inputs, which are the same."""
        if other.names is None or self.names is not None or len(self.invars) != len(other.invars):
            return self
        return self.named_by(other.names)

    def names_at(self, positions: Sequence[int | None]) -> InputNames | None:
        """The names of a program that has these inputs of this one; None: one of its own. Not looked at yet."""
        return None if self.names is None else names_at(self.names, positions)

    @cached_property
    def inner(self) -> tuple[Jaxpr, ...]:
        """The programs that its equations hold, one after the other."""
        from tinyjax.ir.traverse import inner_programs

        return tuple(inner_programs(self.eqns))

    @cached_property
    def lines(self) -> int:
        """A number that tells equal programs from different lines of user code apart, for what remembers results."""
        return hash((*[eqn.source for eqn in self.eqns], *[program.lines for program in self.inner]))

    @override
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, ProgramValue):
            return NotImplemented
        return (self.token is not None and self.token is other.token) or same_program(self, other)

    @override
    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Enough of it to tell programs apart: types follow from those of the inputs.
        found: list[object] = [var.aval for var in self.invars]
        primitives = {id(eqn.primitive): eqn.primitive for eqn in self.eqns}  # few, which many equations apply
        hashes = {key: hash(primitive) for key, primitive in primitives.items()}
        for eqn in self.eqns:
            found.append(hashes[id(eqn.primitive)])
            found += [getattr(atom, "index", atom) for atom in eqn.invars]
        found += [getattr(atom, "index", atom) for atom in self.outvars]
        return hash(tuple(found))


def well_typed(jaxpr: ProgramT) -> ProgramT:
    """The program, marked as one that typechecks: by those who make it so that it does."""
    object.__setattr__(jaxpr, "well_typed", True)
    return jaxpr


#: The keys of the programs that something was remembered of.
_TOKENS: Final[BoundedCache[tuple[int, ProgramValue], Token]] = BoundedCache(4096, "ir.programs")
register(_TOKENS)


def _find_token(jaxpr: ProgramValue) -> Token:
    """Finds the token of a program, after those of the programs within it: so that comparing two looks at each program
    once, however deep they nest."""
    token = Token()
    path: list[tuple[ProgramValue, Iterator[ProgramValue]]] = [(jaxpr, iter(jaxpr.inner))]
    while path:
        program, children = path[-1]
        for child in children:
            if child.token is None:
                path.append((child, iter(child.inner)))
                break
        else:
            token = _TOKENS.get_or_make((program.lines, program), Token)
            object.__setattr__(program, "token", token)
            path.pop()
    return token
