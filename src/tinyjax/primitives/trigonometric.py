"""Trigonometric and hyperbolic functions and their inverses."""

from __future__ import annotations

from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.context import Context
from tinyjax.primitives import complex_values
from tinyjax.primitives.accuracy import Accurate
from tinyjax.primitives.arithmetic import div, reciprocal, square
from tinyjax.primitives.elementwise import Binary, NumPyFunction, Smooth, Unary, add, mul, neg, scale, sub
from tinyjax.primitives.exponential import logistic, rsqrt
from tinyjax.primitives.structure import constant_like

V = TypeVar("V")


@final
@frozen
class Sin(Accurate, Unary):
    """The sine, of an angle in radians, real or complex."""

    name: ClassVar[str] = "sin"
    function: ClassVar[NumPyFunction] = np.sin

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return cos.within(self.accuracy)(ctx, x)


@final
@frozen
class Cos(Accurate, Unary):
    """The cosine, of an angle in radians, real or complex."""

    name: ClassVar[str] = "cos"
    function: ClassVar[NumPyFunction] = np.cos

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return neg(ctx, sin.within(self.accuracy)(ctx, x))


@final
@frozen
class Tan(Accurate, Unary):
    """The tangent, of an angle in radians, real or complex."""

    name: ClassVar[str] = "tan"
    function: ClassVar[NumPyFunction] = np.tan
    of_complex: ClassVar[NumPyFunction | None] = complex_values.tan

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return add(ctx, constant_like(ctx, y, 1), square(ctx, y))


@final
@frozen
class Asin(Unary):
    """The angle whose sine is x, from -π/2 to π/2; nan for real x outside of -1 to 1."""

    name: ClassVar[str] = "asin"
    function: ClassVar[NumPyFunction] = np.arcsin

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return rsqrt(ctx, sub(ctx, constant_like(ctx, x, 1), square(ctx, x)))


@final
@frozen
class Acos(Unary):
    """The angle whose cosine is x, from 0 to π; nan for real x outside of -1 to 1."""

    name: ClassVar[str] = "acos"
    function: ClassVar[NumPyFunction] = np.arccos

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return neg(ctx, rsqrt(ctx, sub(ctx, constant_like(ctx, x, 1), square(ctx, x))))


@final
@frozen
class Atan(Smooth):
    """The angle whose tangent is x, from -π/2 to π/2 for real x."""

    name: ClassVar[str] = "atan"
    function: ClassVar[NumPyFunction] = np.arctan

    @override
    def tangent(self, ctx: Context[V], t: V, x: V, y: V) -> V:
        return div(ctx, t, add(ctx, constant_like(ctx, x, 1), square(ctx, x)))


@final
@frozen
class Atan2(Binary):
    """The angle of the point with ordinate x and abscissa y, the operands in this order."""

    name: ClassVar[str] = "atan2"
    function: ClassVar[NumPyFunction] = np.arctan2
    of_complex: ClassVar[NumPyFunction | None] = complex_values.atan2

    @override
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, t, div(ctx, y, add(ctx, square(ctx, x), square(ctx, y))))

    @override
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, t, div(ctx, neg(ctx, x), add(ctx, square(ctx, x), square(ctx, y))))


@final
@frozen
class Sinh(Unary):
    """The hyperbolic sine, real or complex."""

    name: ClassVar[str] = "sinh"
    function: ClassVar[NumPyFunction] = np.sinh

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return cosh(ctx, x)


@final
@frozen
class Cosh(Unary):
    """The hyperbolic cosine, real or complex."""

    name: ClassVar[str] = "cosh"
    function: ClassVar[NumPyFunction] = np.cosh

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return sinh(ctx, x)


@final
@frozen
class Tanh(Accurate, Unary):
    """The hyperbolic tangent, real or complex."""

    name: ClassVar[str] = "tanh"
    function: ClassVar[NumPyFunction] = np.tanh
    of_complex: ClassVar[NumPyFunction | None] = complex_values.tanh

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        if self.highest:  # of exponentials, which don't cancel where y is near 1
            near, far = (logistic.within(self.accuracy)(ctx, scale(ctx, x, factor)) for factor in (2, -2))
            return scale(ctx, mul(ctx, near, far), 4)
        one = constant_like(ctx, y, 1)
        return mul(ctx, add(ctx, one, y), sub(ctx, one, y))


@final
@frozen
class Asinh(Unary):
    """The number whose hyperbolic sine is x."""

    name: ClassVar[str] = "asinh"
    function: ClassVar[NumPyFunction] = np.arcsinh

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return rsqrt(ctx, add(ctx, square(ctx, x), constant_like(ctx, x, 1)))


@final
@frozen
class Acosh(Unary):
    """The number whose hyperbolic cosine is x; nan for real x below 1."""

    name: ClassVar[str] = "acosh"
    function: ClassVar[NumPyFunction] = np.arccosh

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        # One root for each branch point: the root of the product has another sign on the left half-plane.
        one = constant_like(ctx, x, 1)
        return mul(ctx, rsqrt(ctx, sub(ctx, x, one)), rsqrt(ctx, add(ctx, x, one)))


@final
@frozen
class Atanh(Smooth):
    """The number whose hyperbolic tangent is x; nan for real x outside of -1 to 1."""

    name: ClassVar[str] = "atanh"
    function: ClassVar[NumPyFunction] = np.arctanh

    @override
    def tangent(self, ctx: Context[V], t: V, x: V, y: V) -> V:
        one = constant_like(ctx, x, 1)
        return mul(ctx, reciprocal(ctx, add(ctx, one, x)), div(ctx, t, sub(ctx, one, x)))


# The vocabulary.

sin: Final = Sin()
cos: Final = Cos()
tan: Final = Tan()
asin: Final = Asin()
acos: Final = Acos()
atan: Final = Atan()
atan2: Final = Atan2()
sinh: Final = Sinh()
cosh: Final = Cosh()
tanh: Final = Tanh()
asinh: Final = Asinh()
acosh: Final = Acosh()
atanh: Final = Atanh()
