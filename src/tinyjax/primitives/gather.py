"""Taking windows at computed positions, and adding to them: each the transpose of the other.

`Scattering` is what all scatters share; the others are in `scatter`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar, final

import attrs
import numpy as np
from attrs import field, frozen
from typing_extensions import override

from tinyjax.errors import LinearityError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import (
    BOOL,
    COMPLEXES,
    INEXACT,
    INTEGERS,
    KEYS,
    MOVABLE,
    NUMERIC,
    SIGNED,
    SUPPORTED,
    DType,
    HostArray,
    Scalar,
    integer_limits,
)
from tinyjax.ir.literals import python_scalar
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.shapes import Shape, inserted
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.tangents import zero_tangents
from tinyjax.primitives.elementwise import Dtypes, check_dtype, common_dtype
from tinyjax.primitives.shaping import reshape
from tinyjax.primitives.structure import broadcast_in_dim, check_arity, full, instantiate, move_axis, shape_error
from tinyjax.primitives.windows import (
    GATHER_NAMES,
    SCATTER_NAMES,
    GatherDimensionNumbers,
    GatherScatterMode,
    Plan,
    Positions,
    ScatterDimensionNumbers,
    check_indices,
    check_numbers,
    result_shape,
    whole_numbers,
)

V = TypeVar("V")


def _identity(value: Scalar | None) -> tuple[type, str]:
    """What makes two fill values the same: 0.0 isn't -0.0, and nan is nan."""
    return type(value), repr(value)


def default_fill(dtype: DType) -> Scalar:
    """What is gathered from outside the operand: nan, the least signed or the greatest unsigned integer, the last key,
    or True."""
    if dtype in INEXACT:
        return math.nan
    if dtype == BOOL:
        return True
    if dtype in KEYS:
        return (1 << 8 * dtype.itemsize) - 1
    least, greatest = integer_limits(dtype)
    return least if dtype in SIGNED else greatest


def _element(value: Scalar, dtype: DType) -> HostArray:
    """One element of a dtype: a key is a number of as many bits."""
    if dtype not in KEYS:
        return np.asarray(value, dtype)
    return np.frombuffer(int(value.real).to_bytes(dtype.itemsize, "little"), dtype).reshape(())


def _fits(fill: Scalar | None, dtype: DType) -> bool:
    """Whether a dtype has something that can stand for this fill value."""
    if fill is None or dtype == BOOL or dtype in COMPLEXES:
        return True
    if dtype not in INTEGERS or isinstance(fill, complex):
        return not isinstance(fill, complex)
    least, greatest = integer_limits(dtype)
    return least <= fill <= greatest


