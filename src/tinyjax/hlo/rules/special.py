"""Lowering rules of Bessel functions, the zeta function, and the incomplete gamma and beta functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from tinyjax.hlo.context import SSA, LoweringContext, Rule
from tinyjax.hlo.rules.elementwise import convert, operands, typed
from tinyjax.hlo.rules.loops import repeat
from tinyjax.hlo.rules.narrow import of_wider
from tinyjax.hlo.tables import RULES
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT64
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives import bessel, incomplete, incomplete_formulas, special
from tinyjax.primitives.arithmetic import abs_
from tinyjax.primitives.exponential import pow_, sqrt
from tinyjax.primitives.formulas import Formula, Loop, Number, Numbers
from tinyjax.primitives.rounding import floor
from tinyjax.primitives.structure import (
    accumulator,
)

V = TypeVar("V")

#: Chebyshev coefficients of I0(x) exp(-x) up to 8, and of the same times the root of x from there.
_NEAR: Final = (
    6.7679527440947607e-01,
    -3.0468267234319835e-01,
    1.7162090152220871e-01,
    -9.4901097048047584e-02,
    4.9305284239670656e-02,
    -2.3737414805899412e-02,
    1.0546460394594928e-02,
    -4.3243099950505057e-03,
    1.6394756169412557e-03,
    -5.7637557453849779e-04,
    1.8850288509575754e-04,
    -5.7541950100736926e-05,
    1.6448448070641170e-05,
    -4.4167383583687965e-06,
    1.1173875390285945e-06,
    -2.6707938530948146e-07,
    6.0469950147870924e-08,
    -1.3000250024557580e-08,
    2.6598236556468857e-09,
    -5.1897949048151373e-10,
    9.6758015955806443e-11,
    -1.7268193837378699e-11,
    2.9549860641453021e-12,
    -4.8557518502317465e-13,
    7.6688890336453389e-14,
    -1.1612609383931013e-14,
    1.6424262485349266e-15,
    -1.6954211472242076e-16,
    -3.1265680149050734e-17,
    5.3405992013015137e-17,
    -5.4987120181223169e-17,
    7.5905445846615364e-17,
)
_FAR: Final = (
    8.0449041101410879e-01,
    3.3691164782557277e-03,
    6.8897583469143498e-05,
    2.8913705208755303e-06,
    2.0489185891662204e-07,
    2.2666689933621579e-08,
    3.3962319946358092e-09,
    4.9406027221862053e-10,
    1.1889117821117472e-11,
    -3.1499130421916910e-11,
    -1.3215843202708942e-11,
    -1.7941519603362269e-12,
    7.1799307733374986e-13,
    3.8531041783122316e-13,
    1.5367965601552818e-14,
    -4.1471388136383090e-14,
    -9.5883937635052093e-15,
    3.8400001494548475e-15,
    1.7469546317351592e-15,
    -3.1480939455379625e-16,
    -3.1292689912156306e-16,
    6.9827137417118504e-17,
    1.0765577001365344e-17,
    2.2641755368738952e-17,
    -3.3059131242703841e-17,
    3.4929379990241337e-17,
    -3.2220709797079958e-17,
    4.0449776051813359e-17,
    -3.6214611315541858e-17,
    2.6671373443143409e-17,
)


def _chebyshev(x: Number[V], coefficients: Sequence[float]) -> Number[V]:
    """Their sum, the first one halved, by Clenshaw's recurrence."""
    last, before = x.like(0), x.like(0)
    for coefficient in reversed(coefficients[1:]):
        last, before = x * 2.0 * last - before + coefficient, last
    return x * last - before + coefficients[0] / 2


def _bessel_i0e(loop: Loop[V], *args: Number[V]) -> Number[V]:
    x = args[0].of(abs_)
    least = 0.0 if x.ctx.aval(x.value).dtype == FLOAT64 else 1e-9
    near, far = ([c for c in row if abs(c) > least] for row in (_NEAR, _FAR))
    large = x > 8.0
    beyond = large.where(x, x.like(8))
    return large.where(_chebyshev(16.0 / beyond - 1.0, far) / beyond.of(sqrt), _chebyshev(x / 4.0 - 1.0, near))


def _loop(
    carry: Numbers[SSA],
    constants: Numbers[SSA],
    unfinished: Callable[[Numbers[SSA]], Number[SSA]],
    step: Callable[[Numbers[SSA], Numbers[SSA]], Numbers[SSA]],
) -> Numbers[SSA]:
    """A loop of StableHLO. What is constant is used from outside."""

    def within(ctx: LoweringContext, values: Sequence[SSA]) -> list[Number[SSA]]:
        return [Number(ctx, value) for value in values]

    def cond(inner: LoweringContext, now: Sequence[SSA]) -> Sequence[SSA]:
        return [unfinished(within(inner, now)).value]

    def body(inner: LoweringContext, now: Sequence[SSA]) -> Sequence[SSA]:
        found = step(within(inner, now), within(inner, [number.value for number in constants]))
        return [number.value for number in found]

    ctx = carry[0].ctx
    if not isinstance(ctx, LoweringContext):
        raise TypeError("loops are lowered on a lowering context")
    return within(ctx, repeat(ctx, [number.value for number in carry], cond, body))


def _by(formula: Formula) -> Rule:
    """The rule of an elementwise function that is computed by a formula, of half precision in single."""

    def rule(_: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
        (out,) = types
        wide = accumulator(out.dtype)
        aval = array_type(out.shape, wide)
        names = operands(ctx, args, out)
        numbers = [Number(ctx, convert(ctx, SSA(name, array_type(out.shape, out.dtype)), aval)) for name in names]
        return (convert(ctx, formula(_loop, *numbers).value, out),)

    return rule


_ZETA: Final = typed("chlo.zeta")


@RULES.register(special.Zeta)
def _zeta(
    primitive: special.Zeta, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """Of large x only the first term counts, and none at infinity."""
    x, q = (Number(ctx, SSA(name, types[0])) for name in operands(ctx, args, types[0]))
    (found,) = _ZETA(primitive, ctx, (x.value, q.value), types)
    nan = q.like(math.nan)
    first = Number(ctx, pow_(ctx, q.value, (-x).value))
    beyond = x.equals(x.of(floor)).where(q.like(math.inf), nan)
    value = (x > 1e4).where((q > 0.0).where(first, beyond), Number(ctx, found))
    value = (q.equals(math.inf) & (x > 1.0)).where(q.like(0), value)
    return (((x < 1.0) | q.is_nan()).where(nan, value).value,)


@RULES.register(incomplete.RandomGammaGradA)
def _random_gamma_grad_a(
    primitive: incomplete.RandomGammaGradA, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    return _by(incomplete_formulas.sample_derivative(primitive.order))(primitive, ctx, args, types)


RULES[bessel.BesselI0e] = _by(_bessel_i0e)
RULES[bessel.BesselI1e] = of_wider(typed("chlo.bessel_i1e"), 8)
RULES[incomplete.Igamma] = _by(incomplete_formulas.lower_gamma)
RULES[incomplete.Igammac] = _by(incomplete_formulas.upper_gamma)
RULES[incomplete.IgammaGradA] = _by(incomplete_formulas.gamma_slope)
RULES[incomplete.RandomGammaGrad] = _by(incomplete_formulas.sample_slope)
RULES[incomplete.RegularizedIncompleteBeta] = _by(incomplete_formulas.beta)
