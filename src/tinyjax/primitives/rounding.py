"""Sign and rounding: functions that are constant between their jumps."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import BOOL, FLOATS, NUMERIC, DType, HostArray
from tinyjax.primitives import complex_values, numpy_values
from tinyjax.primitives.elementwise import Dtypes, NumPyFunction, Stepwise

V = TypeVar("V")


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
class Sign(Stepwise):
    """-1, 0 or 1; of a complex number the one of magnitude 1 in the same direction."""

    name: ClassVar[str] = "sign"
    accepts: ClassVar[Dtypes] = NUMERIC
    function: ClassVar[NumPyFunction] = numpy_values.sign
    of_complex: ClassVar[NumPyFunction | None] = complex_values.sign


@final
@frozen
class Floor(Stepwise):
    name: ClassVar[str] = "floor"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = np.floor


@final
@frozen
class Ceil(Stepwise):
    name: ClassVar[str] = "ceil"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = np.ceil


@final
@frozen
class Round(Stepwise):
    """The nearest integer, as a float."""

    rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO
    name: ClassVar[str] = "round"
    accepts: ClassVar[Dtypes] = FLOATS

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.asarray(_ROUNDINGS[self.rounding_method](*args)),)


@final
@frozen
class IsFinite(Stepwise):
    name: ClassVar[str] = "is_finite"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = np.isfinite

    @override
    def result_dtype(self, dtype: DType) -> DType:
        return BOOL


SIGN: Final = Sign()
FLOOR: Final = Floor()
CEIL: Final = Ceil()
ROUND_AWAY_FROM_ZERO: Final = Round()
ROUND_TO_EVEN: Final = Round(RoundingMethod.TO_NEAREST_EVEN)
IS_FINITE: Final = IsFinite()

# The vocabulary.


def sign(ctx: Context[V], x: V) -> V:
    return ctx.bind(SIGN, x)[0]


def floor(ctx: Context[V], x: V) -> V:
    return ctx.bind(FLOOR, x)[0]


def ceil(ctx: Context[V], x: V) -> V:
    return ctx.bind(CEIL, x)[0]


def is_finite(ctx: Context[V], x: V) -> V:
    return ctx.bind(IS_FINITE, x)[0]
