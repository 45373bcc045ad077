"""The incomplete gamma and beta functions. Their values come from SciPy, derivatives in a parameter from `formulas`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import field, frozen
from typing_extensions import override

from tinyjax.errors import MissingRuleError, ParameterError
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import FLOATS, DType, HostArray
from tinyjax.ir.primitive import Outputs, Zero
from tinyjax.primitives import incomplete_formulas, numpy_values
from tinyjax.primitives.arithmetic import div
from tinyjax.primitives.by_loops import ByLoops
from tinyjax.primitives.elementwise import Binary, Dtypes, Elementwise, NumPyFunction, add, mul, neg, sub
from tinyjax.primitives.exponential import exp, log, log1p
from tinyjax.primitives.formulas import Loop, Number, on_host
from tinyjax.primitives.special import digamma, lgamma, polygamma
from tinyjax.primitives.structure import broadcast_scalar, constant_like

V = TypeVar("V")


_lower_tail: Final = on_host(incomplete_formulas.lower_gamma)
_upper_tail: Final = on_host(incomplete_formulas.upper_gamma)


def _mended(formula: NumPyFunction, found: HostArray, a: numpy_values.Floats, x: numpy_values.Floats) -> HostArray:
    """SciPy's series stop too early for large shapes."""
    large = np.isfinite(a) & (a > 1e5)
    return np.where(large, formula(a, x), found) if np.any(large) else np.asarray(found)


def _igamma(a: numpy_values.Floats, x: numpy_values.Floats) -> HostArray:
    from scipy import special

    return _mended(_lower_tail, special.gammainc(a, x), a, x)


def _igammac(a: numpy_values.Floats, x: numpy_values.Floats) -> HostArray:
    from scipy import special

    return _mended(_upper_tail, special.gammaincc(a, x), a, x)


def _betainc(a: numpy_values.Floats, b: numpy_values.Floats, x: numpy_values.Floats) -> HostArray:
    from scipy import special

    p, q = (np.where(v > 0, v, 1).astype(v.dtype) for v in (a, b))
    found = special.betainc(p, q, np.clip(x, 0, 1))
    return _with_edges(a, b, x, np.asarray(found).astype(x.dtype))


def _edges(loop: Loop[V], *args: Number[V]) -> Number[V]:
    a, b, x, inside = args
    return incomplete_formulas.beta_edges(a, b, x, inside)


_with_edges: Final = on_host(_edges)


def _density_of_gamma(ctx: Context[V], a: V, x: V) -> V:
    """x ** (a - 1) exp(-x) / gamma(a)."""
    powers = mul(ctx, sub(ctx, a, constant_like(ctx, a, 1)), log(ctx, x))
    return exp(ctx, sub(ctx, sub(ctx, powers, x), lgamma(ctx, a)))


def _slope_of_density(ctx: Context[V], a: V, x: V) -> V:
    """The derivative of its logarithm in a."""
    return sub(ctx, log(ctx, x), digamma(ctx, a))


def _decline_of_density(ctx: Context[V], a: V, x: V) -> V:
    """The derivative of its logarithm in x, with the other sign."""
    one = constant_like(ctx, a, 1)
    return sub(ctx, one, div(ctx, sub(ctx, a, one), x))


@final
@frozen
class Igamma(Binary):
    """The lower incomplete gamma function of a and x, divided by gamma(a): the part of the distribution below x."""

    name: ClassVar[str] = "igamma"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = numpy_values.widened(_igamma)

    @override
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, t, igamma_grad_a(ctx, x, y))

    @override
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, t, _density_of_gamma(ctx, x, y))


@final
@frozen
class Igammac(Binary):
    """1 - igamma(a, x), exact where it is small."""

    name: ClassVar[str] = "igammac"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = numpy_values.widened(_igammac)

    @override
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return neg(ctx, mul(ctx, t, igamma_grad_a(ctx, x, y)))

    @override
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return neg(ctx, mul(ctx, t, _density_of_gamma(ctx, x, y)))


