"""Cumulative sums, products, maxima, minima and log-sum-exps along an axis.

The classes come first, then the vocabulary.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, TypeAlias, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import COMPLEXES, FLOATS, INEXACT, NUMERIC, HostArray
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.primitives import complex_values, host
from tinyjax.primitives.arithmetic import MAX, MIN, max_
from tinyjax.primitives.comparison import eq, ne
from tinyjax.primitives.elementwise import MUL, Dtypes, add, check_dtype, mul, sub
from tinyjax.primitives.exponential import exp, log1p
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import rev
from tinyjax.primitives.slicing import concatenate, pad, slice_in_dim
from tinyjax.primitives.structure import accumulator, check_arity, check_axes, constant_like, instantiate

V = TypeVar("V")
#: Numbers and their tangents.
Dual: TypeAlias = tuple[V, V]


def _accumulate(operator: np.ufunc, x: HostArray, axis: int) -> HostArray:
    if operator is np.logaddexp:
        # After nothing: zeros lose their sign where they are added to.
        return _complex_logaddexp(x, axis) if x.dtype in COMPLEXES else operator.accumulate(x, axis, dtype=x.dtype) + 0
    if operator in (np.maximum, np.minimum) and x.dtype in FLOATS:
        return host.accumulated(operator, x.astype(x.dtype, copy=False), axis)
    return np.asarray(operator.accumulate(x, axis, dtype=x.dtype))


def _complex_extreme(operator: np.ufunc, x: HostArray, axis: int) -> HostArray:
    """From the end, but the first of several nans, or of equal numbers, is chosen."""
    choose = complex_values.maximum if operator is np.maximum else complex_values.minimum
    out = np.array(np.moveaxis(x, axis, 0))
    for i in range(len(out) - 2, -1, -1):
        out[i] = choose(out[i], out[i + 1])
    return np.moveaxis(out, 0, axis)


def _complex_logaddexp(x: HostArray, axis: int) -> HostArray:
    """What np.logaddexp would accumulate, with imaginary parts between -π and π."""
    rows = np.moveaxis(x, axis, 0)
    out = np.array(rows)
    for i in range(1, len(out)):
        a, b = out[i - 1], rows[i]
        larger = np.maximum(a, b)
        both = larger + np.log1p(np.exp((a - larger) + (b - larger)))
        out[i] = both.real + 1j * (both.imag - 2 * np.pi * np.round(both.imag / (2 * np.pi)))
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
        if self.reverse or operator in (np.logaddexp, np.maximum, np.minimum):
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
    name: ClassVar[str] = "cumsum"
    operator: ClassVar[np.ufunc] = np.add

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        outs, (t,) = ctx.bind(self, *primals), tangents
        return outs, [Zero(ctx.aval(outs[0]).tangent)] if isinstance(t, Zero) else ctx.bind(self, t)

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
    def combine(self, ctx: Context[V], left: Dual[V], right: Dual[V]) -> Dual[V]:
        """Two elements, each with its tangent, made one."""

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (x,), (t,) = primals, tangents
        outs = ctx.bind(self, x)
        if isinstance(t, Zero):
            return outs, [Zero(ctx.aval(outs[0]).tangent)]
        turned = (self.axis,) if self.reverse else ()
        _, scanned = self._scan(ctx, (rev(ctx, x, turned), rev(ctx, t, turned)))
        return outs, [rev(ctx, scanned, turned)]

    def _scan(self, ctx: Context[V], dual: Dual[V]) -> Dual[V]:
        """Combines neighbours and scans what results, half as many: these are the elements at odd positions. Each at
        an even position is the one before it combined with its own element.

        JAX goes in the same order, which shows in how equal numbers share the tangent of a maximum.
        """
        at, size = self.axis, ctx.aval(dual[0]).shape[self.axis]
        if size < 2:
            return dual
        odd = self._scan(ctx, self.combine(ctx, _part(ctx, dual, at, 0, size - 1, 2), _part(ctx, dual, at, 1, size, 2)))
        even = _part(ctx, dual, at, 0, 1, 1)
        if size > 2:
            before = _part(ctx, odd, at, 0, (size - 1) // 2, 1)
            later = self.combine(ctx, before, _part(ctx, dual, at, 2, size, 2))
            even = concatenate(ctx, (even[0], later[0]), at), concatenate(ctx, (even[1], later[1]), at)
        return _interleave(ctx, even[0], odd[0], at), _interleave(ctx, even[1], odd[1], at)


@final
@frozen
class CumProd(PrefixScan):
    name: ClassVar[str] = "cumprod"
    operator: ClassVar[np.ufunc] = np.multiply

    @override
    def combine(self, ctx: Context[V], left: Dual[V], right: Dual[V]) -> Dual[V]:
        return _joined(ctx, MUL, left, right)


@final
@frozen
class CumMax(PrefixScan):
    name: ClassVar[str] = "cummax"
    operator: ClassVar[np.ufunc] = np.maximum

    @override
    def combine(self, ctx: Context[V], left: Dual[V], right: Dual[V]) -> Dual[V]:
        return _joined(ctx, MAX, left, right)


@final
@frozen
class CumMin(PrefixScan):
    name: ClassVar[str] = "cummin"
    operator: ClassVar[np.ufunc] = np.minimum

    @override
    def combine(self, ctx: Context[V], left: Dual[V], right: Dual[V]) -> Dual[V]:
        return _joined(ctx, MIN, left, right)


@final
@frozen
class CumLogSumExp(PrefixScan):
    """The logarithm of the cumulative sum of the exponentials, without overflow."""

    name: ClassVar[str] = "cumlogsumexp"
    accepts: ClassVar[Dtypes] = INEXACT
    operator: ClassVar[np.ufunc] = np.logaddexp

    @override
    def combine(self, ctx: Context[V], left: Dual[V], right: Dual[V]) -> Dual[V]:
        (x, tx), (y, ty) = left, right
        out = logaddexp(ctx, x, y)
        at = _finite_above(ctx, out)
        wx, wy = (exp(ctx, sub(ctx, _finite_above(ctx, v), at)) for v in (x, y))
        return out, add(ctx, mul(ctx, tx, wx), mul(ctx, ty, wy))


def _joined(ctx: Context[V], operator: Primitive, left: Dual[V], right: Dual[V]) -> Dual[V]:
    """What a binary operator and its derivative make of two elements and their tangents."""
    (out,), (t,) = operator.jvp(ctx, (left[0], right[0]), (left[1], right[1]))
    return out, instantiate(ctx, t)


def _part(ctx: Context[V], dual: Dual[V], axis: int, start: int, limit: int, stride: int) -> Dual[V]:
    x, t = dual
    return slice_in_dim(ctx, x, start, limit, stride, axis), slice_in_dim(ctx, t, start, limit, stride, axis)


def _interleave(ctx: Context[V], even: V, odd: V, axis: int) -> V:
    """The elements at even and at odd positions, put together."""
    aval = ctx.aval(even)
    extra = aval.shape[axis] - ctx.aval(odd).shape[axis]
    before, after = ((0, 0, 0),) * axis, ((0, 0, 0),) * (aval.ndim - axis - 1)
    spread = pad(ctx, even, (*before, (0, 1 - extra, 1), *after))
    return add(ctx, spread, pad(ctx, odd, (*before, (1, extra, 1), *after)))


def _finite_above(ctx: Context[V], x: V) -> V:
    """x with 0 for inf, so that inf - inf is 0 in the derivative."""
    return select(ctx, eq(ctx, x, constant_like(ctx, x, math.inf)), constant_like(ctx, x, 0), x)


# The vocabulary.


def logaddexp(ctx: Context[V], x: V, y: V) -> V:
    """log(exp(x) + exp(y)), without overflow; of complex numbers up to a multiple of 2πi."""
    larger = max_(ctx, x, y)
    gap = add(ctx, sub(ctx, x, larger), sub(ctx, y, larger))
    both = add(ctx, larger, log1p(ctx, exp(ctx, gap)))
    # The gap of infinities is nan. Of real numbers, the larger one is the answer then; it is nan if one of them is.
    otherwise = add(ctx, x, y) if ctx.aval(x).dtype in COMPLEXES else larger
    return select(ctx, ne(ctx, gap, gap), otherwise, both)


def cumsum(ctx: Context[V], x: V, axis: int, reverse: bool = False) -> V:
    return ctx.bind(CumSum(axis, reverse), x)[0]


def cumprod(ctx: Context[V], x: V, axis: int, reverse: bool = False) -> V:
    return ctx.bind(CumProd(axis, reverse), x)[0]


def cummax(ctx: Context[V], x: V, axis: int, reverse: bool = False) -> V:
    return ctx.bind(CumMax(axis, reverse), x)[0]


def cummin(ctx: Context[V], x: V, axis: int, reverse: bool = False) -> V:
    return ctx.bind(CumMin(axis, reverse), x)[0]


def cumlogsumexp(ctx: Context[V], x: V, axis: int, reverse: bool = False) -> V:
    return ctx.bind(CumLogSumExp(axis, reverse), x)[0]
