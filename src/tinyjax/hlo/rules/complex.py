"""Lowering rules of functions of complex numbers, with C99's values at infinities, nan and zeros of either sign.

XLA's functions are right elsewhere. They forget the sign of a zero, though, which says on what side of a branch cut a
number lies; so they are asked in one quadrant, or one half of the plane, where that is no question, and the parts of
the result take their signs from those of the operand. What XLA makes nan of comes from functions of the parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tinyjax.hlo.context import SSA, LoweringContext, Rule
from tinyjax.hlo.rules.elementwise import join_parts, part
from tinyjax.hlo.text import type_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES, FLOAT64, INT32, INT64
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives.arithmetic import abs_, div, max_, reciprocal
from tinyjax.primitives.bitwise import logical_and, logical_not, logical_or
from tinyjax.primitives.comparison import eq, gt, lt, ne
from tinyjax.primitives.complex import complex_
from tinyjax.primitives.conversion import BitcastConvertType
from tinyjax.primitives.elementwise import add, mul, neg, scale, sub
from tinyjax.primitives.exponential import exp, log, sqrt
from tinyjax.primitives.rounding import is_finite
from tinyjax.primitives.selection import select
from tinyjax.primitives.structure import constant_like
from tinyjax.primitives.trigonometric import acos, asin, atanh, cos, cosh, sin, sinh, tanh

#: The real and the imaginary part of a complex number.
Parts: TypeAlias = tuple[SSA, SSA]
#: What XLA makes of a complex number.
ByXla: TypeAlias = Callable[[SSA, SSA], Parts]
#: A function of the parts of a complex number.
OfParts: TypeAlias = Callable[[LoweringContext, ByXla, SSA, SSA], Parts]


def either(real: Rule, function: OfParts) -> Rule:
    """The rule `real`; of complex operands the function of their parts, which is handed what `real` makes of them."""

    def rule(
        primitive: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        if args[0].aval.dtype not in COMPLEXES:
            return real(primitive, ctx, args, types)
        (z,), (out,) = args, types

        def by_xla(x: SSA, y: SSA) -> Parts:
            return _parts(ctx, real(primitive, ctx, (complex_(ctx, x, y),), types)[0])

        return (join_parts(ctx, *function(ctx, by_xla, *_parts(ctx, z)), out),)

    return rule


def _parts(ctx: LoweringContext, z: SSA) -> Parts:
    return part(ctx, "real", z), part(ctx, "imag", z)


def _apply(ctx: LoweringContext, primitive: Primitive, x: SSA, y: SSA) -> Parts:
    """The parts of what a primitive makes of x + yj, by its own rule."""
    return _parts(ctx, ctx.bind(primitive, complex_(ctx, x, y))[0])


# Tests and signs of parts.


def _equals(ctx: LoweringContext, x: SSA, value: float) -> SSA:
    return eq(ctx, x, constant_like(ctx, x, value))


def _infinite(ctx: LoweringContext, x: SSA) -> SSA:
    return _equals(ctx, abs_(ctx, x), math.inf)


def _nan(ctx: LoweringContext, x: SSA) -> SSA:
    return ne(ctx, x, x)


def _not_finite(ctx: LoweringContext, x: SSA) -> SSA:
    return logical_not(ctx, is_finite(ctx, x))


def _where(ctx: LoweringContext, condition: SSA, value: float, otherwise: SSA) -> SSA:
    """A constant where the condition holds."""
    return select(ctx, condition, constant_like(ctx, otherwise, value), otherwise)


def _negative(ctx: LoweringContext, x: SSA) -> SSA:
    """Whether the sign of x, which a zero has too, is minus."""
    (bits,) = ctx.bind(BitcastConvertType(INT64 if x.aval.dtype == FLOAT64 else INT32), x)
    return lt(ctx, bits, constant_like(ctx, bits, 0))


def _turned(ctx: LoweringContext, x: SSA, sign: SSA) -> SSA:
    """x, with the opposite sign where the sign of the other one is minus."""
    return select(ctx, _negative(ctx, sign), neg(ctx, x), x)


# Products and quotients. XLA has both, but takes z * 1 for z and (1 / z) / w for 1 / (z * w), which isn't so at
# infinities and poles. Of the floats that are their parts, it is.


def product(ctx: LoweringContext, x: SSA, y: SSA) -> SSA:
    """The product by the textbook."""
    (a, b), (c, d) = _parts(ctx, x), _parts(ctx, y)
    re = sub(ctx, mul(ctx, a, c), mul(ctx, b, d))
    return complex_(ctx, re, add(ctx, mul(ctx, a, d), mul(ctx, b, c)))


def square(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    """The real part is made of factors: a difference of squares loses digits, and overflows where these do."""
    opposite = logical_and(ctx, is_finite(ctx, x), eq(ctx, abs_(ctx, x), abs_(ctx, y)))
    product_of_sums = mul(ctx, sub(ctx, x, y), add(ctx, x, y))
    return select(ctx, opposite, _zeros(ctx, x), product_of_sums), scale(ctx, mul(ctx, x, y), 2)


def quotient(ctx: LoweringContext, x: SSA, y: SSA) -> SSA:
    """The quotient by Smith's method, as in NumPy, with C99's values where that makes nan: infinite of an infinite
    dividend or by zero, zero by an infinite divisor."""
    (a, b), (c, d) = _parts(ctx, x), _parts(ctx, y)
    steep = gt(ctx, abs_(ctx, d), abs_(ctx, c))
    large, small = select(ctx, steep, d, c), select(ctx, steep, c, d)
    ratio = div(ctx, small, large)
    divisor = add(ctx, large, mul(ctx, small, ratio))
    p, q = select(ctx, steep, b, a), select(ctx, steep, a, b)
    re = div(ctx, add(ctx, p, mul(ctx, q, ratio)), divisor)
    p, q = select(ctx, steep, neg(ctx, a), b), select(ctx, steep, b, neg(ctx, a))
    im = div(ctx, add(ctx, p, mul(ctx, q, ratio)), divisor)

    zero = logical_and(ctx, _equals(ctx, c, 0), _equals(ctx, d, 0))
    pole = _turned(ctx, constant_like(ctx, c, math.inf), c)
    re, im = (select(ctx, zero, mul(ctx, pole, v), found) for v, found in ((a, re), (b, im)))
    lost = logical_and(ctx, logical_not(ctx, zero), logical_and(ctx, _nan(ctx, re), _nan(ctx, im)))
    far, near = (logical_and(ctx, lost, _infinite_beside(ctx, v, w)) for v, w in (((a, b), (c, d)), ((c, d), (a, b))))
    a, b = (select(ctx, far, _corner(ctx, v), v) for v in (a, b))
    c, d = (select(ctx, near, _corner(ctx, v), v) for v in (c, d))
    factor = _where(ctx, far, math.inf, _zeros(ctx, re))
    at_end = add(ctx, mul(ctx, a, c), mul(ctx, b, d)), sub(ctx, mul(ctx, b, c), mul(ctx, a, d))
    end = logical_or(ctx, far, near)
    return complex_(
        ctx, *(select(ctx, end, mul(ctx, factor, v), found) for v, found in zip(at_end, (re, im), strict=True))
    )


def quotient_by_xla(ctx: LoweringContext, x: SSA, y: SSA) -> SSA:
    """The same by XLA, which mustn't see where its operands come from. On CPUs that is faster."""
    types = ", ".join([type_text(v.aval) for v in (x, y)])
    x, y = ctx.emit_many(f"stablehlo.optimization_barrier {x.name}, {y.name} : {types}", (x.aval, y.aval))
    return ctx.emit(f"stablehlo.divide {x.name}, {y.name} : {type_text(x.aval)}", x.aval)


