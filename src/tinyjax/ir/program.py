"""The IR: variables, literals, equations and jaxprs. All of it frozen, slotted, and compared by value."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, final

import numpy as np
from attrs import field, frozen
from typing_extensions import override

from tinyjax.caching import BoundedCache, Keyed, Token, register
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray, array_type
from tinyjax.ir.dtypes import BOOL, FLOATS, INTEGERS, PYTHON_DTYPES, DType, HostArray, Scalar
from tinyjax.ir.effects import NO_EFFECTS, Effects
from tinyjax.ir.equality import same_program
from tinyjax.ir.immutable import Immutable
from tinyjax.ir.naming import InputNames, names_for
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from tinyjax.ir.primitive import Primitive


def _bits(value: Scalar) -> tuple[type, int | bytes]:
    """A key under which scalars are equal only if they are the same bits of the same type."""
    if isinstance(value, complex):
        return complex, struct.pack("<dd", value.real, value.imag)
    if isinstance(value, float):
        return float, struct.pack("<d", value)
    return type(value), int(value)


def python_scalar(value: Scalar | np.generic, dtype: DType) -> Scalar:
    """`value`, rounded to `dtype`, as the Python scalar of that kind."""
    if type(value) is int and dtype not in INTEGERS and not -(2**63) <= value < 2**63:
        value = float(value)  # NumPy has no integers of this size for every dtype to come from
    with np.errstate(all="ignore"):
        rounded = np.asarray(value).astype(dtype)
    if dtype in FLOATS:
        return float(rounded)
    if dtype in INTEGERS:
        return int(rounded)
    if dtype is BOOL or dtype == BOOL:
        return bool(rounded)
    return complex(rounded)


@final
@frozen
class Var:
    """A variable: the number of its binding within its jaxpr, and its type."""

    index: int
    aval: ShapedArray


@final
@frozen(cache_hash=True)
class Literal:
    """A scalar constant within a program.

    The value is a Python scalar that the dtype of `aval` represents exactly. Compared to the bit: 1 is not 1.0, nan is
    nan, and 0.0 is not -0.0.

    >>> Literal.of(1) == Literal.of(1.0), Literal.of(float("nan")) == Literal.of(float("nan"))
    (False, True)
    """

    value: Scalar = field(eq=_bits)
    aval: ShapedArray

    @staticmethod
    def of(value: Scalar | np.generic, dtype: DType | None = None) -> Literal:
        """A literal: weakly typed if it is a Python number and no dtype is given."""
        if dtype is not None:
            return Literal(python_scalar(value, dtype), array_type((), dtype))
        dtype = PYTHON_DTYPES.get(type(value))
        if dtype is None:
            dtype = np.asarray(value).dtype
            return Literal(python_scalar(value, dtype), array_type((), dtype))
        return Literal(python_scalar(value, dtype), array_type((), dtype, dtype is not BOOL))


Atom: TypeAlias = Var | Literal


@final
@frozen
class Eqn(Immutable):
    """One application of a primitive. Where it came from (`source`) is no part of its value."""

    primitive: Primitive
    invars: tuple[Atom, ...]
    outvars: tuple[Var, ...]
    source: SourceInfo | None = field(default=None, eq=False)

    @property
    def params(self) -> Mapping[str, object]:
        """The primitive's parameters by name."""
        return self.primitive.params

    @property
    def effects(self) -> Effects:
        return self.primitive.effects

    @override
    def __str__(self) -> str:
        from tinyjax.ir.printing.printer import format_eqn

        return format_eqn(self)


@final
@frozen(cache_hash=True)
class JaxprType:
    """The type of a program: the types of its inputs and of its outputs."""

    in_types: tuple[ShapedArray, ...]
    out_types: tuple[ShapedArray, ...]

    @override
    def __str__(self) -> str:
        ins, outs = (", ".join(map(str, types)) for types in (self.in_types, self.out_types))
        return f"({ins}) -> ({outs})"


#: The keys of the programs that something was remembered of.
_TOKENS: Final[BoundedCache[tuple[int, Jaxpr], Token]] = BoundedCache(4096, "ir.programs")
register(_TOKENS)


