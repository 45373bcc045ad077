"""Sign and rounding: functions that are constant between their jumps."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import ClassVar, Final, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.dtypes import BOOL, FLOATS, NUMERIC, DType, HostArray
from tinyjax.primitives import complex_values, numpy_values
from tinyjax.primitives.elementwise import Dtypes, NumPyFunction, OneOperand, Stepwise


class RoundingMethod(enum.Enum):
    """What becomes of numbers halfway between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


_ROUNDINGS: Final[dict[RoundingMethod, Callable[..., HostArray]]] = {
    RoundingMethod.AWAY_FROM_ZERO: numpy_values.round_half_away,
    RoundingMethod.TO_NEAREST_EVEN: np.rint,
}


@final
@frozen
class Sign(Stepwise, OneOperand):
    """-1, 0 or 1; of a complex number the one of magnitude 1 in the same direction."""

    name: ClassVar[str] = "sign"
    accepts: ClassVar[Dtypes] = NUMERIC
    function: ClassVar[NumPyFunction] = numpy_values.sign
    of_complex: ClassVar[NumPyFunction | None] = complex_values.sign


@final
@frozen
class Floor(Stepwise, OneOperand):
    """The largest integer that is at most x, as a floating number."""

    name: ClassVar[str] = "floor"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = np.floor


@final
@frozen
class Ceil(Stepwise, OneOperand):
    """The smallest integer that is at least x, as a floating number."""

    name: ClassVar[str] = "ceil"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = np.ceil


@final
@frozen
class Round(Stepwise, OneOperand):
    """The nearest integer, as a float."""

    rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO
    name: ClassVar[str] = "round"
    accepts: ClassVar[Dtypes] = FLOATS

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.asarray(_ROUNDINGS[self.rounding_method](*args)),)


@final
@frozen
class IsFinite(Stepwise, OneOperand):
    """Whether a floating number is neither infinite nor nan: a bool."""

    name: ClassVar[str] = "is_finite"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = np.isfinite

    @override
    def result_dtype(self, dtype: DType) -> DType:
        return BOOL


# The vocabulary.

sign: Final = Sign()
floor: Final = Floor()
ceil: Final = Ceil()
round_away_from_zero: Final = Round()
round_to_even: Final = Round(RoundingMethod.TO_NEAREST_EVEN)
is_finite: Final = IsFinite()
