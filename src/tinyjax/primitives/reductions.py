"""Reductions over axes: products, maxima and minima, bitwise ones, and the positions of maxima and minima.

The sum is in `structure`. The classes come first, then the vocabulary.
"""

from __future__ import annotations

import enum
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import ClassVar, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import (
    BOOL,
    COMPLEXES,
    FLOATS,
    INTEGERS,
    SUPPORTED,
    WIDE,
    DType,
    HostArray,
    Scalar,
    finite_limits,
    integer_limits,
    short_name,
)
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Zero
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.tangents import zero_tangents
from tinyjax.primitives import complex_values, kernels, numpy_values
from tinyjax.primitives.arithmetic import reciprocal
from tinyjax.primitives.bitwise import logical_or
from tinyjax.primitives.comparison import eq, ne
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import check_dtype, mul, unmapped
from tinyjax.primitives.product_tangents import product_tangent
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import shift_axes
from tinyjax.primitives.structure import (
    Reduction,
    accumulator,
    broadcast_in_dim,
    check_arity,
    check_axes,
    constant_like,
    reduce_sum,
    reduction,
    shape_error,
)

V = TypeVar("V")


def lowest(dtype: DType) -> Scalar:
    """What every number of this dtype is at least: the maximum of nothing."""
    return _extreme(dtype, -np.inf)


def highest(dtype: DType) -> Scalar:
    """What every number of this dtype is at most: the minimum of nothing."""
    return _extreme(dtype, np.inf)


def _extreme(dtype: DType, infinity: float) -> Scalar:
    if dtype in INTEGERS:
        return integer_limits(dtype)[infinity > 0]
    if dtype == BOOL:
        return infinity > 0
    if dtype in WIDE and float(np.asarray(infinity).astype(dtype)) != infinity:  # there is none
        return finite_limits(dtype)[infinity > 0]
    return complex(infinity) if dtype in COMPLEXES else infinity


