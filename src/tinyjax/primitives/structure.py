"""Broadcasting, permuting and summing over axes: what every other rule needs to line arrays up.

The classes come first, then the vocabulary: functions that apply them to the values of any context.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import methodcaller
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.caching import bounded
from tinyjax.errors import ShapeError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INEXACT,
    INT64,
    KEYS,
    NUMERIC,
    UINT64,
    WIDE,
    DType,
    HostArray,
    Scalar,
    may_be_key,
    short_name,
)
from tinyjax.ir.literals import python_scalar
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.program import Literal
from tinyjax.ir.result_types import made_once
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.tangents import zero_tangents
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives import numpy_values

V = TypeVar("V")


def shape_error(name: str, problem: str) -> ShapeError:
    return ShapeError(f"{name}: {problem}")


def accumulator(dtype: DType) -> DType:
    """The dtype to add or multiply many numbers in: half precision is not enough for that."""
    return FLOAT32 if dtype in (FLOAT16, BFLOAT16) else WIDE.get(dtype, dtype)


def reduction(operator: np.ufunc, axes: tuple[int, ...], x: ShapedArray) -> Callable[..., HostArray | np.generic]:
    """What combines the numbers of an array over axes, in a dtype that is wide enough, which the result may have.

    One number alone is left as it is: NumPy would add it to 0, or multiply it by 1, which changes -0.0 and infinities.
    """
    wide = accumulator(x.dtype)
    if x.size and x.dtype in INEXACT and all(x.shape[axis] == 1 for axis in axes):
        return partial(np.squeeze, axis=axes)
    own = x.dtype == wide and x.dtype in _REDUCED_AS_THEY_ARE
    if own and axes == (0,):
        return operator.reduce  # along the first axis, and in less time than if that is said
    return partial(operator.reduce, axis=axes) if own else partial(operator.reduce, axis=axes, dtype=wide)


#: NumPy adds and multiplies other integers as wider ones. To name a dtype takes it some time, though.
_REDUCED_AS_THEY_ARE: Final = INEXACT | {INT64, UINT64}


def check_arity(name: str, avals: Sequence[ShapedArray], arity: int) -> None:
    """A TypingError unless there are this many operands."""
    if len(avals) != arity:
        raise TypingError(f"{name} takes {arity} operand{'s' * (arity != 1)}, got {len(avals)}")


def check_axes(name: str, axes: Sequence[int], ndim: int) -> None:
    """A ShapeError unless these are distinct axes of an array with `ndim` dimensions."""
    if any(not 0 <= axis < ndim for axis in axes) or len(set(axes)) != len(axes):
        raise shape_error(name, f"axes {tuple(axes)} are not distinct axes of an array with {ndim} dimensions")


def linear_jvp(primitive: Primitive, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
    """The rule of a linear function of one operand."""
    outs, (t,) = ctx.bind(primitive, *primals), tangents
    return outs, zero_tangents(ctx, outs) if isinstance(t, Zero) else ctx.bind(primitive, t)


@frozen
class Linear(Primitive):
    """A linear function of one operand: its tangent is the function applied to the operand's tangent."""

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((0,),)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        return linear_jvp(self, ctx, primals, tangents)


