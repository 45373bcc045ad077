"""Rules for power series: how the coefficients of a result follow from those of the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tinyjax.interpreters.base import RuleContext, register_all
from tinyjax.interpreters.hidden import Hidden
from tinyjax.interpreters.jet import JET_RULES, Mask, Series
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives.annotations import Name
from tinyjax.primitives.arithmetic import Div, IntegerPow, Square, div
from tinyjax.primitives.contractions import Bilinear
from tinyjax.primitives.conversion import ConvertElementType
from tinyjax.primitives.cumulative import CumSum
from tinyjax.primitives.elementwise import Add, LinearUnary, Mul, Stepwise, Sub, add, mul, neg, scale, sub
from tinyjax.primitives.exponential import Exp, Log, Logistic, Pow, Sqrt, exp, log
from tinyjax.primitives.reduce_window import WindowChoice
from tinyjax.primitives.selection import SelectN
from tinyjax.primitives.slicing import Concatenate, Pad
from tinyjax.primitives.stacking import Stack
from tinyjax.primitives.structure import Linear, ReduceSum, constant_like, full
from tinyjax.primitives.trigonometric import Cos, Cosh, Sin, Sinh, Tanh, cos, cosh, sin, sinh
from tinyjax.primitives.window_choices import SelectAndGatherAdd, SelectAndScatterAdd

Parent: TypeAlias = Context[Hidden]
Jet: TypeAlias = RuleContext[Series, Mask]
Coefficient: TypeAlias = Hidden | None
Product: TypeAlias = Callable[[Hidden, Hidden], Hidden]

# Coefficients that may be zero.


def plus(p: Parent, x: Coefficient, y: Coefficient) -> Coefficient:
    return y if x is None else x if y is None else add(p, x, y)


def minus(p: Parent, x: Coefficient, y: Coefficient) -> Coefficient:
    if x is None:
        return None if y is None else neg(p, y)
    return x if y is None else sub(p, x, y)


def times(p: Parent, x: Coefficient, factor: float) -> Coefficient:
    return x if x is None or factor == 1 else scale(p, x, factor)


def over(p: Parent, x: Coefficient, y: Hidden) -> Coefficient:
    return None if x is None else div(p, x, y)


def convolve(p: Parent, xs: Sequence[Coefficient], ys: Sequence[Coefficient], product: Product) -> Coefficient:
    """The sum of the products of each x with the y as far from the end."""
    total: Coefficient = None
    for x, y in zip(xs, reversed(ys), strict=True):
        if x is not None and y is not None:
            total = plus(p, total, product(x, y))
    return total


def products(p: Parent) -> Product:
    return lambda x, y: mul(p, x, y)


def slopes(p: Parent, x: Series) -> list[Coefficient]:
    """The coefficients of t x'(t), from t on: k times the k-th coefficient of x."""
    return [times(p, term, k) for k, term in enumerate(x.terms, 1)]


def zeros_like(p: Parent, x: Hidden) -> Hidden:
    return full(p, p.aval(x).tangent, 0)


# Linear primitives: coefficient by coefficient.