@final
@frozen(repr=False)
class Jaxpr(Immutable, Keyed):
    """A program: inputs, equations in order, outputs.

    Variables are numbered by their bindings, inputs first, then the outputs of each equation, from 0. So programs that
    differ in names only are equal, and the environment of an interpreter is a list. What a function called the inputs
    (`input_names`) is there to be shown, and no part of the value.
    """

    invars: tuple[Var, ...]
    eqns: tuple[Eqn, ...]
    outvars: tuple[Atom, ...]
    names: InputNames | None = field(default=None, kw_only=True, eq=False, repr=False)
    token: Token | None = field(default=None, init=False, eq=False, repr=False)
    #: Whether it is known to typecheck: because it was checked, or because of how it was made. See `verify`.
    well_typed: bool = field(default=False, init=False, eq=False, repr=False)

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

    def with_names(self, names: Sequence[str]) -> Jaxpr:
        """The same program, whose inputs are called so: the first ones, if there are fewer names."""
        found = tuple(names)
        return self.named_by(InputNames(lambda: found) if any(found) else None)

    def named_by(self, names: InputNames | None) -> Jaxpr:
        """The same, with names that are found when they are asked for."""
        if names is self.names:
            return self
        named = Jaxpr(self.invars, self.eqns, self.outvars, names=names)
        object.__setattr__(named, "token", self.token)
        object.__setattr__(named, "well_typed", self.well_typed)
        return named

    def named_like(self, other: Jaxpr) -> Jaxpr:
        """The program, with the names of another one's inputs, which are the same."""
        if other.names is None or self.names is not None or len(self.invars) != len(other.invars):
            return self
        return self.named_by(other.names)

    def names_at(self, positions: Sequence[int | None]) -> InputNames | None:
        """The names of a program that has these inputs of this one; None: one of its own. Not looked at yet."""
        names = self.names
        if names is None:
            return None
        return InputNames(lambda: ["" if i is None else names_for(names.found, i + 1)[i] for i in positions])

    @cached_property
    def effects(self) -> Effects:
        """The union of the effects of all equations."""
        if all(not eqn.primitive.effects for eqn in self.eqns):
            return NO_EFFECTS
        return frozenset().union(*(eqn.primitive.effects for eqn in self.eqns))

    @cached_property
    def inner(self) -> tuple[Jaxpr, ...]:
        """The programs that its equations hold, one after the other."""
        from tinyjax.ir.traverse import subjaxprs

        return tuple([program for eqn in self.eqns for program in subjaxprs(eqn.primitive)])

    @cached_property
    def lines(self) -> int:
        """A number that tells equal programs from different lines of user code apart, for what remembers results."""
        return hash((*[eqn.source for eqn in self.eqns], *[program.lines for program in self.inner]))

    @cached_property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        return tuple([var.aval for var in self.invars])

    @cached_property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        return tuple([atom.aval for atom in self.outvars])

    @property
    def type(self) -> JaxprType:
        """The type that the binders declare; `typecheck` verifies it."""
        return JaxprType(self.in_avals, self.out_avals)

    @override
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Jaxpr):
            return NotImplemented
        return (self.token is not None and self.token is other.token) or same_program(self, other)

    @override
    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Enough of it to tell programs apart: types follow from those of the inputs.
        found: list[object] = list(self.in_avals)
        for eqn in self.eqns:
            found.append(eqn.primitive)
            found += [atom.index if type(atom) is Var else atom for atom in eqn.invars]
        found += [atom.index if type(atom) is Var else atom for atom in self.outvars]
        return hash(tuple(found))

    @override
    def __reduce__(self) -> tuple[object, ...]:
        from tinyjax.ir.files.pickling import reduce_program

        return reduce_program(self)

    @override
    def __str__(self) -> str:
        from tinyjax.ir.printing.printer import format_jaxpr

        return format_jaxpr(self)

    @override
    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from tinyjax.ir.printing.html import format_html

        return format_html(self)


def well_typed(jaxpr: Jaxpr) -> Jaxpr:
    """The program, marked as one that typechecks: by those who make it so that it does."""
    object.__setattr__(jaxpr, "well_typed", True)
    return jaxpr


def _find_token(jaxpr: Jaxpr) -> Token:
    """Finds the token of a program, after those of the programs within it: so that comparing two looks at each program
    once, however deep they nest."""
    token = Token()
    path = [(jaxpr, iter(jaxpr.inner))]
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


class WithElements(Protocol):
    """An array that may know its elements."""

    def concrete(self) -> ConcreteValue | None: ...


def _constants(
    consts: Iterable[ConcreteValue | HostArray | np.generic | Scalar | WithElements],
) -> tuple[ConcreteValue, ...]:
    """The constants of a closed program, none of which can be written to through what was given."""
    if type(consts) is tuple and all(type(const) is ConcreteValue for const in consts):
        return consts
    values: list[ConcreteValue] = []
    for i, const in enumerate(consts):
        if isinstance(const, ConcreteValue):
            values.append(const)
        elif isinstance(const, np.ndarray | np.generic | bool | int | float | complex):
            values.append(ConcreteValue.of(const).frozen_copy())
        else:
            known = const.concrete() if hasattr(const, "concrete") else None
            if known is None:
                raise InputError(
                    f"constant {i} of a ClosedJaxpr is a {type(const).__name__}, {const!r}. Pass arrays with their "
                    "elements: a ConcreteValue, an Array, a NumPy array or a number."
                )
            values.append(known)
    return tuple(values)


@final
@frozen(cache_hash=True, repr=False)
class ClosedJaxpr(Immutable):
    """A program together with the constants that feed its first inputs: any arrays with their elements."""

    jaxpr: Jaxpr
    consts: tuple[ConcreteValue, ...] = field(default=(), converter=_constants)

    @property
    def eqns(self) -> tuple[Eqn, ...]:
        return self.jaxpr.eqns

    @property
    def input_names(self) -> tuple[str, ...]:
        """What the inputs that remain are called; "" if nothing. No part of the value."""
        return self.jaxpr.input_names[len(self.consts) :]

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        """The types of the inputs that remain: those which no constant feeds."""
        return self.jaxpr.in_avals[len(self.consts) :]

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        return self.jaxpr.out_avals

    @property
    def effects(self) -> Effects:
        return self.jaxpr.effects

    @override
    def __str__(self) -> str:
        from tinyjax.ir.printing.printer import format_closed_jaxpr

        return format_closed_jaxpr(self)

    @override
    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from tinyjax.ir.printing.html import format_html

        return format_html(self)
