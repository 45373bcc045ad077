"""Comparisons. Their results are bool, so they have no derivative."""

from __future__ import annotations

from typing import ClassVar, Final, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.dtypes import BOOL, COMPLEXES, KEYS, MOVABLE, SUPPORTED, DType, HostArray, numbers_of
from tinyjax.primitives.elementwise import Dtypes, NumPyFunction, Stepwise, TwoOperands

ORDERED: Final = SUPPORTED - COMPLEXES


@frozen
class Comparison(Stepwise, TwoOperands):
    """Compares two operands of one dtype."""

    accepts: ClassVar[Dtypes] = ORDERED

    @override
    def function_of(self, dtype: DType) -> NumPyFunction:
        return self._of_keys if dtype in KEYS else type(self).function

    def _of_keys(self, *keys: HostArray) -> HostArray | np.generic:
        x, y = map(numbers_of, keys)
        return type(self).function((x != y).any(-1), np.False_)

    @override
    def result_dtype(self, dtype: DType) -> DType:
        return BOOL


@final
@frozen
class Eq(Comparison):
    """x == y. nan equals nothing, and -0.0 equals 0.0; complex numbers have both parts compared."""

    name: ClassVar[str] = "eq"
    accepts: ClassVar[Dtypes] = MOVABLE
    function: ClassVar[NumPyFunction] = np.equal


@final
@frozen
class Ne(Comparison):
    """x != y. nan differs from everything, itself included."""

    name: ClassVar[str] = "ne"
    accepts: ClassVar[Dtypes] = MOVABLE
    function: ClassVar[NumPyFunction] = np.not_equal


@final
@frozen
class Lt(Comparison):
    """x < y, of operands that have an order; False where either is nan."""

    name: ClassVar[str] = "lt"
    function: ClassVar[NumPyFunction] = np.less


@final
@frozen
class Le(Comparison):
    """x <= y, of operands that have an order; False where either is nan."""

    name: ClassVar[str] = "le"
    function: ClassVar[NumPyFunction] = np.less_equal


@final
@frozen
class Gt(Comparison):
    """x > y, of operands that have an order; False where either is nan."""

    name: ClassVar[str] = "gt"
    function: ClassVar[NumPyFunction] = np.greater


@final
@frozen
class Ge(Comparison):
    """x >= y, of operands that have an order; False where either is nan."""

    name: ClassVar[str] = "ge"
    function: ClassVar[NumPyFunction] = np.greater_equal


# The vocabulary.

eq: Final = Eq()
ne: Final = Ne()
lt: Final = Lt()
le: Final = Le()
gt: Final = Gt()
ge: Final = Ge()
