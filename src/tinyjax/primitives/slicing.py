"""Cutting arrays up and joining them: slice, pad, concatenate, split. They are each other's transposes.

The classes come first, then the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import ClassVar, TypeAlias, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import BOOL, HostArray, Scalar
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.shapes import inserted
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives import kernels
from tinyjax.primitives.elementwise import common_dtype, unmapped
from tinyjax.primitives.selection import select
from tinyjax.primitives.structure import (
    Linear,
    broadcast_in_dim,
    check_arity,
    check_axes,
    constant_like,
    full,
    instantiate,
    reduce_sum,
    shape_error,
    with_leading_axis,
)

V = TypeVar("V")
#: For each axis: elements added before, after, and between each two. Negative ones before and after remove elements.
PaddingConfig: TypeAlias = tuple[tuple[int, int, int], ...]


def _list(avals: Sequence[ShapedArray]) -> str:
    return ", ".join(map(str, avals))


@final
@frozen
class Slice(Linear):
    """Elements `start`, `start + stride`, … below `limit` along each axis. No strides: they are all 1."""

    start_indices: tuple[int, ...]
    limit_indices: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    name: ClassVar[str] = "slice"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,) = avals
        starts, limits, strides = self.start_indices, self.limit_indices, self._strides()
        if not len(starts) == len(limits) == len(strides) == x.ndim:
            raise shape_error(self.name, f"one start, limit and stride for each axis of {x} are needed, got "
                              f"{starts}, {limits} and {self.strides}")  # fmt: skip
        if any(not 0 <= start <= limit <= n for start, limit, n in zip(starts, limits, x.shape, strict=True)):
            raise shape_error(self.name, f"starts {starts} and limits {limits} must lie within {x}, each start at most "
                              "its limit")  # fmt: skip
        if any(stride < 1 for stride in strides):
            raise shape_error(self.name, f"strides must be at least 1, got {strides}")
        bounds = zip(starts, limits, strides, strict=True)
        shape = tuple(len(range(start, limit, stride)) for start, limit, stride in bounds)
        return (array_type(shape, x.dtype, x.weak_type),)

    def _strides(self) -> tuple[int, ...]:
        return (1,) * len(self.start_indices) if self.strides is None else self.strides

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (args[0][self._key()],)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return itemgetter(self._key())

    def _key(self) -> tuple[slice, ...]:
        bounds = zip(self.start_indices, self.limit_indices, self._strides(), strict=True)
        return tuple(slice(start, limit, stride) for start, limit, stride in bounds)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        at = axes[0] or 0
        starts = inserted(self.start_indices, at, 0)
        limits = inserted(self.limit_indices, at, axis.size)
        strides = None if self.strides is None else inserted(self.strides, at, 1)
        return ctx.bind(Slice(starts, limits, strides), *args), [at]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x,) = cotangents, args
        if isinstance(ct, Zero) or not isinstance(x, UndefPrimal):
            return [None]
        config = []
        for n, start, stride, total in zip(
            ctx.aval(ct).shape, self.start_indices, self._strides(), x.aval.shape, strict=True
        ):
            covered = (n - 1) * stride + 1 if n else 0
            config.append((start, total - start - covered, stride - 1))
        return [pad(ctx, ct, tuple(config))]


@frozen
class Joint(Primitive):
    """Linear in all its operands together; they have one dtype."""

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return (range(arity),)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        return ctx.bind(self, *primals), ctx.bind(self, *[instantiate(ctx, t) for t in tangents])


@final
@frozen
class Concatenate(Joint):
    """Joins arrays along an axis that they have."""

    dimension: int
    name: ClassVar[str] = "concatenate"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        if not avals:
            raise shape_error(self.name, "at least one array is needed")
        dtype, first, at = common_dtype(self.name, avals), avals[0], self.dimension
        if any(aval.ndim != first.ndim for aval in avals):
            raise shape_error(self.name, f"the arrays have different numbers of axes: {_list(avals)}")
        if not 0 <= at < first.ndim:
            raise shape_error(self.name, f"{_list(avals)} have no axis {at}")
        rest = unmapped(first.shape, at)
        if any(unmapped(aval.shape, at) != rest for aval in avals):
            raise shape_error(self.name, f"{_list(avals)} differ in other axes than axis {at}, along which they are "
                              "joined")  # fmt: skip
        shape = inserted(rest, at, sum(aval.shape[at] for aval in avals))
        return (array_type(shape, dtype, all(aval.weak_type for aval in avals)),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.concatenate(args, self.dimension),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return kernels.concatenation(self.dimension)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        moved = []
        for arg, at in zip(args, axes, strict=True):
            moved.append(with_leading_axis(ctx, arg, at, axis.size, unmapped(ctx.aval(arg).shape, at)))
        return ctx.bind(Concatenate(self.dimension + 1), *moved), [0]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,) = cotangents
        if isinstance(ct, Zero):
            return [None] * len(args)
        parts: list[V | Zero | None] = []
        start = 0
        for arg in args:
            size = (arg.aval if isinstance(arg, UndefPrimal) else ctx.aval(arg)).shape[self.dimension]
            linear = isinstance(arg, UndefPrimal)
            parts.append(slice_in_dim(ctx, ct, start, start + size, 1, self.dimension) if linear else None)
            start += size
        return parts


@final
@frozen
class Split(Linear):
    """Cuts an array along an axis into parts of the given sizes."""

    plain: ClassVar[bool] = True
    sizes: tuple[int, ...]
    axis: int
    name: ClassVar[str] = "split"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,), at = avals, self.axis
        check_axes(self.name, (at,), x.ndim)
        if any(size < 0 for size in self.sizes) or sum(self.sizes) != x.shape[at]:
            raise shape_error(self.name, f"the sizes {self.sizes} must be at least 0 and add up to axis {at} of {x}")
        rest = unmapped(x.shape, at)
        return tuple(array_type(inserted(rest, at, size), x.dtype, x.weak_type) for size in self.sizes)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        (x,) = args
        before = (slice(None),) * self.axis
        ends = accumulate(self.sizes)
        return tuple(x[(*before, slice(end - size, end))] for size, end in zip(self.sizes, ends, strict=True))

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        at = axes[0] or 0
        return ctx.bind(Split(self.sizes, self.axis + (self.axis >= at)), *args), [at] * len(self.sizes)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        return [concatenate(ctx, [instantiate(ctx, ct) for ct in cotangents], self.axis)]


@final
@frozen
class Pad(Joint):
    """Puts a scalar, the second operand, around the elements of the first and between them.

    >>> Pad(((1, 2, 1),)).evaluate(np.array([1, 2, 3]), np.array(0))
    (array([0, 1, 0, 2, 0, 3, 0, 0]),)
    """

    padding_config: PaddingConfig
    name: ClassVar[str] = "pad"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 2)
        (x, value), config = avals, self.padding_config
        dtype = common_dtype(self.name, avals)
        if value.shape != ():
            raise shape_error(self.name, f"the padding value must be a scalar, got {value}")
        if len(config) != x.ndim or any(len(entry) != 3 for entry in config):
            raise shape_error(self.name, f"(low, high, interior) for each axis of {x} is needed, got {config}")
        if any(interior < 0 for _, _, interior in config):
            raise shape_error(self.name, f"interior padding must be at least 0, got {config}")
        shape = tuple(low + high + _dilated(n, k) for (low, high, k), n in zip(config, x.shape, strict=True))
        if any(size < 0 for size in shape):
            raise shape_error(self.name, f"{config} removes more than there is of {x}: the result would be {shape}")
        return (array_type(shape, dtype, x.weak_type and value.weak_type),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        x, value = args
        config = self.padding_config
        shape = [max(low, 0) + max(high, 0) + _dilated(n, k) for (low, high, k), n in zip(config, x.shape, strict=True)]
        out = np.full(shape, value, x.dtype)
        spread = zip(x.shape, config, strict=True)
        out[tuple(slice(max(low, 0), max(low, 0) + _dilated(n, k), k + 1) for n, (low, _, k) in spread)] = x
        kept = zip(shape, config, strict=True)
        return (out[tuple(slice(max(-low, 0), size - max(-high, 0)) for size, (low, high, _) in kept)],)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return kernels.padding(avals[0], self.padding_config) or super().host_function(*avals)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        (x, value), (at, value_at) = args, axes
        if value_at is None:
            at = at or 0
            config = (*self.padding_config[:at], (0, 0, 0), *self.padding_config[at:])
            return ctx.bind(Pad(config), x, value), [at]
        x = with_leading_axis(ctx, x, at, axis.size, unmapped(ctx.aval(x).shape, at))
        config = ((0, 0, 0), *self.padding_config)
        (out,) = ctx.bind(Pad(config), x, constant_like(ctx, x, 0))
        return [select(ctx, _occupied(ctx, x, config), out, broadcast_in_dim(ctx, value, ctx.aval(out).shape, (0,)))], [
            0
        ]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x, value) = cotangents, args
        if isinstance(ct, Zero):
            return [None, None]
        trimmed = pad(ctx, ct, tuple((-low, -high, 0) for low, high, _ in self.padding_config))
        inside = slice_(ctx, trimmed, strides=tuple(k + 1 for _, _, k in self.padding_config))
        if not isinstance(value, UndefPrimal):
            return [inside, None]
        return [inside if isinstance(x, UndefPrimal) else None, self._outside(ctx, ct, inside)]

    def _outside(self, ctx: Context[V], ct: V, inside: V) -> V:
        """The sum of the cotangents of the padding. Selected, not subtracted: the others may be infinite."""
        aval = ctx.aval(ct)
        kept = select(ctx, _occupied(ctx, inside, self.padding_config), constant_like(ctx, ct, 0), ct)
        return reduce_sum(ctx, kept, tuple(range(aval.ndim)))


def _dilated(size: int, interior: int) -> int:
    return (size - 1) * (interior + 1) + 1 if size else 0


def _occupied(ctx: Context[V], x: V, config: PaddingConfig) -> V:
    """Which elements of x, padded, are elements of x."""
    there = full(ctx, array_type(ctx.aval(x).shape, BOOL), True)
    return ctx.bind(Pad(config), there, full(ctx, array_type((), BOOL), False))[0]


# The vocabulary.


def concatenate(ctx: Context[V], parts: Sequence[V], dimension: int) -> V:
    """The arrays joined along an axis; the array itself if it is only one."""
    return parts[0] if len(parts) == 1 else ctx.bind(Concatenate(dimension), *parts)[0]


def pad(ctx: Context[V], x: V, config: PaddingConfig, value: Scalar = 0) -> V:
    """x padded with a constant; x itself if nothing is added or removed."""
    if all(entry == (0, 0, 0) for entry in config):
        return x
    return ctx.bind(Pad(config), x, constant_like(ctx, x, value))[0]


def slice_(
    ctx: Context[V],
    x: V,
    starts: tuple[int, ...] | None = None,
    limits: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> V:
    """A box within x, by default all of it; x itself if nothing is left out."""
    shape = ctx.aval(x).shape
    starts = (0,) * len(shape) if starts is None else starts
    limits = shape if limits is None else limits
    if strides is not None and all(stride == 1 for stride in strides):
        strides = None
    if strides is None and limits == shape and not any(starts):
        return x
    return ctx.bind(Slice(starts, limits, strides), x)[0]


def slice_in_dim(ctx: Context[V], x: V, start: int, limit: int, stride: int, dimension: int) -> V:
    """Elements from `start` to `limit` of one axis, all of the others."""
    shape = ctx.aval(x).shape
    starts = tuple(start if dim == dimension else 0 for dim in range(len(shape)))
    limits = tuple(limit if dim == dimension else size for dim, size in enumerate(shape))
    return slice_(ctx, x, starts, limits, tuple(stride if dim == dimension else 1 for dim in range(len(shape))))