@final
@frozen
class BroadcastInDim(Linear):
    """Places the operand's axes at `broadcast_dimensions` of a larger shape and repeats it along the others.

    An operand axis may also have size 1 where the result's is larger.
    """

    shape: Shape
    broadcast_dimensions: tuple[int, ...]
    name: ClassVar[str] = "broadcast_in_dim"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,) = avals
        dims = self.broadcast_dimensions
        check_axes(self.name, dims, len(self.shape))
        if len(dims) != x.ndim or list(dims) != sorted(dims):
            raise shape_error(self.name, f"broadcast_dimensions {dims} must name an axis of {self.shape}, in order, "
                              f"for each axis of the operand {x}")  # fmt: skip
        if any(size not in (1, self.shape[dim]) for size, dim in zip(x.shape, dims, strict=True)):
            raise shape_error(self.name, f"{x} can't be broadcast to {self.shape} along {dims}")
        return (array_type(self.shape, x.dtype, x.weak_type),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        (x,) = args
        return (np.broadcast_to(x.reshape(self._sizes(x.shape)), self.shape),)

    def _sizes(self, shape: Shape) -> Shape:
        """The operand's shape, with an axis of size 1 for each new one."""
        sizes = [1] * len(self.shape)
        for size, dim in zip(shape, self.broadcast_dimensions, strict=True):
            sizes[dim] = size
        return tuple(sizes)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        sizes, shape = self._sizes(avals[0].shape), self.shape
        if sizes == shape:
            return methodcaller("reshape", shape)
        return numpy_values.broadcaster(sizes, shape, avals[0].dtype)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        x = move_axis(ctx, args[0], axes[0] or 0, 0)
        dims = (0, *(dim + 1 for dim in self.broadcast_dimensions))
        return ctx.bind(BroadcastInDim((axis.size, *self.shape), dims), x), [0]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x,) = cotangents, args
        if isinstance(ct, Zero) or not isinstance(x, UndefPrimal):
            return [None]
        shape = x.aval.shape
        stretched = [d for d, n in zip(self.broadcast_dimensions, shape, strict=True) if n == 1 != self.shape[d]]
        added = [dim for dim in range(len(self.shape)) if dim not in self.broadcast_dimensions]
        summed = reduce_sum(ctx, ct, tuple(sorted(added + stretched)))
        if not stretched:
            return [summed]
        kept = [i for i, dim in enumerate(self.broadcast_dimensions) if dim not in stretched]
        return [broadcast_in_dim(ctx, summed, shape, tuple(kept))]


@final
@frozen
class Transpose(Linear):
    """Permutes the axes: axis i of the result is axis `permutation[i]` of the operand."""

    permutation: tuple[int, ...]
    name: ClassVar[str] = "transpose"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,) = avals
        if sorted(self.permutation) != list(range(x.ndim)):
            raise shape_error(self.name, f"{self.permutation} is not a permutation of the axes of {x}")
        return (array_type(tuple(x.shape[i] for i in self.permutation), x.dtype, x.weak_type),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.transpose(args[0], self.permutation),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return methodcaller("transpose", self.permutation)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        at = axes[0] or 0
        permutation = (at, *(i + (i >= at) for i in self.permutation))
        return ctx.bind(made_once(Transpose, permutation), *args), [0]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,) = cotangents
        if isinstance(ct, Zero):
            return [ct]
        inverse = sorted(range(len(self.permutation)), key=self.permutation.__getitem__)
        return ctx.bind(Transpose(tuple(inverse)), ct)


@frozen
class Reduction(Primitive):
    """Reduces over `axes`, which disappear."""

    axes: tuple[int, ...]
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,) = avals
        check_axes(self.name, self.axes, x.ndim)
        shape = tuple(size for i, size in enumerate(x.shape) if i not in self.axes)
        return (array_type(shape, self.result_dtype(x), x.weak_type),)

    def result_dtype(self, x: ShapedArray) -> DType:
        """The dtype of the result; a TypingError if the operand's isn't accepted."""
        if x.dtype not in NUMERIC:
            raise TypingError(f"{self.name} does not accept {short_name(x.dtype)} operands; it needs numbers")
        return x.dtype

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        at = axes[0] or 0
        moved = tuple(i + (i >= at) for i in self.axes)
        return ctx.bind(evolve(self, axes=moved), *args), [at - sum(i < at for i in moved)]


