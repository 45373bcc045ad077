"""Comparisons. Their results are bool, so they have no derivative."""

from __future__ import annotations

from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import BOOL, COMPLEXES, SUPPORTED, DType
from tinyjax.primitives.elementwise import Dtypes, NumPyFunction, Stepwise

V = TypeVar("V")
ORDERED: Final = SUPPORTED - COMPLEXES


@frozen
class Comparison(Stepwise):
    """Compares two operands of one dtype."""

    accepts: ClassVar[Dtypes] = ORDERED
    arity: ClassVar[int] = 2

    @override
    def result_dtype(self, dtype: DType) -> DType:
        return BOOL


@final
@frozen
class Eq(Comparison):
    name: ClassVar[str] = "eq"
    accepts: ClassVar[Dtypes] = SUPPORTED
    function: ClassVar[NumPyFunction] = np.equal


@final
@frozen
class Ne(Comparison):
    name: ClassVar[str] = "ne"
    accepts: ClassVar[Dtypes] = SUPPORTED
    function: ClassVar[NumPyFunction] = np.not_equal


@final
@frozen
class Lt(Comparison):
    name: ClassVar[str] = "lt"
    function: ClassVar[NumPyFunction] = np.less


@final
@frozen
class Le(Comparison):
    name: ClassVar[str] = "le"
    function: ClassVar[NumPyFunction] = np.less_equal


@final
@frozen
class Gt(Comparison):
    name: ClassVar[str] = "gt"
    function: ClassVar[NumPyFunction] = np.greater


@final
@frozen
class Ge(Comparison):
    name: ClassVar[str] = "ge"
    function: ClassVar[NumPyFunction] = np.greater_equal


EQ: Final = Eq()
NE: Final = Ne()
LT: Final = Lt()
LE: Final = Le()
GT: Final = Gt()
GE: Final = Ge()

# The vocabulary.


def eq(ctx: Context[V], x: V, y: V) -> V:
    return ctx.bind(EQ, x, y)[0]


def ne(ctx: Context[V], x: V, y: V) -> V:
    return ctx.bind(NE, x, y)[0]


def lt(ctx: Context[V], x: V, y: V) -> V:
    return ctx.bind(LT, x, y)[0]


def le(ctx: Context[V], x: V, y: V) -> V:
    return ctx.bind(LE, x, y)[0]


def gt(ctx: Context[V], x: V, y: V) -> V:
    return ctx.bind(GT, x, y)[0]


def ge(ctx: Context[V], x: V, y: V) -> V:
    return ctx.bind(GE, x, y)[0]