@final
@frozen
class ReduceProd(Reduction):
    """The product over `axes`."""

    name: ClassVar[str] = "reduce_prod"

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        (x,) = args
        product = self.host_function(array_type(x.shape, x.dtype))(x)
        return (np.asarray(product).astype(x.dtype, copy=False),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        (x,) = avals
        if x.dtype in COMPLEXES and x.size:  # whose products of what isn't finite depend on the order
            return partial(complex_values.product, axes=self.axes)
        return reduction(np.multiply, self.axes, x)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (x,), (t,) = primals, tangents
        outs = ctx.bind(self, x)
        zero = Zero(ctx.aval(outs[0]).tangent)
        if isinstance(t, Zero) or ctx.aval(x).size == 0:
            return outs, [zero]
        return outs, [product_tangent(ctx, x, t, self.axes)]


@frozen
class Choice(Reduction):
    """Chooses one of the elements along `axes`. Where several are chosen, each has an equal share of the tangent."""

    #: Of two arrays, the chosen elements.
    choose: ClassVar[np.ufunc]

    @abstractmethod
    def identity(self, dtype: DType) -> Scalar:
        """What is chosen of no elements."""

    @property
    def keeps_nan(self) -> bool:
        """Whether it is nan if there is one."""
        return True

    @override
    def result_dtype(self, x: ShapedArray) -> DType:
        check_dtype(self.name, x.dtype, SUPPORTED)
        return x.dtype

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        (x,) = args
        if x.size == 0:
            shape = [n for i, n in enumerate(x.shape) if i not in self.axes]
            return (np.full(shape, self.identity(x.dtype), x.dtype),)
        return (np.asarray(self._chosen(x.dtype)(x)),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        (x,) = avals
        if x.size and x.dtype in FLOATS:
            return kernels.extreme(type(self).choose, x, self.axes)
        return self._chosen(x.dtype) if x.size else super().host_function(x)

    def _chosen(self, dtype: DType) -> Callable[..., HostArray | np.generic]:
        choose = type(self).choose
        if dtype in WIDE:
            chosen = self._chosen(WIDE[dtype])
            return lambda x: np.asarray(chosen(x.astype(WIDE[dtype]))).astype(dtype)
        if dtype in FLOATS:
            return partial(numpy_values.reduced, choose, axes=self.axes)
        return partial(choose.reduce, axis=self.axes)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (x,), (t,) = primals, tangents
        (out,) = ctx.bind(self, x)
        if isinstance(t, Zero):
            return [out], zero_tangents(ctx, [out])
        aval = ctx.aval(x)
        kept = tuple(i for i in range(aval.ndim) if i not in self.axes)
        # Of a nan, which equals nothing, every share is nan. Selections say so: XLA takes what is multiplied by a truth
        # value, or is divided, for a number.
        lost = [ne(ctx, out, out)] if self.keeps_nan else []
        found, *everywhere = (broadcast_in_dim(ctx, v, aval.shape, kept) for v in (out, *lost))
        chosen = reduce(partial(logical_or, ctx), everywhere, eq(ctx, x, found))
        count = reduce_sum(ctx, convert(ctx, chosen, ctx.aval(t).dtype), self.axes)
        share = reciprocal(ctx, count)
        if lost:
            share = select(ctx, lost[0], constant_like(ctx, count, math.nan), share)
        nothing = broadcast_in_dim(ctx, constant_like(ctx, share, 0), aval.shape, ())
        shares = select(ctx, chosen, broadcast_in_dim(ctx, share, aval.shape, kept), nothing)
        return [out], [reduce_sum(ctx, mul(ctx, t, shares), self.axes)]


@final
class NanMode(enum.Enum):
    """What a maximum is of which nobody asks whether there is a nan: nan, or that of the numbers. So it is where it's
    subtracted from all of them before exponentials are added up, as a nan stays one there."""

    EITHER = "either"


@final
@frozen
class ReduceMax(Choice):
    """The maximum over `axes`: nan if there is one, unless `nan_mode` says that either would do; -inf or the lowest
    number of no elements."""

    nan_mode: NanMode | None = None
    name: ClassVar[str] = "reduce_max"
    choose: ClassVar[np.ufunc] = np.maximum

    @override
    def identity(self, dtype: DType) -> Scalar:
        return lowest(dtype)

    @property
    @override
    def keeps_nan(self) -> bool:
        return self.nan_mode is None


@final
@frozen
class ReduceMin(Choice):
    """The minimum over `axes`: nan if there is one, inf or the highest number of no elements."""

    name: ClassVar[str] = "reduce_min"
    choose: ClassVar[np.ufunc] = np.minimum

    @override
    def identity(self, dtype: DType) -> Scalar:
        return highest(dtype)


@frozen
class BitwiseReduction(Reduction):
    """Combines the bits of the elements along `axes`."""

    combine: ClassVar[np.ufunc]

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        (out,) = super().type_of(*avals)
        return (out.strengthen(),)

    @override
    def result_dtype(self, x: ShapedArray) -> DType:
        check_dtype(self.name, x.dtype, INTEGERS | {BOOL})
        return x.dtype

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.asarray(type(self).combine.reduce(args[0], axis=self.axes)),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        combine = type(self).combine.reduce
        return combine if self.axes == (0,) else partial(combine, axis=self.axes)


@final
@frozen
class ReduceAnd(BitwiseReduction):
    """Whether all are true; of integers, the bits that all have."""

    name: ClassVar[str] = "reduce_and"
    combine: ClassVar[np.ufunc] = np.bitwise_and


@final
@frozen
class ReduceOr(BitwiseReduction):
    """Whether any is true; of integers, the bits that any has."""

    name: ClassVar[str] = "reduce_or"
    combine: ClassVar[np.ufunc] = np.bitwise_or


@final
@frozen
class ReduceXor(BitwiseReduction):
    """Whether an odd number is true; of integers, the bits that an odd number has."""

    name: ClassVar[str] = "reduce_xor"
    combine: ClassVar[np.ufunc] = np.bitwise_xor


@frozen
class Position(Primitive):
    """The index, along the one axis in `axes`, of the first element that is chosen. The first nan, if there is one."""

    axes: tuple[int, ...]
    index_dtype: DType
    plain: ClassVar[bool] = True

    @abstractmethod
    def find(self, x: HostArray) -> HostArray:
        """The positions along the axis."""

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,), axes = avals, self.axes
        check_dtype(self.name, x.dtype, SUPPORTED - COMPLEXES)
        if len(axes) != 1:
            raise shape_error(self.name, f"it reduces over one axis, got {axes}")
        check_axes(self.name, axes, x.ndim)
        if x.shape[axes[0]] == 0:
            raise shape_error(self.name, f"axis {axes[0]} of {x} has no elements")
        if self.index_dtype not in INTEGERS:
            raise TypingError(f"{self.name}: index_dtype must be an integer dtype, got {short_name(self.index_dtype)}")
        return (array_type(unmapped(x.shape, axes[0]), self.index_dtype),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        (x,) = args
        return (self.find(x.astype(accumulator(x.dtype), copy=False)).astype(self.index_dtype),)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (out,) = ctx.bind(self, *primals)
        return [out], zero_tangents(ctx, [out])

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        at = axes[0] or 0
        (moved,) = shift_axes(self.axes, at)
        return ctx.bind(type(self)((moved,), self.index_dtype), *args), [at - (moved < at)]


@final
@frozen
class ArgMax(Position):
    """Where the largest element along an axis is: the first such, or the first nan. Its dtype is `index_dtype`."""

    name: ClassVar[str] = "argmax"

    @override
    def find(self, x: HostArray) -> HostArray:
        return np.asarray(np.argmax(x, self.axes[0]))


@final
@frozen
class ArgMin(Position):
    """Where the smallest element along an axis is: the first such, or the first nan. Its dtype is `index_dtype`."""

    name: ClassVar[str] = "argmin"

    @override
    def find(self, x: HostArray) -> HostArray:
        return np.asarray(np.argmin(x, self.axes[0]))


# The vocabulary.


def reduce_prod(ctx: Context[V], x: V, axes: tuple[int, ...]) -> V:
    """The product over these axes."""
    return ctx.bind(ReduceProd(axes), x)[0]


def reduce_max(ctx: Context[V], x: V, axes: tuple[int, ...]) -> V:
    """The largest element over these axes; nan wins."""
    return ctx.bind(ReduceMax(axes), x)[0]


def reduce_min(ctx: Context[V], x: V, axes: tuple[int, ...]) -> V:
    """The smallest element over these axes; nan wins."""
    return ctx.bind(ReduceMin(axes), x)[0]


def reduce_and(ctx: Context[V], x: V, axes: tuple[int, ...]) -> V:
    """The bits that are set in all elements over these axes; of bools, whether all are True."""
    return ctx.bind(ReduceAnd(axes), x)[0]


def reduce_or(ctx: Context[V], x: V, axes: tuple[int, ...]) -> V:
    """The bits that are set in any element over these axes; of bools, whether any is True."""
    return ctx.bind(ReduceOr(axes), x)[0]


def reduce_xor(ctx: Context[V], x: V, axes: tuple[int, ...]) -> V:
    """The bits that are set in an odd number of elements over these axes."""
    return ctx.bind(ReduceXor(axes), x)[0]


def argmax(ctx: Context[V], x: V, axis: int, index_dtype: DType) -> V:
    """Where the largest element along an axis is: the first such, or the first nan."""
    return ctx.bind(ArgMax((axis,), index_dtype), x)[0]


def argmin(ctx: Context[V], x: V, axis: int, index_dtype: DType) -> V:
    """Where the smallest element along an axis is: the first such, or the first nan."""
    return ctx.bind(ArgMin((axis,), index_dtype), x)[0]