@final
@frozen
class ReduceSum(Reduction):
    """The sum over `axes`."""

    name: ClassVar[str] = "reduce_sum"

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((0,),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        (x,) = args
        total = reduction(np.add, self.axes, array_type(x.shape, x.dtype))(x)
        return (np.asarray(total).astype(x.dtype, copy=False),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return reduction(np.add, self.axes, avals[0])

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        return linear_jvp(self, ctx, primals, tangents)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x,) = cotangents, args
        if isinstance(ct, Zero) or not isinstance(x, UndefPrimal):
            return [None]
        kept = tuple(i for i in range(x.aval.ndim) if i not in self.axes)
        return [broadcast_in_dim(ctx, ct, x.aval.shape, kept)]


# The vocabulary.


def broadcast_in_dim(ctx: Context[V], x: V, shape: Shape, dims: tuple[int, ...]) -> V:
    """x with its axes at `dims` of `shape`; x itself if nothing changes."""
    if ctx.aval(x).shape == shape:
        return x
    return ctx.bind(made_once(BroadcastInDim, shape, dims), x)[0]


def reduce_sum(ctx: Context[V], x: V, axes: tuple[int, ...]) -> V:
    """The sum over `axes`; x itself if there are none."""
    return ctx.bind(made_once(ReduceSum, axes), x)[0] if axes else x


def permute(ctx: Context[V], x: V, permutation: tuple[int, ...]) -> V:
    """x with its axes permuted; x itself if nothing moves."""
    if permutation == tuple(range(len(permutation))):
        return x
    return ctx.bind(made_once(Transpose, permutation), x)[0]


def move_axis(ctx: Context[V], x: V, source: int, destination: int) -> V:
    """x with one axis moved."""
    if source == destination:
        return x
    order = [i for i in range(ctx.aval(x).ndim) if i != source]
    order.insert(destination, source)
    return permute(ctx, x, tuple(order))


def with_leading_axis(ctx: Context[V], x: V, at: int | None, size: int, shape: Shape) -> V:
    """x as an array of shape `(size, *shape)`, its mapped axis first.

    `at` is where the mapped axis is; None: x is repeated along it. Apart from that axis, x has shape `shape`, or is a
    scalar, which is repeated to fill it.
    """
    if at is None:
        ndim = ctx.aval(x).ndim
        return broadcast_in_dim(ctx, x, (size, *shape), tuple(range(1, ndim + 1)))
    return broadcast_in_dim(ctx, move_axis(ctx, x, at, 0), (size, *shape), (0,))


def check_elements(primitive: Primitive, avals: Sequence[ShapedArray], axes: Sequence[int | None]) -> None:
    """The error for operands of these types without their mapped axes: with these they may seem to fit."""
    each = [
        x if at is None else array_type(x.shape[:at] + x.shape[at + 1 :], x.dtype)
        for x, at in zip(avals, axes, strict=True)
    ]
    primitive.type_of(*each)


def broadcast_scalar(ctx: Context[V], x: V, shape: Shape) -> V:
    """x itself, or a scalar x repeated to fill `shape`."""
    return broadcast_in_dim(ctx, x, shape, ()) if ctx.aval(x).shape == () else x


def unbroadcast(ctx: Context[V], x: V, shape: Shape) -> V:
    """The transpose of `broadcast_scalar`: x summed to a scalar if `shape` is one."""
    aval = ctx.aval(x)
    return reduce_sum(ctx, x, tuple(range(aval.ndim))) if shape == () else x


def literal_for(aval: ShapedArray, value: Scalar) -> Literal:
    """A scalar of the dtype of `aval` that never changes the type of what it is combined with."""
    dtype = aval.dtype
    weak = aval.weak_type or dtype in (FLOAT64, INT64)
    return _literal(value, dtype, weak) if may_be_key(value) else _new_literal(value, dtype, weak)


def _new_literal(value: Scalar, dtype: DType, weak: bool) -> Literal:
    return Literal(python_scalar(value, dtype), array_type((), dtype, weak))


_literal: Final = bounded(4096, typed=True)(_new_literal)


def constant_like(ctx: Context[V], x: V, value: Scalar) -> V:
    """A scalar constant of the dtype of x."""
    return ctx.constant(literal_for(ctx.aval(x), value))


def full(ctx: Context[V], aval: ShapedArray, value: Scalar) -> V:
    """An array of this type filled with one value. Of keys there is only the one that is 0."""
    if aval.dtype in KEYS:
        return broadcast_in_dim(ctx, ctx.constant(ConcreteValue.of(np.zeros((), aval.dtype))), aval.shape, ())
    scalar = ctx.constant(
        Literal(python_scalar(value, aval.dtype), array_type((), aval.dtype, aval.weak_type, aval.axes))
    )
    return broadcast_in_dim(ctx, scalar, aval.shape, ())


def instantiate(ctx: Context[V], value: V | Zero) -> V:
    """A tangent or cotangent with its elements."""
    return full(ctx, value.aval, 0) if isinstance(value, Zero) else value
