"""Operations on bits; on bool they are the logical ones. None has a derivative."""

from __future__ import annotations

from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen

from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import BOOL, INTEGERS
from tinyjax.primitives import numpy_values
from tinyjax.primitives.elementwise import Dtypes, NumPyFunction, Stepwise

V = TypeVar("V")
BITS: Final = INTEGERS | {BOOL}


@final
@frozen
class Not(Stepwise):
    name: ClassVar[str] = "not"
    accepts: ClassVar[Dtypes] = BITS
    function: ClassVar[NumPyFunction] = np.invert


@final
@frozen
class And(Stepwise):
    name: ClassVar[str] = "and"
    accepts: ClassVar[Dtypes] = BITS
    arity: ClassVar[int] = 2
    function: ClassVar[NumPyFunction] = np.bitwise_and


@final
@frozen
class Or(Stepwise):
    name: ClassVar[str] = "or"
    accepts: ClassVar[Dtypes] = BITS
    arity: ClassVar[int] = 2
    function: ClassVar[NumPyFunction] = np.bitwise_or


@final
@frozen
class Xor(Stepwise):
    name: ClassVar[str] = "xor"
    accepts: ClassVar[Dtypes] = BITS
    arity: ClassVar[int] = 2
    function: ClassVar[NumPyFunction] = np.bitwise_xor


@final
@frozen
class PopulationCount(Stepwise):
    """The number of bits that are set."""

    name: ClassVar[str] = "population_count"
    accepts: ClassVar[Dtypes] = INTEGERS
    function: ClassVar[NumPyFunction] = numpy_values.population_count


@final
@frozen
class Clz(Stepwise):
    """The number of leading bits that are zero."""

    name: ClassVar[str] = "clz"
    accepts: ClassVar[Dtypes] = INTEGERS
    function: ClassVar[NumPyFunction] = numpy_values.count_leading_zeros


@frozen
class Shift(Stepwise):
    """Shifts by the second operand, read as unsigned. Shifting by the width or more shifts every bit out."""

    accepts: ClassVar[Dtypes] = INTEGERS
    arity: ClassVar[int] = 2


@final
@frozen
class ShiftLeft(Shift):
    name: ClassVar[str] = "shift_left"
    function: ClassVar[NumPyFunction] = np.left_shift


@final
@frozen
class ShiftRightLogical(Shift):
    """Fills with zeros."""

    name: ClassVar[str] = "shift_right_logical"
    function: ClassVar[NumPyFunction] = numpy_values.shift_right_logical


@final
@frozen
class ShiftRightArithmetic(Shift):
    """Fills with the sign bit, on unsigned integers too."""

    name: ClassVar[str] = "shift_right_arithmetic"
    function: ClassVar[NumPyFunction] = numpy_values.shift_right_arithmetic


NOT: Final = Not()
AND: Final = And()
OR: Final = Or()
XOR: Final = Xor()
POPULATION_COUNT: Final = PopulationCount()
CLZ: Final = Clz()
SHIFT_LEFT: Final = ShiftLeft()
SHIFT_RIGHT_LOGICAL: Final = ShiftRightLogical()
SHIFT_RIGHT_ARITHMETIC: Final = ShiftRightArithmetic()

# The vocabulary.


def logical_not(ctx: Context[V], x: V) -> V:
    return ctx.bind(NOT, x)[0]


def logical_and(ctx: Context[V], x: V, y: V) -> V:
    return ctx.bind(AND, x, y)[0]


def logical_or(ctx: Context[V], x: V, y: V) -> V:
    return ctx.bind(OR, x, y)[0]


def logical_xor(ctx: Context[V], x: V, y: V) -> V:
    return ctx.bind(XOR, x, y)[0]
