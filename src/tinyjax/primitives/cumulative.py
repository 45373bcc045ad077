"""Cumulative sums, products, maxima, minima and log-sum-exps along an axis.

The classes come first, then the vocabulary.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import COMPLEXES, FLOATS, INEXACT, NUMERIC, HostArray
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.tangents import zero_tangents
from tinyjax.primitives import complex_values, numpy_values
from tinyjax.primitives.arithmetic import max_, min_
from tinyjax.primitives.comparison import eq, lt, ne
from tinyjax.primitives.complex import complex_, imag, real
from tinyjax.primitives.elementwise import Dtypes, NumPyFunction, add, check_dtype, mul, neg, scale, sub
from tinyjax.primitives.exponential import exp, log, log1p
from tinyjax.primitives.prefix_scan import Values, prefixes
from tinyjax.primitives.rounding import Round, RoundingMethod
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import rev
from tinyjax.primitives.structure import accumulator, check_arity, check_axes, constant_like, instantiate, linear_jvp
from tinyjax.primitives.trigonometric import atan2, cos, sin

V = TypeVar("V")


def _accumulate(operator: np.ufunc, x: HostArray, axis: int) -> HostArray:
    if x.dtype in COMPLEXES and operator in (np.multiply, np.logaddexp):
        combine = operator if operator is np.multiply else complex_values.logaddexp
        return np.moveaxis(_prefixes(combine, np.moveaxis(x, axis, 0)), 0, axis)
    if operator is np.logaddexp:
        # After nothing: zeros lose their sign where they are added to.
        return operator.accumulate(x, axis, dtype=x.dtype) + 0
    if operator in (np.maximum, np.minimum) and x.dtype in FLOATS:
        return numpy_values.accumulated(operator, x.astype(x.dtype, copy=False), axis)
    return np.asarray(operator.accumulate(x, axis, dtype=x.dtype))


def _prefixes(combine: NumPyFunction, x: HostArray) -> HostArray:
    """The same as `prefixes`, in the same order, for NumPy's arrays and along their first axis."""
    if len(x) < 2:
        return x
    odd = _prefixes(combine, np.asarray(combine(x[:-1:2], x[1::2])))
    out = np.empty_like(x)
    out[0], out[1::2] = x[0], odd
    out[2::2] = combine(odd[: (len(x) - 1) // 2], x[2::2])
    return out


def _complex_extreme(operator: np.ufunc, x: HostArray, axis: int) -> HostArray:
    """From the end, but the first of several nans, or of equal numbers, is chosen."""
    choose = complex_values.maximum if operator is np.maximum else complex_values.minimum
    out = np.array(np.moveaxis(x, axis, 0))
    for i in range(len(out) - 2, -1, -1):
        out[i] = choose(out[i], out[i + 1])
    return np.moveaxis(out, 0, axis)


@frozen
class Cumulative(Primitive):
    """Combines each element along `axis` with all before it, or, if `reverse`, with all after it."""

    axis: int
    reverse: bool = False
    accepts: ClassVar[Dtypes] = NUMERIC
    #: Combines two elements.
    operator: ClassVar[np.ufunc]
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,) = avals
        check_dtype(self.name, x.dtype, self.accepts)
        check_axes(self.name, (self.axis,), x.ndim)
        return avals

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        (x,), operator, at = args, type(self).operator, self.axis
        wide = x.astype(accumulator(x.dtype), copy=False)
        if self.reverse and operator in (np.maximum, np.minimum) and x.dtype in COMPLEXES:
            out = _complex_extreme(operator, x, at)
        elif self.reverse:
            out = np.flip(_accumulate(operator, np.flip(wide, at), at), at)
        else:
            out = _accumulate(operator, wide, at)
        return (out.astype(x.dtype, copy=False),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        dtype, operator = avals[0].dtype, type(self).operator
        if self.reverse or operator in (np.logaddexp, np.maximum, np.minimum) or dtype in COMPLEXES:
            return super().host_function(*avals)
        return partial(operator.accumulate, axis=self.axis, dtype=accumulator(dtype))

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        at = axes[0] or 0
        return ctx.bind(type(self)(self.axis + (self.axis >= at), self.reverse), *args), [at]


@final
@frozen
class CumSum(Cumulative):
    """The sum of all elements up to each, along an axis; from the end, if `reverse`."""

    name: ClassVar[str] = "cumsum"
    operator: ClassVar[np.ufunc] = np.add

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((0,),)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        return linear_jvp(self, ctx, primals, tangents)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,) = cotangents
        return [ct if isinstance(ct, Zero) else cumsum(ctx, ct, self.axis, not self.reverse)]


@frozen
class PrefixScan(Cumulative):
    """What isn't linear: numbers and their tangents are combined together, in a parallel prefix scan."""

    @abstractmethod
    def combine(self, ctx: Context[V], left: Values[V], right: Values[V]) -> Values[V]:
        """Two elements, each with its tangent, made one."""

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (x,), (t,) = primals, tangents
        if isinstance(t, Zero):
            outs = ctx.bind(self, x)
            return outs, zero_tangents(ctx, outs)
        turned = (self.axis,) if self.reverse else ()
        scanned = prefixes(ctx, (rev(ctx, x, turned), rev(ctx, t, turned)), self.axis, self.combine)
        dtype = ctx.aval(x).dtype
        # The numbers are there already, but for what is summed up in a wider dtype.
        outs = (rev(ctx, scanned[0], turned),) if accumulator(dtype) == dtype else ctx.bind(self, x)
        return outs, [rev(ctx, scanned[1], turned)]


@final
@frozen
class CumProd(PrefixScan):
    """The product of all elements up to each, along an axis; from the end, if `reverse`."""

    name: ClassVar[str] = "cumprod"
    operator: ClassVar[np.ufunc] = np.multiply

    @override
    def combine(self, ctx: Context[V], left: Values[V], right: Values[V]) -> Values[V]:
        return _joined(ctx, mul, left, right)


@final
@frozen
class CumMax(PrefixScan):
    """The largest of all elements up to each, along an axis; from the end, if `reverse`. nan wins."""

    name: ClassVar[str] = "cummax"
    operator: ClassVar[np.ufunc] = np.maximum

    @override
    def combine(self, ctx: Context[V], left: Values[V], right: Values[V]) -> Values[V]:
        return _joined(ctx, max_, left, right)


@final
@frozen
class CumMin(PrefixScan):
    """The smallest of all elements up to each, along an axis; from the end, if `reverse`. nan wins."""

    name: ClassVar[str] = "cummin"
    operator: ClassVar[np.ufunc] = np.minimum

    @override
    def combine(self, ctx: Context[V], left: Values[V], right: Values[V]) -> Values[V]:
        return _joined(ctx, min_, left, right)


@final
@frozen
class CumLogSumExp(PrefixScan):
    """The logarithm of the cumulative sum of the exponentials, without overflow."""

    name: ClassVar[str] = "cumlogsumexp"
    accepts: ClassVar[Dtypes] = INEXACT
    operator: ClassVar[np.ufunc] = np.logaddexp

    @override
    def combine(self, ctx: Context[V], left: Values[V], right: Values[V]) -> Values[V]:
        (x, tx), (y, ty) = left, right
        out = logaddexp(ctx, x, y)
        wx, wy = (exp(ctx, _above(ctx, v, out)) for v in (x, y))
        return out, add(ctx, mul(ctx, tx, wx), mul(ctx, ty, wy))


def _joined(ctx: Context[V], operator: Primitive, left: Values[V], right: Values[V]) -> Values[V]:
    """What a binary operator and its derivative make of two elements and their tangents."""
    (out,), (t,) = operator.jvp(ctx, (left[0], right[0]), (left[1], right[1]))
    return out, instantiate(ctx, t)


def _above(ctx: Context[V], x: V, out: V) -> V:
    """x - out, and 0 of an infinity, which has all the weight, as other infinities have."""
    infinite = eq(ctx, x, constant_like(ctx, x, math.inf))
    return select(ctx, infinite, constant_like(ctx, x, 0), sub(ctx, x, out))


# The vocabulary.


def logaddexp(ctx: Context[V], x: V, y: V) -> V:
    """log(exp(x) + exp(y)), without overflow; of complex numbers with an imaginary part between -π and π."""
    larger = max_(ctx, x, y)
    gap = add(ctx, sub(ctx, x, larger), sub(ctx, y, larger))
    unknown = ne(ctx, gap, gap)
    if ctx.aval(x).dtype in COMPLEXES:
        return _between(ctx, select(ctx, unknown, add(ctx, x, y), add(ctx, larger, _log1p_exp(ctx, gap))))
    # The gap of infinities is nan. Of real numbers, the larger one is the answer then; it is nan if one of them is.
    return select(ctx, unknown, larger, add(ctx, larger, log1p(ctx, exp(ctx, gap))))


def _log1p_exp(ctx: Context[V], z: V) -> V:
    """log(1 + exp(z)) of complex numbers with a real part that isn't positive, from functions of real numbers, as XLA
    takes seconds to compile those of complex ones."""
    size, angle = exp(ctx, real(ctx, z)), imag(ctx, z)
    zero, half, one, two = (constant_like(ctx, size, value) for value in (0, 0.5, 1, 2))
    angle = select(ctx, eq(ctx, size, zero), zero, angle)
    p, q = mul(ctx, size, cos(ctx, angle)), mul(ctx, size, sin(ctx, angle))
    height, right = mul(ctx, q, q), add(ctx, p, one)
    near = lt(ctx, p, neg(ctx, half))  # -1, where the logarithm has its pole
    distance = log(ctx, select(ctx, near, add(ctx, mul(ctx, right, right), height), one))
    squared = select(ctx, near, zero, add(ctx, mul(ctx, p, add(ctx, p, two)), height))
    re = mul(ctx, select(ctx, near, distance, log1p(ctx, squared)), half)
    return complex_(ctx, re, atan2(ctx, q, right))


def _between(ctx: Context[V], z: V) -> V:
    """z with the multiple of 2πi that brings its imaginary part between -π and π."""
    angle = imag(ctx, z)
    (turns,) = ctx.bind(Round(RoundingMethod.TO_NEAREST_EVEN), scale(ctx, angle, 1 / (2 * math.pi)))
    return complex_(ctx, real(ctx, z), sub(ctx, angle, scale(ctx, turns, 2 * math.pi)))


def cumsum(ctx: Context[V], x: V, axis: int, reverse: bool = False) -> V:
    """The sum of all elements up to each along an axis, or from the end if `reverse`."""
    return ctx.bind(CumSum(axis, reverse), x)[0]


def cumprod(ctx: Context[V], x: V, axis: int, reverse: bool = False) -> V:
    """The product of all elements up to each along an axis, or from the end if `reverse`."""
    return ctx.bind(CumProd(axis, reverse), x)[0]


def cummax(ctx: Context[V], x: V, axis: int, reverse: bool = False) -> V:
    """The largest of all elements up to each along an axis, or from the end if `reverse`."""
    return ctx.bind(CumMax(axis, reverse), x)[0]


def cummin(ctx: Context[V], x: V, axis: int, reverse: bool = False) -> V:
    """The smallest of all elements up to each along an axis, or from the end if `reverse`."""
    return ctx.bind(CumMin(axis, reverse), x)[0]


def cumlogsumexp(ctx: Context[V], x: V, axis: int, reverse: bool = False) -> V:
    """The logarithm of the sum of exponentials of all elements up to each along an axis, or from the end."""
    return ctx.bind(CumLogSumExp(axis, reverse), x)[0]
