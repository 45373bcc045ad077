"""The same elements seen in another shape or order: reshape, squeeze, rev; and iota, which counts.

The classes come first, then the vocabulary. Slices, paddings and joins are in `slicing`, stacks in
`stacking`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import ClassVar, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import NUMERIC, DType, HostArray, short_name
from tinyjax.ir.primitive import BatchAxis, Primitive, UndefPrimal, Zero
from tinyjax.ir.result_types import made_once
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives import kernels
from tinyjax.primitives.structure import Linear, broadcast_in_dim, check_arity, check_axes, move_axis, shape_error

V = TypeVar("V")


def shift_axes(axes: tuple[int, ...], at: int) -> tuple[int, ...]:
    """The same axes once a new one has been inserted at `at`."""
    return tuple(axis + (axis >= at) for axis in axes)


@final
@frozen
class Reshape(Linear):
    """The same elements, in row-major order, in another shape."""

    new_sizes: Shape
    name: ClassVar[str] = "reshape"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,) = avals
        if any(size < 0 for size in self.new_sizes):
            raise shape_error(self.name, f"the new sizes must be at least 0, got {self.new_sizes}")
        out = array_type(self.new_sizes, x.dtype, x.weak_type)
        if out.size != x.size:
            raise shape_error(
                self.name, f"can't give {x} the shape {self.new_sizes}: {x.size} elements, not {out.size}"
            )
        return (out,)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (args[0].reshape(self.new_sizes),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return methodcaller("reshape", self.new_sizes)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        x = move_axis(ctx, args[0], axes[0] or 0, 0)
        return ctx.bind(Reshape((axis.size, *self.new_sizes)), x), [0]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x,) = cotangents, args
        if isinstance(ct, Zero) or not isinstance(x, UndefPrimal):
            return [None]
        return [reshape(ctx, ct, x.aval.shape)]


@final
@frozen
class Squeeze(Linear):
    """Drops axes of size 1."""

    dimensions: tuple[int, ...]
    name: ClassVar[str] = "squeeze"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,) = avals
        check_axes(self.name, self.dimensions, x.ndim)
        if any(x.shape[dim] != 1 for dim in self.dimensions):
            raise shape_error(self.name, f"axes {self.dimensions} of {x} are not all of size 1")
        shape = tuple(size for dim, size in enumerate(x.shape) if dim not in self.dimensions)
        return (array_type(shape, x.dtype, x.weak_type),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.squeeze(args[0], self.dimensions),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return methodcaller("squeeze", self.dimensions)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        at = axes[0] or 0
        moved = shift_axes(self.dimensions, at)
        return ctx.bind(made_once(Squeeze, moved), *args), [at - sum(dim < at for dim in moved)]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,) = cotangents
        return [ct if isinstance(ct, Zero) else expand_dims(ctx, ct, self.dimensions)]


@final
@frozen
class Rev(Linear):
    """Reverses the order of the elements along `dimensions`."""

    dimensions: tuple[int, ...]
    name: ClassVar[str] = "rev"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        check_axes(self.name, self.dimensions, avals[0].ndim)
        return avals

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.flip(args[0], self.dimensions),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return kernels.reversal(self.dimensions, avals[0].ndim)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        at = axes[0] or 0
        return ctx.bind(Rev(shift_axes(self.dimensions, at)), *args), [at]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,) = cotangents
        return [ct if isinstance(ct, Zero) else rev(ctx, ct, self.dimensions)]


@final
@frozen
class Iota(Primitive):
    """Counts from 0 along one axis."""

    dtype: DType
    shape: Shape
    dimension: int
    name: ClassVar[str] = "iota"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 0)
        if self.dtype not in NUMERIC:
            raise TypingError(f"iota can't count in {short_name(self.dtype)}; it needs a dtype of numbers")
        if any(size < 0 for size in self.shape):
            raise shape_error(self.name, f"the sizes of the shape must be at least 0, got {self.shape}")
        check_axes(self.name, (self.dimension,), len(self.shape))
        return (array_type(self.shape, self.dtype),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        at, size = self.dimension, self.shape[self.dimension]
        sizes = [1] * len(self.shape)
        sizes[at] = size
        return (np.broadcast_to(np.arange(size).astype(self.dtype).reshape(sizes), self.shape),)


# The vocabulary.


def reshape(ctx: Context[V], x: V, shape: Shape) -> V:
    """x in another shape; x itself if it has that shape."""
    return x if ctx.aval(x).shape == shape else ctx.bind(made_once(Reshape, shape), x)[0]


def divide_axis(ctx: Context[V], x: V, at: int, parts: int) -> V:
    """x with an axis as two: the number of the part, and the place in it."""
    shape = ctx.aval(x).shape
    return reshape(ctx, x, (*shape[:at], parts, shape[at] // parts, *shape[at + 1 :]))


def squeeze(ctx: Context[V], x: V, dimensions: tuple[int, ...]) -> V:
    """x without these axes, which have size 1."""
    return ctx.bind(made_once(Squeeze, dimensions), x)[0] if dimensions else x


def expand_dims(ctx: Context[V], x: V, dimensions: tuple[int, ...]) -> V:
    """x with new axes of size 1, which are at `dimensions` of the result."""
    sizes = iter(ctx.aval(x).shape)
    ndim = ctx.aval(x).ndim + len(dimensions)
    kept = tuple(dim for dim in range(ndim) if dim not in dimensions)
    shape = tuple(1 if dim in dimensions else next(sizes) for dim in range(ndim))
    return broadcast_in_dim(ctx, x, shape, kept)


def rev(ctx: Context[V], x: V, dimensions: tuple[int, ...]) -> V:
    """x reversed along these axes."""
    return ctx.bind(Rev(dimensions), x)[0] if dimensions else x


def iota(ctx: Context[V], dtype: DType, shape: Shape, dimension: int) -> V:
    """An array that counts along one axis."""
    return ctx.bind(Iota(dtype, shape, dimension))[0]