@final
@frozen
class Gather(Primitive):
    """Takes a window of `slice_sizes` from the first operand for each index vector of the second.

    `fill_value` is for FILL_OR_DROP; None is nan, the least signed or the greatest unsigned integer, or True.
    `unique_indices` and `indices_are_sorted` are promises: that windows don't overlap, and that they are in order.
    """

    dimension_numbers: GatherDimensionNumbers
    slice_sizes: Shape
    mode: GatherScatterMode = GatherScatterMode.PROMISE_IN_BOUNDS
    fill_value: Scalar | None = field(default=None, eq=_identity)
    indices_are_sorted: bool = False
    unique_indices: bool = False
    name: ClassVar[str] = "gather"
    plain: ClassVar[bool] = True

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((0,),)

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 2)
        (x, indices), dims, sizes = avals, self.dimension_numbers, self.slice_sizes
        check_dtype(self.name, x.dtype, MOVABLE)
        check_indices(self.name, indices)
        check_numbers(self.name, dims, x, indices, GATHER_NAMES)
        if len(sizes) != x.ndim or any(size < 0 for size in sizes):
            raise shape_error(self.name, f"slice_sizes must be a size for each axis of {x}, got {sizes}")
        if indices.size and any(size > n for size, n in zip(sizes, x.shape, strict=True)):
            raise shape_error(self.name, f"slice_sizes {sizes} are larger than the operand {x}")
        if any(sizes[axis] != 1 for axis in dims.collapsed_slice_dims):
            raise shape_error(self.name, f"slice_sizes must be 1 for collapsed_slice_dims "
                              f"{dims.collapsed_slice_dims}, got {sizes}")  # fmt: skip
        if any(sizes[axis] > 1 for axis in dims.operand_batching_dims):
            raise shape_error(self.name, f"slice_sizes must be at most 1 for operand_batching_dims "
                              f"{dims.operand_batching_dims}, got {sizes}")  # fmt: skip
        if not _fits(self.fill_value, x.dtype):
            raise TypingError(f"{self.name}: the fill value {self.fill_value} doesn't fit in {x}")
        return (array_type(result_shape(dims, sizes, indices.shape), x.dtype, x.weak_type),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        x, indices = args
        shape = result_shape(self.dimension_numbers, self.slice_sizes, indices.shape)
        if math.prod(shape) == 0:
            return (np.zeros(shape, x.dtype),)
        return (self._windows(Plan.of(self.dimension_numbers, x.shape, self.slice_sizes, shape), x.dtype)(x, indices),)

    def _windows(self, plan: Plan, dtype: DType) -> Callable[[HostArray, HostArray], HostArray]:
        """What takes windows where this plan finds them."""
        batch, ends = self.dimension_numbers.batch_axes(len(plan.shape)), plan.highest
        per_window = [size if axis in batch else 1 for axis, size in enumerate(plan.shape)]
        fill = _element(self.fill(dtype), dtype) if self.mode is GatherScatterMode.FILL_OR_DROP else None

        def take(x: HostArray, indices: HostArray) -> HostArray:
            starts = whole_numbers(indices)
            within = np.minimum(np.maximum(starts, 0), ends)
            out = plan.take(x, within)
            if fill is None:
                return out
            same = within == starts
            if np.count_nonzero(same) == same.size:
                return out
            return np.where(same.all(-1).reshape(per_window), out, fill)

        return take

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        x, indices = avals
        if x.dtype in KEYS:
            return super().host_function(*avals)
        dims, before = self.dimension_numbers, len(indices.shape) - 1
        (axis, *others) = dims.start_index_map or (0, 0)
        whole = (*x.shape[:axis], 1, *x.shape[axis + 1 :]) == self.slice_sizes
        around = (*range(axis), *range(axis + before, x.ndim - 1 + before))
        if others or dims.collapsed_slice_dims != (axis,) or not whole or dims.offset_dims != around or not x.size:
            shape = result_shape(dims, self.slice_sizes, indices.shape)
            if math.prod(shape) == 0:
                return super().host_function(*avals)
            return self._windows(Plan.of(dims, x.shape, self.slice_sizes, shape), x.dtype)
        # Whole entries along one axis, as NumPy takes them.
        highest, filled = x.shape[axis] - 1, self.mode is GatherScatterMode.FILL_OR_DROP
        fill = np.asarray(self.fill(x.dtype), x.dtype) if filled else None
        after = x.ndim - 1 - axis

        def take(x: HostArray, indices: HostArray) -> HostArray:
            starts = whole_numbers(indices[..., 0])
            out = x.take(starts, axis, mode="clip")
            if fill is None:
                return out
            inside = starts.view(np.uint64) <= highest  # which no negative number is
            if np.count_nonzero(inside) == inside.size:
                return out
            return np.where(inside.reshape(inside.shape + (1,) * after), out, fill)

        return take

    def fill(self, dtype: DType) -> Scalar:
        """The fill value for an operand of this dtype."""
        return default_fill(dtype) if self.fill_value is None else python_scalar(self.fill_value, dtype)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        outs, t = ctx.bind(self, *primals), tangents[0]
        if isinstance(t, Zero):
            return outs, zero_tangents(ctx, outs)
        filling = self.mode is GatherScatterMode.FILL_OR_DROP
        return outs, ctx.bind(attrs.evolve(self, fill_value=0) if filling else self, t, primals[1])

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        (x, indices), (at, indices_at) = args, axes
        dims, sizes = self.dimension_numbers, self.slice_sizes
        if indices_at is None:
            at = at or 0
            result_ndim = len(dims.offset_dims) + ctx.aval(indices).ndim - 1
            dims, place = dims.with_window_axis(at, len(sizes), result_ndim)
            mapped = attrs.evolve(self, dimension_numbers=dims, slice_sizes=inserted(sizes, at, axis.size))
            return ctx.bind(mapped, x, indices), [place]
        indices = move_axis(ctx, indices, indices_at, 0)
        dims = dims.with_batch_axis(at)
        if at is None:  # the same windows may be taken for several elements of the batch
            mapped = attrs.evolve(self, dimension_numbers=dims, indices_are_sorted=False, unique_indices=False)
        else:
            sizes = inserted(sizes, at, min(axis.size, 1))
            mapped = attrs.evolve(self, dimension_numbers=dims, slice_sizes=sizes)
        return ctx.bind(mapped, x, indices), [0]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x, indices) = cotangents, args
        if isinstance(indices, UndefPrimal):
            raise LinearityError("gather is linear in the operand, but not in the indices")
        if isinstance(ct, Zero) or not isinstance(x, UndefPrimal):
            return [None, None]
        dims = ScatterDimensionNumbers.of(self.dimension_numbers)
        adding = ScatterAdd(dims, self.mode, self.indices_are_sorted, self.unique_indices)
        zeros = full(ctx, array_type(x.aval.shape, ctx.aval(ct).dtype, x.aval.weak_type, ctx.aval(ct).axes), 0)
        return [ctx.bind(adding, zeros, indices, ct)[0], None]