def _linear(primitive: Primitive, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    (x,) = args
    outs = ctx.parent.bind(primitive, x.primal)
    if ctx.parent.aval(outs[0]).tangent != ctx.parent.aval(outs[0]):
        return [Series(out, (None,) * len(x.terms)) for out in outs]  # converted to integers
    rows = [None if term is None else ctx.parent.bind(primitive, term) for term in x.terms]
    return [Series(out, tuple(None if row is None else row[i] for row in rows)) for i, out in enumerate(outs)]


@JET_RULES.register(Name)
def _name(primitive: Name, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    """The name is that of the value, not of the terms."""
    return [Series(ctx.parent.bind(primitive, args[0].primal)[0], args[0].terms)]


@JET_RULES.register(Stepwise)
def _stepwise(primitive: Stepwise, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    outs = ctx.parent.bind(primitive, *[arg.primal for arg in args])
    return [Series(out, (None,) * len(args[0].terms)) for out in outs]


def _joint(primitive: Primitive, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    p = ctx.parent
    (out,) = p.bind(primitive, *[arg.primal for arg in args])
    terms: list[Coefficient] = []
    for column in zip(*[arg.terms for arg in args], strict=True):
        if all(term is None for term in column):
            terms.append(None)
            continue
        row = [zeros_like(p, arg.primal) if t is None else t for arg, t in zip(args, column, strict=True)]
        terms.append(p.bind(primitive, *row)[0])
    return [Series(out, tuple(terms))]


def _sum(primitive: Primitive, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    (x, y), p = args, ctx.parent
    combine = plus if isinstance(primitive, Add) else minus
    (out,) = p.bind(primitive, x.primal, y.primal)
    return [Series(out, tuple(combine(p, a, b) for a, b in zip(x.terms, y.terms, strict=True)))]


register_all(JET_RULES, _sum, (Add, Sub))


@JET_RULES.register(SelectN)
def _select(primitive: SelectN, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    (which, *cases), p = args, ctx.parent
    (out,) = p.bind(primitive, which.primal, *[case.primal for case in cases])
    zero = constant_like(p, out, 0)
    terms: list[Coefficient] = []
    for column in zip(*[case.terms for case in cases], strict=True):
        moving = any(term is not None for term in column)
        chosen = [zero if term is None else term for term in column]
        terms.append(p.bind(primitive, which.primal, *chosen)[0] if moving else None)
    return [Series(out, tuple(terms))]


# Products and quotients.


def _bilinear(p: Parent, x: Series, y: Series, product: Product) -> Series:
    xs, ys = x.coefficients, y.coefficients
    terms = [convolve(p, xs[: k + 1], ys[: k + 1], product) for k in range(1, len(xs))]
    return Series(product(x.primal, y.primal), tuple(terms))


@JET_RULES.register(Mul)
def _mul(primitive: Mul, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    return [_bilinear(ctx.parent, args[0], args[1], products(ctx.parent))]


@JET_RULES.register(Square)
def _square(primitive: Square, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    return [_bilinear(ctx.parent, args[0], args[0], products(ctx.parent))]


def _dot(primitive: Primitive, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    return [_bilinear(ctx.parent, args[0], args[1], lambda a, b: ctx.parent.bind(primitive, a, b)[0])]


register_all(JET_RULES, _dot, (Bilinear,))


@JET_RULES.register(Div)
def _div(primitive: Div, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    return [_quotient(ctx.parent, args[0], args[1])]


def _quotient(p: Parent, x: Series, y: Series) -> Series:
    """From x = q y: each coefficient of q is what is left of x's, divided by the first of y."""
    found: list[Coefficient] = [div(p, x.primal, y.primal)]
    for k, term in enumerate(x.terms, 1):
        rest = minus(p, term, convolve(p, found, y.terms[:k], products(p)))
        found.append(over(p, rest, y.primal))
    return Series(div(p, x.primal, y.primal), tuple(found[1:]))


@JET_RULES.register(IntegerPow)
def _integer_pow(primitive: IntegerPow, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    (x,), p = args, ctx.parent
    (out,) = p.bind(primitive, x.primal)
    n = abs(primitive.y)
    power: Series | None = None
    while n:
        if n % 2:
            power = x if power is None else _bilinear(p, power, x, products(p))
        n //= 2
        if n:
            x = _bilinear(p, x, x, products(p))
    if power is None:
        return [Series(out, (None,) * len(x.terms))]
    if primitive.y < 0:
        one = constant_like(p, out, 1)
        power = _quotient(p, Series(one, (None,) * len(x.terms)), power)
    return [Series(out, power.terms)]


# Functions that have a differential equation: k times the k-th coefficient of y is that of t y'(t).


def _integrated(p: Parent, y: Hidden, x: Series, rate: Callable[[Sequence[Coefficient]], Coefficient]) -> Series:
    """The solution of y' = r x', where `rate` gives the next coefficient of r for the coefficients of y so far."""
    found: list[Coefficient] = [y]
    rates: list[Coefficient] = []
    rise = slopes(p, x)
    for k in range(1, len(x.terms) + 1):
        rates.append(rate(found))
        found.append(times(p, convolve(p, rise[:k], rates, products(p)), 1 / k))
    return Series(y, tuple(found[1:]))


@JET_RULES.register(Exp)
def _exp(primitive: Exp, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    y = exp(ctx.parent, args[0].primal)
    return [_integrated(ctx.parent, y, args[0], lambda found: found[-1])]


@JET_RULES.register(Tanh)
def _tanh(primitive: Tanh, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    p = ctx.parent
    (y,) = p.bind(primitive, args[0].primal)

    def rate(found: Sequence[Coefficient]) -> Coefficient:
        one = constant_like(p, y, 1) if len(found) == 1 else None
        return minus(p, one, convolve(p, found, found, products(p)))

    return [_integrated(p, y, args[0], rate)]


@JET_RULES.register(Logistic)
def _logistic(primitive: Logistic, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    p = ctx.parent
    (y,) = p.bind(primitive, args[0].primal)
    return [_integrated(p, y, args[0], lambda found: minus(p, found[-1], convolve(p, found, found, products(p))))]


@JET_RULES.register(Log)
def _log(primitive: Log, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    """From x y' = x'."""
    (x,), p = args, ctx.parent
    found: list[Coefficient] = []
    for k, term in enumerate(x.terms, 1):
        known = [times(p, c, i) for i, c in enumerate(found, 1)]
        rest = times(p, convolve(p, known, x.terms[: k - 1], products(p)), 1 / k)
        found.append(over(p, minus(p, term, rest), x.primal))
    return [Series(log(p, x.primal), tuple(found))]


@JET_RULES.register(Sqrt)
def _sqrt(primitive: Sqrt, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    """From y y = x."""
    (x,), p = args, ctx.parent
    (y,) = p.bind(primitive, x.primal)
    found: list[Coefficient] = []
    for term in x.terms:
        rest = minus(p, term, convolve(p, found, found, products(p)))
        found.append(over(p, rest, scale(p, y, 2)))
    return [Series(y, tuple(found))]


@JET_RULES.register(Pow)
def _pow(primitive: Pow, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    """exp(y log x), but for the value itself."""
    (x, y), p = args, ctx.parent
    (out,) = p.bind(primitive, x.primal, y.primal)
    if not y.constant:
        (logarithm,) = _log(log, ctx, [x])
        return [_integrated(p, out, _bilinear(p, logarithm, y, products(p)), lambda found: found[-1])]
    # From x z' = y z x', which asks for no logarithm.
    exponent = p.bind(ConvertElementType(p.aval(x.primal).dtype), y.primal)[0]
    found: list[Coefficient] = [out]
    rise = slopes(p, x)
    for k in range(1, len(x.terms) + 1):
        grown = convolve(p, rise[:k], found, products(p))
        grown = None if grown is None else mul(p, grown, exponent)
        known = [times(p, c, i) for i, c in enumerate(found[1:], 1)]
        rest = minus(p, grown, convolve(p, known, x.terms[: k - 1], products(p)))
        found.append(times(p, over(p, rest, x.primal), 1 / k))
    return [Series(out, tuple(found[1:]))]


def _pair(p: Parent, x: Series, y: Hidden, z: Hidden, sign: int) -> tuple[Series, Series]:
    """y and z with y' = z x' and z' = sign y x'."""
    ys: list[Coefficient] = [y]
    zs: list[Coefficient] = [z]
    rise = slopes(p, x)
    for k in range(1, len(x.terms) + 1):
        dy, dz = (convolve(p, rise[:k], other, products(p)) for other in (zs, ys))
        ys.append(times(p, dy, 1 / k))
        zs.append(times(p, dz, sign / k))
    return Series(y, tuple(ys[1:])), Series(z, tuple(zs[1:]))


def _trigonometric(primitive: Primitive, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    (x,), p = args, ctx.parent
    pair = _pair(p, x, sin(p, x.primal), cos(p, x.primal), -1)
    return [pair[isinstance(primitive, Cos)]]


def _hyperbolic(primitive: Primitive, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    (x,), p = args, ctx.parent
    pair = _pair(p, x, sinh(p, x.primal), cosh(p, x.primal), 1)
    return [pair[isinstance(primitive, Cosh)]]


def _window_choice(primitive: Primitive, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    """Where the chosen element is."""
    assert isinstance(primitive, WindowChoice)
    (x,), p = args, ctx.parent
    (out,) = p.bind(primitive, x.primal)
    gather = SelectAndGatherAdd(*primitive.parameters(), primitive.select_prim)
    terms = [None if term is None else p.bind(gather, term, x.primal)[0] for term in x.terms]
    return [Series(out, tuple(terms))]


def _window_pick(primitive: Primitive, ctx: Jet, args: Sequence[Series]) -> Sequence[Series]:
    """Linear in the first operand; the second one says where."""
    (t, x), p = args, ctx.parent
    (out,) = p.bind(primitive, t.primal, x.primal)
    terms = [None if term is None else p.bind(primitive, term, x.primal)[0] for term in t.terms]
    return [Series(out, tuple(terms))]


register_all(JET_RULES, _window_choice, (WindowChoice,))
register_all(JET_RULES, _window_pick, (SelectAndGatherAdd, SelectAndScatterAdd))
register_all(JET_RULES, _linear, (Linear, LinearUnary, ReduceSum, CumSum))
register_all(JET_RULES, _joint, (Concatenate, Stack, Pad))
register_all(JET_RULES, _trigonometric, (Sin, Cos))
register_all(JET_RULES, _hyperbolic, (Sinh, Cosh))