@final
@frozen
class IgammaGradA(ByLoops):
    """The derivative of igamma(a, x) in a."""

    name: ClassVar[str] = "igamma_grad_a"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = numpy_values.widened(on_host(incomplete_formulas.gamma_slope))

    @override
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        # It is -slope * density, for the slope of a sample.
        slope, change = random_gamma_grad(ctx, x, y), random_gamma_grad_a(ctx, x, y)
        factor = add(ctx, change, mul(ctx, slope, _slope_of_density(ctx, x, y)))
        return neg(ctx, mul(ctx, t, mul(ctx, factor, _density_of_gamma(ctx, x, y))))

    @override
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, t, mul(ctx, _slope_of_density(ctx, x, y), _density_of_gamma(ctx, x, y)))


@final
@frozen
class RandomGammaGrad(ByLoops):
    """The derivative in a of x, a sample of the gamma distribution of shape a."""

    name: ClassVar[str] = "random_gamma_grad"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = numpy_values.widened(on_host(incomplete_formulas.sample_slope))

    @override
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, t, random_gamma_grad_a(ctx, x, y))

    @override
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        moved = mul(ctx, out, _decline_of_density(ctx, x, y))
        return mul(ctx, t, sub(ctx, moved, _slope_of_density(ctx, x, y)))


def _order(value: int) -> int:
    if value < 1:
        raise ParameterError(f"random_gamma_grad_a: order is at least 1, got {value}")
    return value


@final
@frozen
class RandomGammaGradA(ByLoops):
    """The derivative in a of random_gamma_grad(a, x), of this order."""

    name: ClassVar[str] = "random_gamma_grad_a"
    accepts: ClassVar[Dtypes] = FLOATS
    order: int = field(default=1, converter=_order)

    @override
    def function_of(self, dtype: DType) -> NumPyFunction:
        return numpy_values.widened(on_host(incomplete_formulas.sample_derivative(self.order)))

    @override
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, t, RandomGammaGradA(self.order + 1)(ctx, x, y))

    @override
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        # Of slope * decline - (log(x) - digamma(a)), where the decline is linear in a.
        lower = random_gamma_grad if self.order == 1 else RandomGammaGradA(self.order - 1)
        times = constant_like(ctx, x, self.order)
        moved = mul(ctx, out, _decline_of_density(ctx, x, y))
        bent = sub(ctx, polygamma(ctx, times, x), div(ctx, mul(ctx, times, lower(ctx, x, y)), y))
        return mul(ctx, t, add(ctx, moved, bent))


@final
@frozen
class RegularizedIncompleteBeta(Elementwise):
    """The part of the beta distribution of shapes a and b that is below x, for operands a, b and x."""

    name: ClassVar[str] = "regularized_incomplete_beta"
    accepts: ClassVar[Dtypes] = FLOATS
    arity: ClassVar[int] = 3
    function: ClassVar[NumPyFunction] = numpy_values.widened(_betainc)

    def __call__(self, ctx: Context[V], a: V, b: V, x: V) -> V:
        return ctx.bind(self, a, b, x)[0]

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (a, b, x), (ta, tb, t) = primals, tangents
        if not (isinstance(ta, Zero) and isinstance(tb, Zero)):
            raise MissingRuleError(
                "regularized_incomplete_beta has no derivative with respect to its parameters a and b, here as in JAX. "
                "Where it isn't needed, write lax.betainc(lax.stop_gradient(a), lax.stop_gradient(b), x)."
            )
        (out,) = ctx.bind(self, a, b, x)
        if isinstance(t, Zero):
            return [out], [Zero(ctx.aval(out).tangent)]
        one = constant_like(ctx, x, 1)
        powers = add(
            ctx,
            mul(ctx, sub(ctx, b, one), log1p(ctx, neg(ctx, x))),
            mul(ctx, sub(ctx, a, one), log(ctx, x)),
        )
        whole = sub(ctx, add(ctx, lgamma(ctx, a), lgamma(ctx, b)), lgamma(ctx, add(ctx, a, b)))
        tangent = mul(ctx, t, exp(ctx, sub(ctx, powers, whole)))
        return [out], [broadcast_scalar(ctx, tangent, ctx.aval(out).shape)]


# The vocabulary.

igamma: Final = Igamma()
igammac: Final = Igammac()
igamma_grad_a: Final = IgammaGradA()
random_gamma_grad: Final = RandomGammaGrad()
random_gamma_grad_a: Final = RandomGammaGradA()
regularized_incomplete_beta: Final = RegularizedIncompleteBeta()
