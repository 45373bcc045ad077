"""Lowering rules of arithmetic and of the special functions. Most are one line of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.elementwise import (
    MAXIMUM,
    MINIMUM,
    convert,
    part,
    plain,
    same_type,
    typed,
)
from tinyjax.hlo.tables import RULES
from tinyjax.ir.aval import ShapedArray, array_type
from tinyjax.ir.dtypes import COMPLEXES, UNSIGNED
from tinyjax.primitives import arithmetic, exponential, rounding, special, trigonometric
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


@RULES.register(rounding.Sign)
def _sign(_: rounding.Sign, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    (x,), (out,) = args, types
    if out.dtype in UNSIGNED:
        return (same_type(ctx, "stablehlo.minimum", (x, ctx.scalar(1, out.dtype)), out),)
    return (same_type(ctx, "stablehlo.sign", (x,), out),)


@RULES.register(arithmetic.Abs)
def _abs(_: arithmetic.Abs, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    (x,), (out,) = args, types
    return (part(ctx, "abs", x) if x.aval.dtype in COMPLEXES else same_type(ctx, "stablehlo.abs", (x,), out),)


@RULES.register(arithmetic.Square)
def _square(
    _: arithmetic.Square, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    return (same_type(ctx, "stablehlo.multiply", (args[0], args[0]), types[0]),)


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
    return (same_type(ctx, "stablehlo.power", (x, y), out),)


@RULES.register(exponential.Exp2)
def _exp2(
    _: exponential.Exp2, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    scaled = scale(ctx, args[0], math.log(2))
    return (same_type(ctx, "stablehlo.exponential", (scaled,), types[0]),)


RULES[arithmetic.Div] = plain("stablehlo.divide")
RULES[arithmetic.Rem] = plain("stablehlo.remainder")
RULES[arithmetic.Max] = MAXIMUM
RULES[arithmetic.Min] = MINIMUM
RULES[arithmetic.NextAfter] = typed("chlo.next_after")

RULES[exponential.Exp] = plain("stablehlo.exponential")
RULES[exponential.Expm1] = plain("stablehlo.exponential_minus_one")
RULES[exponential.Log] = plain("stablehlo.log")
RULES[exponential.Log1p] = plain("stablehlo.log_plus_one")
RULES[exponential.Logistic] = plain("stablehlo.logistic")
RULES[exponential.Sqrt] = plain("stablehlo.sqrt")
RULES[exponential.Rsqrt] = plain("stablehlo.rsqrt")
RULES[exponential.Cbrt] = plain("stablehlo.cbrt")

RULES[rounding.Floor] = plain("stablehlo.floor")
RULES[rounding.Ceil] = plain("stablehlo.ceil")
RULES[rounding.IsFinite] = typed("stablehlo.is_finite")

RULES[trigonometric.Sin] = plain("stablehlo.sine")
RULES[trigonometric.Cos] = plain("stablehlo.cosine")
RULES[trigonometric.Tan] = plain("stablehlo.tan")
RULES[trigonometric.Asin] = typed("chlo.asin")
RULES[trigonometric.Acos] = typed("chlo.acos")
RULES[trigonometric.Atan] = typed("chlo.atan")
RULES[trigonometric.Atan2] = plain("stablehlo.atan2")
RULES[trigonometric.Sinh] = typed("chlo.sinh")
RULES[trigonometric.Cosh] = typed("chlo.cosh")
RULES[trigonometric.Tanh] = plain("stablehlo.tanh")
RULES[trigonometric.Asinh] = typed("chlo.asinh")
RULES[trigonometric.Acosh] = typed("chlo.acosh")
RULES[trigonometric.Atanh] = typed("chlo.atanh")

RULES[special.Erf] = typed("chlo.erf")
RULES[special.Erfc] = typed("chlo.erfc")
RULES[special.ErfInv] = typed("chlo.erf_inv")
RULES[special.Lgamma] = typed("chlo.lgamma")
RULES[special.Digamma] = typed("chlo.digamma")
RULES[special.Polygamma] = typed("chlo.polygamma")
