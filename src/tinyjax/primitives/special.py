"""Special functions. Their values come from SciPy, imported when the first one is computed."""

from __future__ import annotations

import math
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import MissingRuleError
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import FLOATS, HostArray
from tinyjax.primitives import numpy_values
from tinyjax.primitives.arithmetic import div, square
from tinyjax.primitives.elementwise import Binary, Dtypes, NumPyFunction, Unary, add, mul, neg, scale, sub
from tinyjax.primitives.exponential import exp, log, pow_
from tinyjax.primitives.structure import constant_like

V = TypeVar("V")


def _erf(x: numpy_values.Floats) -> HostArray:
    from scipy import special

    return np.asarray(special.erf(x))


def _erfc(x: numpy_values.Floats) -> HostArray:
    from scipy import special

    return np.asarray(special.erfc(x))


def _erf_inv(x: numpy_values.Floats) -> HostArray:
    from scipy import special

    return np.copysign(special.erfinv(x), x)  # SciPy loses the sign of -0.0


def _lgamma(x: numpy_values.Floats) -> HostArray:
    from scipy import special

    return np.where(np.isinf(x), np.abs(x), special.gammaln(x))


def _digamma(x: numpy_values.Floats) -> HostArray:
    from scipy import special

    return np.asarray(special.psi(x))


def _polygamma(n: numpy_values.Floats, x: numpy_values.Floats) -> HostArray:
    from scipy import special

    odd = n % 2 == 1
    higher = np.where(odd, 1, -1) * special.gamma(n + 1) * special.zeta(n + 1, x)
    # At its poles, which an odd derivative approaches from both sides with the same sign.
    higher = np.where(odd | (x > 0) | (x != np.floor(x)), higher, np.where(x == 0, -1 / x, np.nan))
    whole = (n >= 0) & (n == np.floor(n)) & np.isfinite(n)
    return np.where(whole, np.where(n == 0, special.psi(x), higher), np.nan).astype(x.dtype)


def _zeta(x: numpy_values.Floats, q: numpy_values.Floats) -> HostArray:
    from scipy import special

    found = np.where((x > 1e4) & (q > 0), np.power(q, -x), special.zeta(x, q))  # of large x the first term
    return np.where(np.isnan(x) | np.isnan(q), np.nan, found).astype(x.dtype)


@final
@frozen
class Erf(Unary):
    """The error function."""

    name: ClassVar[str] = "erf"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = numpy_values.widened(_erf)

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return scale(ctx, exp(ctx, neg(ctx, square(ctx, x))), 2 / math.sqrt(math.pi))


@final
@frozen
class Erfc(Unary):
    """1 - erf(x), exact where it is small."""

    name: ClassVar[str] = "erfc"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = numpy_values.widened(_erfc)

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return scale(ctx, exp(ctx, neg(ctx, square(ctx, x))), -2 / math.sqrt(math.pi))


@final
@frozen
class ErfInv(Unary):
    """The inverse of the error function."""

    name: ClassVar[str] = "erf_inv"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = numpy_values.widened(_erf_inv)

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return scale(ctx, exp(ctx, square(ctx, y)), math.sqrt(math.pi) / 2)


@final
@frozen
class Lgamma(Unary):
    """The logarithm of the magnitude of the gamma function."""

    name: ClassVar[str] = "lgamma"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = numpy_values.widened(_lgamma)

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return digamma(ctx, x)


@final
@frozen
class Digamma(Unary):
    """The derivative of `lgamma`."""

    name: ClassVar[str] = "digamma"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = numpy_values.widened(_digamma)

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return polygamma(ctx, constant_like(ctx, x, 1), x)


@final
@frozen
class Polygamma(Binary):
    """The n-th derivative of `digamma` at x, for operands n and x; n is a whole number of the dtype of x."""

    name: ClassVar[str] = "polygamma"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = numpy_values.widened(_polygamma)

    @override
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        raise MissingRuleError("polygamma has no derivative with respect to its order")

    @override
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        order = add(ctx, x, constant_like(ctx, x, 1))
        return mul(ctx, t, polygamma(ctx, order, y))


@final
@frozen
class Zeta(Binary):
    """The Hurwitz zeta function: the sum of (q + n) ** -x over n from 0, for operands x and q."""

    name: ClassVar[str] = "zeta"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = numpy_values.widened(_zeta)

    @override
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, t, _zeta_slope(ctx, x, y))

    @override
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return neg(ctx, mul(ctx, t, mul(ctx, x, zeta(ctx, add(ctx, x, constant_like(ctx, x, 1)), y))))


#: How many terms of the sum are added one by one, and what is left by the formula of Euler and Maclaurin: the Bernoulli
#: numbers of even order, over the factorials of those.
_TERMS: Final = 10
_BERNOULLI: Final = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000,
)  # fmt: skip


def _zeta_slope(ctx: Context[V], x: V, q: V) -> V:
    """The derivative of zeta with respect to its exponent, which the sum of -log(q + n) * (q + n) ** -x begins with."""

    def shifted(value: V, by: float) -> V:
        return add(ctx, value, constant_like(ctx, value, by))

    def inverse(value: V) -> V:
        return div(ctx, constant_like(ctx, value, 1), value)

    power = neg(ctx, x)
    first = log(ctx, q)
    slope = neg(ctx, mul(ctx, first, pow_(ctx, q, power)))
    for n in range(1, _TERMS):
        base = shifted(q, n)
        slope = sub(ctx, slope, mul(ctx, log(ctx, base), pow_(ctx, base, power)))
    # The rest, with a = q + n for the next n: the integral a ** (1 - x) / (x - 1), half a term, and corrections.
    a = shifted(q, _TERMS)
    size, term = log(ctx, a), pow_(ctx, a, power)
    beyond = inverse(shifted(x, -1))
    integral = mul(ctx, pow_(ctx, a, shifted(power, 1)), beyond)
    slope = sub(ctx, slope, mul(ctx, integral, add(ctx, size, beyond)))
    slope = sub(ctx, slope, scale(ctx, mul(ctx, size, term), 0.5))
    squared = square(ctx, a)
    # Of x (x + 1) ... (x + 2 j - 2) a ** (1 - 2 j - x): the derivative is this times a sum of inverses less log(a).
    product, ratio = mul(ctx, div(ctx, x, a), term), sub(ctx, inverse(x), size)
    slope = add(ctx, slope, scale(ctx, mul(ctx, product, ratio), _BERNOULLI[0]))
    for j, number in enumerate(_BERNOULLI[1:], 2):
        left, right = shifted(x, 2 * j - 3), shifted(x, 2 * j - 2)
        product = div(ctx, mul(ctx, mul(ctx, product, left), right), squared)
        ratio = add(ctx, ratio, add(ctx, inverse(left), inverse(right)))
        slope = add(ctx, slope, scale(ctx, mul(ctx, product, ratio), number))
    return slope


# The vocabulary.

erf: Final = Erf()
erfc: Final = Erfc()
erf_inv: Final = ErfInv()
lgamma: Final = Lgamma()
digamma: Final = Digamma()
polygamma: Final = Polygamma()
zeta: Final = Zeta()
