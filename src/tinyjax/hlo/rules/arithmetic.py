"""Lowering rules of arithmetic, powers, exponentials and trigonometry. Most are one line of a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from tinyjax.hlo.context import SSA, LoweringContext, Rule
from tinyjax.hlo.rules import complex as of_complex
from tinyjax.hlo.rules.complex import either
from tinyjax.hlo.rules.elementwise import (
    MAXIMUM,
    MINIMUM,
    convert,
    operands,
    part,
    plain,
    same_type,
    typed,
)
from tinyjax.hlo.tables import CPU_RULES, RULES
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES, INTEGERS, UNSIGNED
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives import arithmetic, elementwise, exponential, rounding, trigonometric
from tinyjax.primitives.accuracy import AccuracyMode, Accurate
from tinyjax.primitives.arithmetic import reciprocal
from tinyjax.primitives.elementwise import mul, scale

_ROUNDINGS: Final = {
    rounding.RoundingMethod.AWAY_FROM_ZERO: "stablehlo.round_nearest_afz",
    rounding.RoundingMethod.TO_NEAREST_EVEN: "stablehlo.round_nearest_even",
}


@RULES.register(rounding.Round)
def _round(
    primitive: rounding.Round, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    return (same_type(ctx, _ROUNDINGS[primitive.rounding_method], args, types[0]),)


def _real_sign(_: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    (x,), (out,) = args, types
    if out.dtype in UNSIGNED:
        return (same_type(ctx, "stablehlo.minimum", (x, ctx.scalar(1, out.dtype)), out),)
    return (same_type(ctx, "stablehlo.sign", (x,), out),)


@RULES.register(arithmetic.Abs)
def _abs(_: arithmetic.Abs, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    (x,), (out,) = args, types
    if x.aval.dtype in COMPLEXES:
        return (of_complex.magnitude(ctx, part(ctx, "abs", x), x),)
    return (same_type(ctx, "stablehlo.abs", (x,), out),)


def computed(function: Callable[[LoweringContext, SSA], SSA]) -> Rule:
    """The rule of a primitive of one operand that others of ours compute."""
    return lambda _, ctx, args, types: (function(ctx, *args),)


@RULES.register(arithmetic.IntegerPow)
def _integer_pow(
    primitive: arithmetic.IntegerPow, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """By repeated squaring."""
    (power,), (out,), n = args, types, abs(primitive.y)
    result: SSA | None = None
    while n:
        if n & 1:
            result = power if result is None else mul(ctx, result, power)
        n >>= 1
        if n:
            power = mul(ctx, power, power)
    if result is None:
        return (ctx.full(1, out),)
    return (reciprocal(ctx, result) if primitive.y < 0 else result,)


@RULES.register(exponential.Pow)
def _pow(_: exponential.Pow, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    (x, y), (out,) = args, types
    y = convert(ctx, y, array_type(y.aval.shape, out.dtype))
    if out.dtype in COMPLEXES:
        return (of_complex.power(ctx, x, y),)
    return (same_type(ctx, "stablehlo.power", (x, y), out),)


def _real_exp2(
    primitive: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """As a power of two. The exponential of a multiple loses as many digits as the operand has before the point; but of
    powers XLA isn't told how exact they have to be, so that it is taken, as by JAX, where that was said."""
    (x,), (out,) = args, types
    if isinstance(primitive, Accurate) and primitive.accuracy not in (None, AccuracyMode.DEFAULT):
        return (same_type(ctx, "stablehlo.exponential", (scale(ctx, x, math.log(2)),), out, primitive.accuracy),)
    return (same_type(ctx, "stablehlo.power", (ctx.scalar(2, out.dtype), x), out),)


