"""Sorting along an axis, of several arrays together; and the greatest elements along one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import (
    BOOL,
    COMPLEXES,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT32,
    INT64,
    INTEGERS,
    MOVABLE,
    SUPPORTED,
    HostArray,
)
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Zero
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.elementwise import check_dtype, unmapped
from tinyjax.primitives.gather import permuted
from tinyjax.primitives.shaping import iota
from tinyjax.primitives.structure import accumulator, check_arity, check_axes, shape_error, with_leading_axis

V = TypeVar("V")


#: What NumPy sorts the same way.
_SORTED_BY_NUMPY: Final = INTEGERS | {BOOL, FLOAT32, FLOAT64}


@final
@frozen
class Sort(Primitive):
    """Sorts along `dimension` by the first `num_keys` operands, the first one first; the others follow.

    nan comes last. -0.0 and 0.0 are equal, and so are all nans. Complex numbers are compared by their real parts, then
    by their imaginary ones. If `is_stable`, equal elements stay in order.
    """

    dimension: int
    is_stable: bool = True
    num_keys: int = 1
    name: ClassVar[str] = "sort"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        if not avals:
            raise shape_error(self.name, "at least one array is needed")
        for i, aval in enumerate(avals):
            check_dtype(self.name, aval.dtype, SUPPORTED if i < self.num_keys else MOVABLE)
        if any(aval.shape != avals[0].shape for aval in avals):
            raise shape_error(self.name, f"the arrays differ in shape: {', '.join(map(str, avals))}")
        check_axes(self.name, (self.dimension,), avals[0].ndim)
        if not 1 <= self.num_keys <= len(avals):
            raise shape_error(self.name, f"num_keys must be between 1 and {len(avals)}, the number of arrays, got "
                              f"{self.num_keys}")  # fmt: skip
        return avals

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        keys: list[HostArray] = []
        for arg in args[: self.num_keys]:
            if arg.dtype in COMPLEXES:
                keys += [arg.real, arg.imag]
            else:
                keys.append(arg.astype(accumulator(arg.dtype), copy=False))
        order = np.lexsort(keys[::-1], self.dimension)
        return tuple(np.take_along_axis(arg, order, self.dimension) for arg in args)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        known = len(avals) == 1 and avals[0].dtype in _SORTED_BY_NUMPY
        return partial(np.sort, axis=self.dimension, kind="stable") if known else super().host_function(*avals)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        aval = ctx.aval(primals[0])
        dtype = INT32 if aval.shape[self.dimension] <= np.iinfo(np.int32).max else INT64
        *outs, order = ctx.bind(self, *primals, iota(ctx, dtype, aval.shape, self.dimension))
        moved = [t if isinstance(t, Zero) else permuted(ctx, t, order, self.dimension) for t in tangents]
        return outs, moved

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        mapped = {at for at in axes if at is not None}
        if len(mapped) == 1 and None not in axes:
            (at,) = mapped
            return ctx.bind(self._along(self.dimension + (self.dimension >= at)), *args), [at] * len(args)
        moved = [
            with_leading_axis(ctx, arg, at, axis.size, unmapped(ctx.aval(arg).shape, at))
            for arg, at in zip(args, axes, strict=True)
        ]
        return ctx.bind(self._along(self.dimension + 1), *moved), [0] * len(args)

    def _along(self, dimension: int) -> Sort:
        return Sort(dimension, self.is_stable, self.num_keys)


@final
@frozen
class TopK(Primitive):
    """The k greatest elements along an axis, the greatest first, and their int32 indices; of equal ones the first.

    Floats are in the total order of IEEE 754: nan, inf, …, 0.0, -0.0, …, -inf, and nan with a sign.
    """

    axis: int
    k: int
    name: ClassVar[str] = "top_k"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,), axis, k = avals, self.axis, self.k
        check_dtype(self.name, x.dtype, SUPPORTED - COMPLEXES)
        check_axes(self.name, (axis,), x.ndim)
        if not 0 <= k <= x.shape[axis]:
            raise shape_error(self.name, f"k must be between 0 and the size of axis {axis} of {x}, got {k}")
        if x.shape[axis] > 2**31:
            raise shape_error(self.name, f"it returns int32 indices, which don't reach along axis {axis} of {x}")
        shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
        return array_type(shape, x.dtype, x.weak_type), array_type(shape, INT32, x.weak_type)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        (x,) = args
        if self.axis == x.ndim - 1:
            found = _greatest(_in_total_order(x), self.k)
        else:
            found = np.moveaxis(_greatest(_in_total_order(np.moveaxis(x, self.axis, -1)), self.k), -1, self.axis)
        return np.take_along_axis(x, found, self.axis), found.astype(INT32)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        values, places = ctx.bind(self, *primals)
        (t,) = tangents
        moved: V | Zero = Zero(ctx.aval(values).tangent) if isinstance(t, Zero) else permuted(ctx, t, places, self.axis)
        return [values, places], [moved, Zero(ctx.aval(places).tangent)]

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        at = axes[0] or 0
        return ctx.bind(TopK(self.axis + (self.axis >= at), self.k), *args), [at, at]


#: Rows that are sorted whole sooner than parted.
_SHORT: Final = 256


def _in_total_order(x: HostArray) -> HostArray:
    """Numbers in whose order floats are in their total order: their bits, all but the sign turned if there is one."""
    x = x.astype(accumulator(x.dtype), copy=False)
    if x.dtype not in FLOATS:
        return x
    if x.dtype == FLOAT64:
        bits = x.view(np.int64)
        return np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
    fewer = x.view(np.int32)
    return np.where(fewer < 0, fewer ^ np.iinfo(np.int32).max, fewer)


def _greatest(keys: HostArray, k: int) -> HostArray:
    """The indices of the k greatest along the last axis, the greatest first, of equal ones the first."""
    size = keys.shape[-1]
    if k == 0 or keys.size == 0:
        return np.zeros((*keys.shape[:-1], k), np.intp)
    if size <= _SHORT:
        return np.argsort(~keys, -1, kind="stable")[..., :k]
    least = np.partition(keys, size - k, -1)[..., size - k, None]
    above, even = keys > least, keys == least
    room = k - np.count_nonzero(above, -1, keepdims=True)
    chosen = above | (even & (np.cumsum(even, -1) <= room))
    places = np.nonzero(chosen)[-1].reshape(*keys.shape[:-1], k)
    # A stable sort of the reversed, read from the end, keeps the first of equal ones first.
    order = np.argsort(np.take_along_axis(keys, places, -1)[..., ::-1], -1, kind="stable")[..., ::-1]
    return np.take_along_axis(places, k - 1 - order, -1)


# The vocabulary.


def sort(ctx: Context[V], *operands: V, dimension: int, num_keys: int = 1) -> tuple[V, ...]:
    """The operands, sorted along `dimension` by the first `num_keys` of them."""
    return ctx.bind(Sort(dimension, True, num_keys), *operands)


def top_k(ctx: Context[V], x: V, k: int, axis: int) -> tuple[V, V]:
    """The k greatest elements along an axis, and where they are."""
    values, places = ctx.bind(TopK(axis, k), x)
    return values, places
