"""Exponentials, logarithms, roots and powers."""

from __future__ import annotations

import math
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import FLOATS, INTEGERS
from tinyjax.primitives import complex_values, numpy_values
from tinyjax.primitives.accuracy import Accurate
from tinyjax.primitives.arithmetic import div, integer_pow, replace_zero
from tinyjax.primitives.comparison import eq
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import (
    Binary,
    Dtypes,
    NumPyFunction,
    Smooth,
    Unary,
    add,
    check_dtype,
    elementwise_type,
    mul,
    neg,
    scale,
    sub,
)
from tinyjax.primitives.selection import select
from tinyjax.primitives.structure import check_arity, constant_like

V = TypeVar("V")


@final
@frozen
class Exp(Accurate, Unary):
    """e to the power of x, of a floating or complex number."""

    name: ClassVar[str] = "exp"
    function: ClassVar[NumPyFunction] = np.exp

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return y


@final
@frozen
class Exp2(Accurate, Unary):
    """2 to the power of the operand."""

    name: ClassVar[str] = "exp2"
    function: ClassVar[NumPyFunction] = np.exp2
    of_complex: ClassVar[NumPyFunction | None] = complex_values.exp2

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return scale(ctx, y, math.log(2))


@final
@frozen
class Expm1(Accurate, Unary):
    """exp(x) - 1, exact near zero."""

    name: ClassVar[str] = "expm1"
    function: ClassVar[NumPyFunction] = np.expm1
    of_complex: ClassVar[NumPyFunction | None] = complex_values.expm1

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        if self.highest:
            return exp.within(self.accuracy)(ctx, x)
        return add(ctx, y, constant_like(ctx, y, 1))


@final
@frozen
class Log(Accurate, Smooth):
    """The natural logarithm."""

    name: ClassVar[str] = "log"
    function: ClassVar[NumPyFunction] = np.log

    @override
    def tangent(self, ctx: Context[V], t: V, x: V, y: V) -> V:
        return div(ctx, t, x)


@final
@frozen
class Log1p(Accurate, Smooth):
    """log(1 + x), exact near zero."""

    name: ClassVar[str] = "log1p"
    function: ClassVar[NumPyFunction] = np.log1p
    of_complex: ClassVar[NumPyFunction | None] = complex_values.log1p

    @override
    def tangent(self, ctx: Context[V], t: V, x: V, y: V) -> V:
        return div(ctx, t, add(ctx, x, constant_like(ctx, x, 1)))


@final
@frozen
class Logistic(Accurate, Unary):
    """1 / (1 + exp(-x))."""

    name: ClassVar[str] = "logistic"
    function: ClassVar[NumPyFunction] = numpy_values.widened(numpy_values.logistic)
    of_complex: ClassVar[NumPyFunction | None] = complex_values.logistic

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        # 1 - y, exact where y is near 1
        rest = logistic(ctx, neg(ctx, x)) if self.highest else sub(ctx, constant_like(ctx, y, 1), y)
        return mul(ctx, y, rest)


@final
@frozen
class Sqrt(Accurate, Unary):
    """The square root of a floating or complex number: nan for negative ones, the principal one for complex."""

    name: ClassVar[str] = "sqrt"
    function: ClassVar[NumPyFunction] = np.sqrt

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return div(ctx, constant_like(ctx, x, 0.5), y)


@final
@frozen
class Rsqrt(Accurate, Unary):
    """1 / sqrt(x)."""

    name: ClassVar[str] = "rsqrt"
    function: ClassVar[NumPyFunction] = numpy_values.widened(numpy_values.rsqrt)
    of_complex: ClassVar[NumPyFunction | None] = complex_values.rsqrt

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return scale(ctx, div(ctx, y, x), -0.5)


@final
@frozen
class Cbrt(Accurate, Unary):
    """The real cube root."""

    name: ClassVar[str] = "cbrt"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = np.cbrt

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return scale(ctx, integer_pow(ctx, y, -2), 1 / 3)


@final
@frozen
class Pow(Binary):
    """x to the power of y, where y has x's dtype or is an integer."""

    name: ClassVar[str] = "pow"
    function: ClassVar[NumPyFunction] = numpy_values.power
    of_complex: ClassVar[NumPyFunction | None] = numpy_values.complex_power

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 2)
        x, y = avals
        check_dtype(self.name, x.dtype, self.accepts)
        if y.dtype != x.dtype and y.dtype not in INTEGERS:
            raise TypingError(f"the exponent of {self.name} must be an integer or have the dtype of {x}, got {y}")
        return (elementwise_type(self.name, avals, x.dtype),)

    @override
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        exponent = ctx.aval(y)
        if exponent.dtype not in INTEGERS:
            return mul(ctx, t, mul(ctx, y, pow_(ctx, x, sub(ctx, y, constant_like(ctx, y, 1)))))
        y = convert(ctx, y, ctx.aval(x).dtype, exponent.weak_type)
        zero, one = constant_like(ctx, y, 0), constant_like(ctx, y, 1)
        slope = mul(ctx, replace_zero(ctx, y), pow_(ctx, x, sub(ctx, y, one)))
        return mul(ctx, t, select(ctx, eq(ctx, y, zero), zero, slope))

    @override
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, t, mul(ctx, log(ctx, replace_zero(ctx, x)), out))


# The vocabulary.

exp: Final = Exp()
exp2: Final = Exp2()
expm1: Final = Expm1()
log: Final = Log()
log1p: Final = Log1p()
logistic: Final = Logistic()
sqrt: Final = Sqrt()
rsqrt: Final = Rsqrt()
cbrt: Final = Cbrt()
pow_: Final = Pow()
