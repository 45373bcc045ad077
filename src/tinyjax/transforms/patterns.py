"""Patterns of equations: what rewriting rules look for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Generic, TypeAlias, TypeVar, cast, final

from attrs import evolve, field, frozen
from typing_extensions import override

from tinyjax.errors import InputError, RewriteError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import DType, Scalar
from tinyjax.ir.equality import same_value
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Literal, Var
from tinyjax.transforms.arguments import function
from tinyjax.transforms.cse import COMMUTATIVE

P = TypeVar("P", bound=Primitive)
P_co = TypeVar("P_co", bound=Primitive, covariant=True)


@frozen
class Pattern(ABC):
    """What an operand may be."""

    @abstractmethod
    def matches(self, atom: Atom, match: Match) -> bool:
        """Whether the atom fits, given what has been found before. Notes what it stands for."""


@final
@frozen(cache_hash=True)
class Variable(Pattern):
    """Any value. Where the same variable occurs again, the value must be the same."""

    name: str

    @override
    def matches(self, atom: Atom, match: Match) -> bool:
        found = match.atoms.setdefault(self, atom)
        return found is atom or found == atom


@final
@frozen(cache_hash=True)
class AnyLiteral(Pattern):
    """Any literal. Where the same one occurs again, the literal must be the same."""

    name: str

    @override
    def matches(self, atom: Atom, match: Match) -> bool:
        if not isinstance(atom, Literal):
            return False
        found = match.atoms.setdefault(self, atom)
        return found is atom or found == atom


@final
@frozen
class Number(Pattern):
    """The literal of this number, of any dtype. 0 and 0.0 are zero without a sign; -0.0 is the other zero."""

    value: Scalar

    @override
    def matches(self, atom: Atom, match: Match) -> bool:
        if not isinstance(atom, Literal):
            return False
        found = atom.value
        return found == self.value and _signs(found) == _signs(self.value)


def _signs(value: Scalar) -> tuple[float, float]:
    if isinstance(value, complex):
        return math.copysign(1, value.real), math.copysign(1, value.imag)
    return math.copysign(1, value), 1.0


@final
@frozen
class Several(Pattern):
    """All the operands that are left, as the last of an `Apply`."""

    name: str

    @override
    def matches(self, atom: Atom, match: Match) -> bool:
        raise InputError(f"Several({self.name!r}) must be the last operand of a pattern")


@final
@frozen(cache_hash=True)
class Apply(Pattern, Generic[P_co]):
    """An equation that applies a primitive of a class; `pattern` makes it.

    `where` says of the primitive whether its parameters are right. `output` tells which of its results the operand is.
    With `commutative`, both orders of two operands are tried.
    """

    primitive: type[P_co]
    operands: tuple[Pattern, ...]
    where: Callable[[Primitive], bool] | None = None
    output: int = 0
    commutative: bool = False
    #: The pattern of which this is one order of operands.
    original: Apply[P_co] | None = field(default=None, eq=False, repr=False)

    @override
    def matches(self, atom: Atom, match: Match) -> bool:
        if not isinstance(atom, Var):
            return False
        eqn = match.producer(atom)
        if eqn is None or not isinstance(eqn.primitive, self.primitive):
            return False
        if eqn.outvars.index(atom) != self.output or not self.matches_eqn(eqn, match):
            return False
        match.reads[atom.index] = match.reads.get(atom.index, 0) + 1
        return True

    def matches_eqn(self, eqn: Eqn, match: Match) -> bool:
        """Whether an equation that applies a primitive of this class fits."""
        found, operands = eqn.invars, self.operands
        if self.where is not None and not self.where(eqn.primitive):
            return False
        if operands and isinstance(operands[-1], Several):
            last = operands[-1]
            operands = operands[:-1]
            rest = found[len(operands) :]
            if len(found) < len(operands) or match.lists.setdefault(last, rest) != rest:
                return False
            found = found[: len(operands)]
        if len(found) != len(operands):
            return False
        for part, atom in zip(operands, found, strict=True):
            if not part.matches(atom, match):
                return False
        before = match.eqns.setdefault(self.original or self, eqn)
        return before is eqn or same_value(before.primitive, eqn.primitive)


Operand: TypeAlias = Pattern | bool | int | float | complex


def pattern(
    primitive: type[P],
    *operands: Operand,
    where: Callable[[P], bool] | None = None,
    output: int = 0,
    commutative: bool | None = None,
) -> Apply[P]:
    """The pattern of an equation that applies a primitive of this class, or of a subclass, to such operands.

    Numbers stand for literals. `where` gets the primitive and looks at its parameters. `commutative`: the two operands
    may come in any order; by default so for those in `transforms.COMMUTATIVE`.

    >>> from tinyjax.primitives.elementwise import Add, Mul
    >>> x, y, z = variables("x y z")
    >>> fused = pattern(Add, pattern(Mul, x, y), z)
    >>> fused.primitive.name, fused.commutative
    ('add', True)
    """
    given: object = primitive
    if not (isinstance(given, type) and issubclass(given, Primitive)):
        raise InputError(f"pattern takes the class of a primitive, such as `type(eqn.primitive)`, not {primitive!r}")
    for operand in operands:
        if not isinstance(operand, Pattern | bool | int | float | complex):
            raise InputError(f"an operand of a pattern is a pattern, a variable or a number, not {operand!r}")
    if where is not None:
        function("pattern: where", where)
    patterns = tuple([operand if isinstance(operand, Pattern) else Number(operand) for operand in operands])
    if any(isinstance(part, Several) for part in patterns[:-1]):
        raise InputError("Several must be the last operand of a pattern")
    either = primitive in COMMUTATIVE if commutative is None else commutative
    if either and (len(patterns) != 2 or isinstance(patterns[1], Several)):
        if commutative:
            raise InputError(f"a commutative pattern has two operands, got {len(patterns)} for {primitive.__name__}")
        either = False
    # A test for P is no test for every Primitive, but it is given none but instances of `primitive`.
    test = cast("Callable[[Primitive], bool] | None", where)
    return Apply(primitive, patterns, test, output, either)


def variables(names: str) -> tuple[Variable, ...]:
    """Variables of these names, which are separated by spaces."""
    if not isinstance(names, str):
        raise InputError(f"variables takes names in a string, such as `variables('x y')`, not {names!r}")
    return tuple(map(Variable, names.split()))


@final
class Match:
    """What the parts of a pattern were found to be. Filled while an equation is compared with the pattern."""

    __slots__ = ("atoms", "eqns", "lists", "out_avals", "producer", "reads")

    def __init__(self, producer: Callable[[Var], Eqn | None], out_avals: Sequence[ShapedArray]) -> None:
        self.producer: Callable[[Var], Eqn | None] = producer
        self.out_avals: tuple[ShapedArray, ...] = tuple(out_avals)
        self.atoms: dict[Variable | AnyLiteral, Atom] = {}
        self.lists: dict[Several, tuple[Atom, ...]] = {}
        self.eqns: dict[Apply[Primitive], Eqn] = {}
        #: How often the equations that were found read what the others compute, by the variables' numbers.
        self.reads: dict[int, int] = {}

    def __getitem__(self, part: Variable | AnyLiteral) -> Atom:
        """The operand that a variable stands for."""
        found = self.atoms.get(part)
        if found is None:
            raise _no_part(part.name)
        return found

    def all(self, part: Several) -> tuple[Atom, ...]:
        """The operands that a `Several` stands for."""
        if part not in self.lists:
            raise _no_part(part.name)
        return self.lists[part]

    def scalar(self, part: AnyLiteral) -> Scalar:
        """The number of a literal."""
        literal = self[part]
        if isinstance(literal, Var):
            raise RewriteError(f"the pattern's {part.name!r} is no literal")
        return literal.value

    def integer(self, part: AnyLiteral) -> int:
        """The number of a literal of integers or truth values."""
        value = self.scalar(part)
        if not isinstance(value, int):
            raise RewriteError(f"the pattern's {part.name!r} is {value}, no integer")
        return int(value)

    def literals(self, *parts: AnyLiteral) -> tuple[Literal, ...]:
        """The literals that these stand for."""
        return tuple([atom for atom in map(self.__getitem__, parts) if isinstance(atom, Literal)])

    @property
    def root(self) -> Primitive:
        """The primitive of the equation that is to be replaced."""
        return [*self.eqns.values()][-1].primitive

    def primitive(self, part: Apply[P]) -> P:
        """The primitive that was found, with its parameters."""
        for known, eqn in self.eqns.items():
            if known == part and isinstance(eqn.primitive, part.primitive):
                return eqn.primitive
        raise _no_part(part.primitive.__name__)

    def aval(self, part: Variable | AnyLiteral) -> ShapedArray:
        """The type of an operand."""
        return self[part].aval

    @property
    def out(self) -> ShapedArray:
        """The type of the (first) result."""
        return self.out_avals[0]

    @property
    def dtype(self) -> DType:
        """The dtype of the (first) result."""
        return self.out_avals[0].dtype


def _no_part(name: str) -> RewriteError:
    return RewriteError(f"{name!r} is no part of the pattern that was matched")


def orders(form: Apply[P]) -> Iterator[Apply[P]]:
    """The pattern with the operands of commutative parts in each order, so that matching need not go back."""
    choices: list[Sequence[Pattern]] = [
        list(orders(operand)) if isinstance(operand, Apply) else [operand] for operand in form.operands
    ]
    for operands in product(*choices):
        yield evolve(form, operands=operands, original=form)
        if form.commutative and operands[0] != operands[1]:
            yield evolve(form, operands=operands[::-1], original=form)
