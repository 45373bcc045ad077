"""The IR: variables, literals, equations and jaxprs. All of it frozen, slotted, and compared by value."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, final

import numpy as np
from attrs import field, frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.constants import constants
from tinyjax.ir.dtypes import BOOL, PYTHON_DTYPES, DType, Scalar
from tinyjax.ir.effects import Effects, effects_of
from tinyjax.ir.literals import python_scalar, scalar_bits
from tinyjax.ir.names_of_jax import NamesOfJax
from tinyjax.ir.program_type import JaxprType
from tinyjax.ir.program_value import ProgramPart, ProgramValue
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.slots import made_by_slots
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from tinyjax.ir.primitive import Primitive


@final
@made_by_slots
@frozen
class Var:
    """A variable: the number of its binding within its jaxpr, and its type."""

    index: int
    aval: ShapedArray


@final
@frozen(cache_hash=True)
class Literal(NamesOfJax):
    """A scalar constant within a program.

    The value is a Python scalar that the dtype of `aval` represents exactly. Compared to the bit: 1 is not 1.0, nan is
    nan, and 0.0 is not -0.0.

    >>> Literal.of(1) == Literal.of(1.0), Literal.of(float("nan")) == Literal.of(float("nan"))
    (False, True)
    """

    value: Scalar = field(eq=scalar_bits)
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
@made_by_slots
@frozen
class Eqn(ProgramPart):
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


@final
@frozen(repr=False, eq=False)
class Jaxpr(ProgramValue):
    """A program: inputs, equations in order, outputs.

    Variables are numbered by their bindings, inputs first, then the outputs of each equation, from 0. So programs that
    differ in names only are equal, and the environment of an interpreter is a list. What a function called the inputs
    (`input_names`) is there to be shown, and no part of the value.
    """

    invars: tuple[Var, ...]
    eqns: tuple[Eqn, ...]
    outvars: tuple[Atom, ...]

    @cached_property
    def effects(self) -> Effects:
        """The union of the effects of all equations."""
        return effects_of([eqn.primitive for eqn in self.eqns])

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
    def __reduce__(self) -> tuple[object, ...]:
        from tinyjax.ir.files.pickling import reduce_program

        return reduce_program(self)


@final
@frozen(cache_hash=True, repr=False)
class ClosedJaxpr(ProgramPart):
    """A program together with the constants that feed its first inputs: any arrays with their elements."""

    jaxpr: Jaxpr
    consts: tuple[ConcreteValue, ...] = field(default=(), converter=constants)

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