@frozen
class Scattering(Primitive):
    """Updates the windows of the first operand at the index vectors of the second with the third, which is shaped as
    what a gather would take. Windows that aren't within the operand are ignored, or moved if the mode is CLIP.
    """

    dimension_numbers: ScatterDimensionNumbers
    mode: GatherScatterMode = GatherScatterMode.FILL_OR_DROP
    indices_are_sorted: bool = False
    unique_indices: bool = False
    accepts: ClassVar[Dtypes] = SUPPORTED
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 3)
        (x, indices, updates), dims = avals, self.dimension_numbers
        check_dtype(self.name, common_dtype(self.name, (x, updates)), self.accepts)
        check_indices(self.name, indices)
        check_numbers(self.name, dims.gather, x, indices, SCATTER_NAMES)
        ndim = len(dims.update_window_dims) + indices.ndim - 1
        if updates.ndim != ndim:
            raise shape_error(self.name, f"the updates must have {ndim} axes, those of the windows and of the indices "
                              f"{indices} but the last, got {updates}")  # fmt: skip
        sizes = dims.window_sizes(x.shape, updates.shape)
        if any(sizes[axis] > x.shape[axis] for axis in dims.gather.window_axes(x.ndim)):
            raise shape_error(self.name, f"the windows of the updates {updates} are larger than the operand {x}")
        expected = result_shape(dims.gather, sizes, indices.shape)
        if updates.shape != expected:
            raise shape_error(self.name, f"for indices {indices} the updates must have the shape {expected}, "
                              f"got {updates}")  # fmt: skip
        return (x,)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        x, indices, updates = args
        dims = self.dimension_numbers
        plan = Plan.of(dims.gather, x.shape, dims.window_sizes(x.shape, updates.shape), updates.shape)
        starts = whole_numbers(indices)
        if self.mode is GatherScatterMode.CLIP:
            starts = np.clip(starts, 0, np.maximum(plan.highest, 0))
        return (plan.update(x, starts, updates, self.write),)

    @abstractmethod
    def write(self, target: HostArray, index: tuple[Positions, ...], updates: HostArray) -> None:
        """Writes the updates to the target; positions may be repeated."""

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        (x, indices, updates), (at, indices_at, updates_at) = args, axes
        if at is None:
            at, shape = 0, ctx.aval(x).shape
            x = broadcast_in_dim(ctx, x, (axis.size, *shape), tuple(range(1, len(shape) + 1)))
        dims = self.dimension_numbers.gather
        place = 0
        if indices_at is None:
            result_ndim = ctx.aval(updates).ndim - (updates_at is not None)
            dims, place = dims.with_window_axis(at, ctx.aval(x).ndim - 1, result_ndim)
        else:
            indices, dims = move_axis(ctx, indices, indices_at, 0), dims.with_batch_axis(at)
        if updates_at is None:
            shape = ctx.aval(updates).shape
            kept = tuple(i + (i >= place) for i in range(len(shape)))
            updates = broadcast_in_dim(ctx, updates, inserted(shape, place, axis.size), kept)
        else:
            updates = move_axis(ctx, updates, updates_at, place)
        mapped = attrs.evolve(self, dimension_numbers=ScatterDimensionNumbers.of(dims))
        return ctx.bind(mapped, x, indices, updates), [at]

    def taking(self, operand: Shape, updates: Shape, fill: bool = True) -> Gather:
        """The gather of what this updates. Windows that are ignored are 0 in it, if `fill`."""
        dims = self.dimension_numbers
        moved = self.mode is GatherScatterMode.CLIP  # the transpose of a promise that isn't kept leaves them out
        mode = self.mode if fill or moved else GatherScatterMode.PROMISE_IN_BOUNDS
        zero = 0 if mode is GatherScatterMode.FILL_OR_DROP else None
        return Gather(dims.gather, dims.window_sizes(operand, updates), mode, zero)

    def _linear(self, indices: V | UndefPrimal) -> V:
        if isinstance(indices, UndefPrimal):
            raise LinearityError(f"{self.name} is linear in the operand and the updates, but not in the indices")
        return indices


@final
@frozen
class ScatterAdd(Scattering):
    """Adds the updates."""

    name: ClassVar[str] = "scatter_add"
    accepts: ClassVar[Dtypes] = NUMERIC

    @override
    def write(self, target: HostArray, index: tuple[Positions, ...], updates: HostArray) -> None:
        np.add.at(target, index, updates)

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((0, 2),)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        outs, (t, _, t_updates) = ctx.bind(self, *primals), tangents
        if isinstance(t_updates, Zero):
            return outs, [t]
        return outs, ctx.bind(self, instantiate(ctx, t), primals[1], t_updates)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x, indices, updates) = cotangents, args
        indices = self._linear(indices)
        if isinstance(ct, Zero):
            return [None, None, None]
        taken: V | None = None
        if isinstance(updates, UndefPrimal):
            taken = ctx.bind(self.taking(ctx.aval(ct).shape, updates.aval.shape), ct, indices)[0]
        return [ct if isinstance(x, UndefPrimal) else None, None, taken]


# The vocabulary.


def permuted(ctx: Context[V], x: V, order: V, axis: int) -> V:
    """Elements of x in another order along an axis, none twice: `out[i, j] = x[order[i, j], j]` for axis 0."""
    shape = ctx.aval(order).shape
    others = tuple(i for i in range(len(shape)) if i != axis)
    dims = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    taking = Gather(dims, (1,) * len(shape), unique_indices=True)
    return ctx.bind(taking, x, reshape(ctx, order, (*shape, 1)))[0]
