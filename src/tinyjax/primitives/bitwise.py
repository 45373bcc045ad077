"""Operations on bits; on bool they are the logical ones. None has a derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL, INTEGERS, HostArray
from tinyjax.primitives import kernels, numpy_values
from tinyjax.primitives.elementwise import Dtypes, NumPyFunction, OneOperand, Stepwise, TwoOperands

BITS: Final = INTEGERS | {BOOL}


@final
@frozen
class Not(Stepwise, OneOperand):
    """Each bit inverted, of an integer; of a bool, its negation."""

    name: ClassVar[str] = "not"
    accepts: ClassVar[Dtypes] = BITS
    function: ClassVar[NumPyFunction] = np.invert


@final
@frozen
class And(Stepwise, TwoOperands):
    """The bits that are set in both operands, which are integers or both bool."""

    name: ClassVar[str] = "and"
    accepts: ClassVar[Dtypes] = BITS
    function: ClassVar[NumPyFunction] = np.bitwise_and


@final
@frozen
class Or(Stepwise, TwoOperands):
    """The bits that are set in either operand; both are integers or both bool."""

    name: ClassVar[str] = "or"
    accepts: ClassVar[Dtypes] = BITS
    function: ClassVar[NumPyFunction] = np.bitwise_or


@final
@frozen
class Xor(Stepwise, TwoOperands):
    """The bits that are set in one operand only; both are integers or both bool."""

    name: ClassVar[str] = "xor"
    accepts: ClassVar[Dtypes] = BITS
    function: ClassVar[NumPyFunction] = np.bitwise_xor


@final
@frozen
class PopulationCount(Stepwise, OneOperand):
    """The number of bits that are set."""

    name: ClassVar[str] = "population_count"
    accepts: ClassVar[Dtypes] = INTEGERS
    function: ClassVar[NumPyFunction] = numpy_values.population_count


@final
@frozen
class Clz(Stepwise, OneOperand):
    """The number of leading bits that are zero."""

    name: ClassVar[str] = "clz"
    accepts: ClassVar[Dtypes] = INTEGERS
    function: ClassVar[NumPyFunction] = numpy_values.count_leading_zeros


@frozen
class Shift(Stepwise, TwoOperands):
    """Shifts by the second operand, read as unsigned. Shifting by the width or more shifts every bit out."""

    accepts: ClassVar[Dtypes] = INTEGERS


@final
@frozen
class ShiftLeft(Shift):
    """Shifts to the left, and fills with zeros."""

    name: ClassVar[str] = "shift_left"
    function: ClassVar[NumPyFunction] = np.left_shift


@final
@frozen
class ShiftRightLogical(Shift):
    """Fills with zeros."""

    name: ClassVar[str] = "shift_right_logical"
    function: ClassVar[NumPyFunction] = numpy_values.shift_right_logical

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return kernels.shift_right("u", avals[0])


@final
@frozen
class ShiftRightArithmetic(Shift):
    """Fills with the sign bit, on unsigned integers too."""

    name: ClassVar[str] = "shift_right_arithmetic"
    function: ClassVar[NumPyFunction] = numpy_values.shift_right_arithmetic

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return kernels.shift_right("i", avals[0])


@final
@frozen
class MulHi(Stepwise, TwoOperands):
    """The upper half of the product, which has twice as many bits."""

    name: ClassVar[str] = "mulhi"
    accepts: ClassVar[Dtypes] = INTEGERS
    function: ClassVar[NumPyFunction] = numpy_values.upper_half_of_product


# The vocabulary.

logical_not: Final = Not()
logical_and: Final = And()
logical_or: Final = Or()
logical_xor: Final = Xor()
population_count: Final = PopulationCount()
clz: Final = Clz()
shift_left: Final = ShiftLeft()
shift_right_logical: Final = ShiftRightLogical()
shift_right_arithmetic: Final = ShiftRightArithmetic()
mulhi: Final = MulHi()