def _infinite_beside(ctx: LoweringContext, z: Parts, w: Parts) -> SSA:
    """Whether z is infinite and w isn't, nor has it a nan."""
    finite = logical_and(ctx, *(is_finite(ctx, v) for v in w))
    return logical_and(ctx, finite, logical_or(ctx, *(_infinite(ctx, v) for v in z)))


def _corner(ctx: LoweringContext, x: SSA) -> SSA:
    """1 for infinity and 0 for anything else, with the sign of x."""
    return _turned(ctx, _where(ctx, _infinite(ctx, x), 1, _zeros(ctx, x)), x)


# Exponentials and logarithms.


def exponential(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    re, im = by_xla(x, y)
    return _at_the_ends(ctx, x, y, re, im, 0.0)


def exponential_minus_one(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    re, im = by_xla(x, y)
    return _at_the_ends(ctx, x, y, re, im, -1.0)


def _at_the_ends(ctx: LoweringContext, x: SSA, y: SSA, re: SSA, im: SSA, lowest: float) -> Parts:
    """Numbers on the real axis stay there; at infinities the angle may be unknown, and a zero hasn't any."""
    unknown = _not_finite(ctx, y)
    low, high = _equals(ctx, x, -math.inf), _equals(ctx, x, math.inf)
    re = _where(ctx, logical_and(ctx, unknown, high), math.inf, re)
    re = _where(ctx, low, lowest, re) if lowest else _where(ctx, logical_and(ctx, unknown, low), lowest, re)
    zero = select(ctx, lt(ctx, y, constant_like(ctx, y, 0)), *(constant_like(ctx, y, value) for value in (-0.0, 0.0)))
    im = select(ctx, logical_and(ctx, unknown, low), zero, im)
    return re, select(ctx, _equals(ctx, y, 0), y, im)


def exponential_base_two(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    return _apply(ctx, exp, *(scale(ctx, v, math.log(2)) for v in (x, y)))


def logarithm(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    re, im = by_xla(x, y)
    return _where(ctx, logical_or(ctx, _infinite(ctx, x), _infinite(ctx, y)), math.inf, re), im


def logarithm_of_one_plus(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    re, im = logarithm(ctx, by_xla, x, y)
    # XLA squares the imaginary part, which may be too small for that.
    return select(ctx, _equals(ctx, x, -1), log(ctx, abs_(ctx, y)), re), im


def logistic(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    w = exp(ctx, complex_(ctx, neg(ctx, x), neg(ctx, y)))
    return _parts(ctx, reciprocal(ctx, add(ctx, w, constant_like(ctx, w, 1))))


# Magnitudes, directions, roots and powers.


def magnitude(ctx: LoweringContext, length: SSA, z: SSA) -> SSA:
    """The length of z as XLA has it, infinite if a part is, whatever the other one."""
    x, y = _parts(ctx, z)
    return _where(ctx, logical_or(ctx, _infinite(ctx, x), _infinite(ctx, y)), math.inf, length)


def direction(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    """The number of magnitude 1 in this direction. Two infinite parts have none."""
    larger = max_(ctx, abs_(ctx, x), abs_(ctx, y))
    infinite, divisor = _equals(ctx, larger, math.inf), _where(ctx, _equals(ctx, larger, 0), 1, larger)
    one = constant_like(ctx, x, 1)

    def shorter(v: SSA) -> SSA:
        return select(ctx, infinite, _corner(ctx, v), div(ctx, v, divisor))

    p, q = shorter(x), shorter(y)
    both = logical_and(ctx, _infinite(ctx, x), _infinite(ctx, y))
    length = sqrt(ctx, add(ctx, mul(ctx, p, p), mul(ctx, q, q)))
    length = select(ctx, _equals(ctx, larger, 0), one, _where(ctx, both, math.nan, length))
    zero = _equals(ctx, larger, 0)
    return _where(ctx, zero, 0, div(ctx, p, length)), _where(ctx, zero, 0, div(ctx, q, length))


def _zeros(ctx: LoweringContext, like: SSA) -> SSA:
    return ctx.full(0.0, like.aval)


def square_root(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    up = abs_(ctx, y)
    re, im = by_xla(x, up)
    far = _equals(ctx, up, math.inf)
    re = _where(ctx, logical_or(ctx, far, _equals(ctx, x, math.inf)), math.inf, re)
    im = _where(ctx, logical_or(ctx, far, _equals(ctx, x, -math.inf)), math.inf, im)
    return re, _turned(ctx, im, y)


def reciprocal_root(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    return _parts(ctx, reciprocal(ctx, sqrt(ctx, complex_(ctx, x, y))))


def power(ctx: LoweringContext, z: SSA, w: SSA) -> SSA:
    """exp(w log(z)), as XLA computes it. Zero to a power with a positive real part is zero, anything to zero is one,
    and to one it is itself."""
    found = exp(ctx, mul(ctx, w, log(ctx, z)))
    zero, one, nan = (constant_like(ctx, z, value) for value in (0, 1, complex(math.nan, math.nan)))
    positive = gt(ctx, part(ctx, "real", w), constant_like(ctx, part(ctx, "real", w), 0))
    found = select(ctx, eq(ctx, z, zero), select(ctx, positive, zero, nan), found)
    found = select(ctx, eq(ctx, w, one), z, found)
    return select(ctx, eq(ctx, w, zero), one, found)


def angle(ctx: LoweringContext, y: SSA, x: SSA) -> SSA:
    """The analytic continuation of the angle of the point (x, y), which is -j log((x + yj) / sqrt(x² + y²))."""
    y_real, y_imag = _parts(ctx, y)
    direction = add(ctx, x, complex_(ctx, neg(ctx, y_imag), y_real))
    length = sqrt(ctx, add(ctx, mul(ctx, x, x), mul(ctx, y, y)))
    re, im = _parts(ctx, log(ctx, div(ctx, direction, length)))
    return complex_(ctx, im, neg(ctx, re))


# Circular and hyperbolic functions. Each circular one is a hyperbolic one of the operand with its parts exchanged.


def hyperbolic_sine(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    """sinh(x) cos(y) + cosh(x) sin(y) j."""
    sine, cosine, factor = _scaled(ctx, x)
    unknown = _not_finite(ctx, y)
    re = mul(ctx, mul(ctx, sine, cos(ctx, y)), factor)
    re = select(ctx, logical_and(ctx, unknown, _equals(ctx, x, 0)), x, re)
    re = _where(ctx, logical_and(ctx, unknown, _infinite(ctx, x)), math.inf, re)
    im = mul(ctx, mul(ctx, cosine, sin(ctx, y)), factor)
    return re, select(ctx, _equals(ctx, y, 0), y, im)


def hyperbolic_cosine(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    """cosh(x) cos(y) + sinh(x) sin(y) j."""
    sine, cosine, factor = _scaled(ctx, x)
    unknown = _not_finite(ctx, y)
    re = mul(ctx, mul(ctx, cosine, cos(ctx, y)), factor)
    re = _where(ctx, logical_and(ctx, unknown, _infinite(ctx, x)), math.inf, re)
    im = mul(ctx, mul(ctx, sine, sin(ctx, y)), factor)
    im = _where(ctx, logical_and(ctx, unknown, _equals(ctx, x, 0)), 0, im)
    axis = select(ctx, _nan(ctx, x), y, _turned(ctx, y, x))
    return re, select(ctx, _equals(ctx, y, 0), axis, im)


def _scaled(ctx: LoweringContext, x: SSA) -> tuple[SSA, SSA, SSA]:
    """sinh(x) and cosh(x), both divided by the third result: they may be too large where their product with a sine
    isn't."""
    far = abs_(ctx, x)
    large = gt(ctx, far, constant_like(ctx, x, 50))
    root = exp(ctx, scale(ctx, far, 0.5))
    half = scale(ctx, root, 0.5)
    sine = select(ctx, large, _turned(ctx, half, x), _sinh(ctx, x))
    cosine = select(ctx, large, half, cosh(ctx, x))
    return sine, cosine, select(ctx, large, root, constant_like(ctx, x, 1))


def _sinh(ctx: LoweringContext, x: SSA) -> SSA:
    """sinh of real numbers, which XLA makes zero of where they are small."""
    return select(ctx, _equals(ctx, x, 0), x, sinh(ctx, x))


def hyperbolic_tangent(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    right, up = abs_(ctx, x), abs_(ctx, y)
    re, im = by_xla(right, up)
    re = _where(ctx, _equals(ctx, x, 0), 0, re)
    # C99's zero at infinity has the sign of sin(2y), which turns with the angle; the array API's has that of y.
    im = _where(ctx, logical_and(ctx, _infinite(ctx, x), is_finite(ctx, y)), 0, im)
    return _turned(ctx, re, x), _turned(ctx, im, y)


def sine(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    return _exchanged(ctx, sinh, x, y)


def cosine(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    return _apply(ctx, cosh, neg(ctx, y), x)


def tangent(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    return _exchanged(ctx, tanh, x, y)


def _exchanged(ctx: LoweringContext, primitive: Primitive, x: SSA, y: SSA) -> Parts:
    re, im = _apply(ctx, primitive, y, x)
    return im, re


# Their inverses.


def inverse_sine(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    right, up = abs_(ctx, x), abs_(ctx, y)
    re, im = by_xla(right, up)
    re = _where(ctx, _equals(ctx, x, 0), 0, re)
    im = _height(ctx, right, up, im)
    return _turned(ctx, re, x), _turned(ctx, im, y)


def inverse_cosine(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    up = abs_(ctx, y)
    re, im = by_xla(x, up)
    re = _where(ctx, logical_and(ctx, _equals(ctx, x, 0), _nan(ctx, y)), math.pi / 2, re)
    im = neg(ctx, _height(ctx, abs_(ctx, x), up, neg(ctx, im)))
    return re, _turned(ctx, im, y)


def _height(ctx: LoweringContext, right: SSA, up: SSA, im: SSA) -> SSA:
    """The imaginary part of the inverse sine in the first quadrant: not known where that of the operand isn't, and its
    square root right above the branch point, where XLA loses it."""
    lost = logical_and(ctx, _nan(ctx, up), logical_not(ctx, _infinite(ctx, right)))
    near = logical_and(ctx, _equals(ctx, right, 1), lt(ctx, up, constant_like(ctx, up, 1e-12)))
    return select(ctx, near, sqrt(ctx, up), _where(ctx, lost, math.nan, im))


def inverse_hyperbolic_sine(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    return _exchanged(ctx, asin, x, y)


def inverse_hyperbolic_cosine(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    re, im = _apply(ctx, acos, x, y)
    return abs_(ctx, im), _turned(ctx, re, y)


def inverse_hyperbolic_tangent(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    right, up = abs_(ctx, x), abs_(ctx, y)
    re, im = by_xla(right, up)
    high = _equals(ctx, up, math.inf)
    re = _where(ctx, logical_or(ctx, high, _equals(ctx, x, 0)), 0, re)
    # XLA squares the distance from the pole, which may be too small for that.
    beside = logical_and(ctx, _equals(ctx, right, 1), lt(ctx, up, constant_like(ctx, up, 1e-12)))
    re = select(ctx, beside, scale(ctx, sub(ctx, constant_like(ctx, up, math.log(2)), log(ctx, up)), 0.5), re)
    unknown = logical_or(ctx, _nan(ctx, y), logical_and(ctx, _nan(ctx, x), logical_not(ctx, high)))
    return _turned(ctx, re, x), _turned(ctx, _where(ctx, unknown, math.nan, im), y)


def inverse_tangent(ctx: LoweringContext, by_xla: ByXla, x: SSA, y: SSA) -> Parts:
    return _exchanged(ctx, atanh, x, y)
