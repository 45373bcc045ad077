"""Quotients, remainders, magnitudes, extremes and whole powers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import LinearityError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import (
    COMPLEXES,
    FLOATS,
    INEXACT,
    INTEGERS,
    NUMERIC,
    SIGNED,
    SUPPORTED,
    DType,
    HostArray,
    real_dtype,
    short_name,
)
from tinyjax.ir.primitive import UndefPrimal, Zero
from tinyjax.ir.result_types import made_once
from tinyjax.primitives import complex_values, kernels, numpy_values
from tinyjax.primitives.comparison import eq, ge
from tinyjax.primitives.complex import imag, real
from tinyjax.primitives.elementwise import (
    Binary,
    Dtypes,
    NumPyFunction,
    Smooth,
    TwoOperands,
    Unary,
    add,
    mul,
    neg,
    scale,
)
from tinyjax.primitives.rounding import floor, sign
from tinyjax.primitives.selection import select
from tinyjax.primitives.structure import constant_like, unbroadcast

V = TypeVar("V")


@final
@frozen
class Div(Binary):
    """The quotient. Integers are rounded towards zero; divided by zero they have all bits set."""

    name: ClassVar[str] = "div"
    accepts: ClassVar[Dtypes] = NUMERIC
    function: ClassVar[NumPyFunction] = numpy_values.divide
    of_complex: ClassVar[NumPyFunction | None] = complex_values.divide

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((0,),)

    @override
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return div(ctx, t, y)

    @override
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, mul(ctx, neg(ctx, t), x), integer_pow(ctx, y, -2))

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x, y) = cotangents, args
        if isinstance(y, UndefPrimal):
            raise LinearityError("div is linear in the dividend, but not in the divisor")
        if isinstance(ct, Zero) or not isinstance(x, UndefPrimal):
            return [None, None]
        return [unbroadcast(ctx, div(ctx, ct, y), x.aval.shape), None]


@final
@frozen
class Rem(Binary):
    """The remainder, with the sign of the dividend. An integer divided by zero is its own remainder."""

    name: ClassVar[str] = "rem"
    accepts: ClassVar[Dtypes] = INTEGERS | FLOATS
    function: ClassVar[NumPyFunction] = numpy_values.remainder

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return kernels.remainder(avals[0])

    @override
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return t

    @override
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        quotient = div(ctx, x, y)
        return mul(ctx, neg(ctx, t), mul(ctx, sign(ctx, quotient), floor(ctx, abs_(ctx, quotient))))


@frozen
class Extreme(Binary):
    """One of the operands. Where they are equal, each gets half of the derivative."""

    accepts: ClassVar[Dtypes] = SUPPORTED

    @override
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, t, _share(ctx, x, y, out))

    @override
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, t, _share(ctx, y, x, out))


def _share(ctx: Context[V], x: V, other: V, out: V) -> V:
    zero, half, one = (constant_like(ctx, out, value) for value in (0, 0.5, 1))
    return select(ctx, eq(ctx, x, out), select(ctx, eq(ctx, other, out), half, one), zero)


@final
@frozen
class Max(Extreme):
    """The larger operand, or nan if one is; 0.0 is larger than -0.0. Complex numbers are ordered by real part first."""

    name: ClassVar[str] = "max"
    function: ClassVar[NumPyFunction] = np.maximum
    of_floats: ClassVar[NumPyFunction | None] = numpy_values.maximum
    of_complex: ClassVar[NumPyFunction | None] = complex_values.maximum


@final
@frozen
class Min(Extreme):
    """The smaller operand, or nan if one is; -0.0 is below 0.0. Complex numbers are ordered by real part first."""

    name: ClassVar[str] = "min"
    function: ClassVar[NumPyFunction] = np.minimum
    of_floats: ClassVar[NumPyFunction | None] = numpy_values.minimum
    of_complex: ClassVar[NumPyFunction | None] = complex_values.minimum


@final
@frozen
class NextAfter(TwoOperands):
    """The float next to the first operand in the direction of the second."""

    name: ClassVar[str] = "nextafter"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = numpy_values.next_after


@final
@frozen
class Abs(Smooth):
    """The magnitude, which is real. At zero the derivative of real operands is 1, as in JAX, and of complex ones 0."""

    name: ClassVar[str] = "abs"
    accepts: ClassVar[Dtypes] = SIGNED | INEXACT
    function: ClassVar[NumPyFunction] = np.absolute

    @override
    def result_dtype(self, dtype: DType) -> DType:
        return real_dtype(dtype)

    @override
    def tangent(self, ctx: Context[V], t: V, x: V, y: V) -> V:
        dtype = ctx.aval(x).dtype
        if dtype not in COMPLEXES:
            return select(ctx, ge(ctx, x, constant_like(ctx, x, 0)), t, neg(ctx, t))
        # By parts: a quotient and a product of complex numbers would be written out, for one part each that is 0.
        size = replace_zero(ctx, y)
        return add(ctx, *[mul(ctx, part(ctx, t), div(ctx, part(ctx, x), size)) for part in (real, imag)])


@final
@frozen
class Square(Unary):
    """x times x, of numbers of any kind."""

    name: ClassVar[str] = "square"
    accepts: ClassVar[Dtypes] = NUMERIC
    function: ClassVar[NumPyFunction] = np.square
    of_complex: ClassVar[NumPyFunction | None] = complex_values.square

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return scale(ctx, x, 2)


@final
@frozen
class IntegerPow(Smooth):
    """The operand to a power that is known and whole; for integers not a negative one."""

    y: int
    name: ClassVar[str] = "integer_pow"
    accepts: ClassVar[Dtypes] = NUMERIC

    @override
    def result_dtype(self, dtype: DType) -> DType:
        if self.y < 0 and dtype in INTEGERS:
            raise TypingError(
                f"{self.name} can't raise integers ({short_name(dtype)}) to the negative power {self.y}; "
                "convert them to floats first"
            )
        return dtype

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        (x,) = args
        return (numpy_values.integer_power(x, self.y, complex_values.divide if x.dtype in COMPLEXES else np.divide),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return kernels.integer_power(self.y, avals[0]) or super().host_function(*avals)

    @override
    def tangent(self, ctx: Context[V], t: V, x: V, y: V) -> V | Zero:
        if self.y == 0:
            return Zero(ctx.aval(y).tangent)
        if self.y == 1:
            return t
        power = x if self.y == 2 else integer_pow(ctx, x, self.y - 1)
        return mul(ctx, t, scale(ctx, power, self.y))


# The vocabulary.

div: Final = Div()
rem: Final = Rem()
max_: Final = Max()
min_: Final = Min()
nextafter: Final = NextAfter()
abs_: Final = Abs()
square: Final = Square()


def reciprocal(ctx: Context[V], x: V) -> V:
    """1 / x, of a floating or complex number."""
    return div(ctx, constant_like(ctx, x, 1), x)


def integer_pow(ctx: Context[V], x: V, y: int) -> V:
    """x to the power of an integer that is known."""
    return ctx.bind(made_once(IntegerPow, y), x)[0]


def replace_zero(ctx: Context[V], x: V) -> V:
    """x, with 1 in the place of 0."""
    return select(ctx, eq(ctx, x, constant_like(ctx, x, 0)), constant_like(ctx, x, 1), x)