def _of_two(op: str, function: Callable[[LoweringContext, SSA, SSA], SSA]) -> Rule:
    """The rule of a primitive with two operands that is one operation, and of complex numbers this function."""

    def rule(_: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
        (out,) = types
        if out.dtype not in COMPLEXES:
            return (same_type(ctx, op, args, out),)
        return (function(ctx, *(SSA(name, out) for name in operands(ctx, args, out))),)

    return rule


_BITS: Final = typed("stablehlo.bitcast_convert")


def _guarded(rule: Rule) -> Rule:
    """The rule of a division, where integers are divided by what isn't known.

    XLA has a result for zeros. But what simplifies StableHLO before XLA reads it divides constants, too, and there zero
    ends the process. It doesn't look through a conversion of bits, and XLA drops one to the same type.
    """

    def guarded(
        primitive: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        (x, y), (out,) = args, types
        known = ctx.known(y)
        if out.dtype in INTEGERS and (known is None or known.value == 0):
            (y,) = _BITS(primitive, ctx, (y,), (y.aval,))
        return rule(primitive, ctx, (x, y), types)

    return guarded


RULES[elementwise.Mul] = _of_two("stablehlo.multiply", of_complex.product)
RULES[arithmetic.Div] = _guarded(_of_two("stablehlo.divide", of_complex.quotient))
CPU_RULES[arithmetic.Div] = _guarded(_of_two("stablehlo.divide", of_complex.quotient_by_xla))


@RULES.register(trigonometric.Atan2)
def _atan2(
    _: trigonometric.Atan2, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (y, x), (out,) = args, types
    return (of_complex.angle(ctx, y, x) if out.dtype in COMPLEXES else same_type(ctx, "stablehlo.atan2", args, out),)


RULES[arithmetic.Square] = either(computed(lambda ctx, x: mul(ctx, x, x)), of_complex.square)
RULES[arithmetic.Rem] = _guarded(plain("stablehlo.remainder"))
RULES[arithmetic.Max] = MAXIMUM
RULES[arithmetic.Min] = MINIMUM
RULES[arithmetic.NextAfter] = typed("chlo.next_after")

RULES[exponential.Exp] = either(plain("stablehlo.exponential"), of_complex.exponential)
RULES[exponential.Expm1] = either(plain("stablehlo.exponential_minus_one"), of_complex.exponential_minus_one)
RULES[exponential.Log] = either(plain("stablehlo.log"), of_complex.logarithm)
RULES[exponential.Log1p] = either(plain("stablehlo.log_plus_one"), of_complex.logarithm_of_one_plus)
RULES[exponential.Logistic] = either(
    computed(lambda ctx, x: same_type(ctx, "stablehlo.logistic", (x,), x.aval)),  # as exact as it is, as in JAX
    of_complex.logistic,
)
RULES[exponential.Sqrt] = either(plain("stablehlo.sqrt"), of_complex.square_root)
RULES[exponential.Rsqrt] = either(plain("stablehlo.rsqrt"), of_complex.reciprocal_root)
RULES[exponential.Cbrt] = plain("stablehlo.cbrt")

RULES[exponential.Exp2] = either(_real_exp2, of_complex.exponential_base_two)
RULES[rounding.Sign] = either(_real_sign, of_complex.direction)
RULES[rounding.Floor] = plain("stablehlo.floor")
RULES[rounding.Ceil] = plain("stablehlo.ceil")
RULES[rounding.IsFinite] = typed("stablehlo.is_finite")

RULES[trigonometric.Sin] = either(plain("stablehlo.sine"), of_complex.sine)
RULES[trigonometric.Cos] = either(plain("stablehlo.cosine"), of_complex.cosine)
RULES[trigonometric.Tan] = either(plain("stablehlo.tan"), of_complex.tangent)
RULES[trigonometric.Asin] = either(typed("chlo.asin"), of_complex.inverse_sine)
RULES[trigonometric.Acos] = either(typed("chlo.acos"), of_complex.inverse_cosine)
RULES[trigonometric.Atan] = either(typed("chlo.atan"), of_complex.inverse_tangent)
RULES[trigonometric.Sinh] = either(typed("chlo.sinh"), of_complex.hyperbolic_sine)
RULES[trigonometric.Cosh] = either(typed("chlo.cosh"), of_complex.hyperbolic_cosine)
RULES[trigonometric.Tanh] = either(plain("stablehlo.tanh"), of_complex.hyperbolic_tangent)
RULES[trigonometric.Asinh] = either(typed("chlo.asinh"), of_complex.inverse_hyperbolic_sine)
RULES[trigonometric.Acosh] = either(typed("chlo.acosh"), of_complex.inverse_hyperbolic_cosine)
RULES[trigonometric.Atanh] = either(typed("chlo.atanh"), of_complex.inverse_hyperbolic_tangent)
