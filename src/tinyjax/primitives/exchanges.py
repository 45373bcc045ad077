"""What the elements along a named axis give each other: gathering, sums that are scattered, exchanges, permutations.

Each is linear, and its transpose is one of them too. They work on tiles: along a dimension, every element has its part,
and parts are put together in the order of the elements. (`lax` makes the forms with an axis of their own of these.)

The classes come first, then the vocabulary.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.errors import AxisNameError, PermutationError, ShapeError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import NUMERIC
from tinyjax.ir.primitive import BatchAxis, Primitive, UndefPrimal, Zero
from tinyjax.ir.shapes import Axes, Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.collectives import Collective
from tinyjax.primitives.elementwise import check_dtype
from tinyjax.primitives.grouping import IndexGroups, check_index_groups, group_of
from tinyjax.primitives.shaping import divide_axis, reshape
from tinyjax.primitives.slicing import concatenate, slice_in_dim
from tinyjax.primitives.structure import Linear, check_arity, check_axes, full, move_axis, reduce_sum, with_leading_axis

V = TypeVar("V")


@frozen
class Exchange(Collective, Linear):
    """A linear function of the operands of all elements along the named axis."""

    @abstractmethod
    def moved(self, before: int) -> Exchange:
        """The same for operands with `before` more dimensions before their own."""

    @abstractmethod
    def exchanged(self, ctx: Context[V], x: V, size: int) -> tuple[V, int | None]:
        """The results for an operand whose first dimension is the named axis, and where that is in them."""

    @abstractmethod
    def transposed(self) -> Primitive:
        """What cotangents go through."""

    def check_groups(self, size: int | None) -> None:
        """An error unless groups of elements are what they have to be, and of this size."""
        if (groups := self.index_groups) is not None:
            check_index_groups(self.name, groups, len(groups[0]) if size is None and groups else size)

    def part(self, x: ShapedArray, dimension: int, count: int) -> int:
        """The size of one of as many equal parts of a dimension as there are elements."""
        size, over = divmod(x.shape[dimension], count)
        if over:
            raise ShapeError(
                f"{self.name}: dimension {dimension} of {x} can't be divided into {count} equal parts, one for each "
                f"element of axis {self.axis_name!r}"
            )
        return size

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        (x,), (at,) = args, axes
        group = group_of(axis, self.names, self.index_groups)
        if group is None:
            if at is None:
                return ctx.bind(self, x), [None]
            return ctx.bind(self.moved(1), move_axis(ctx, x, at, 0)), [0]
        self.check_size(group.size)
        shape = ctx.aval(x).shape
        own = shape if at is None else (*shape[:at], *shape[at + 1 :])
        x = with_leading_axis(ctx, x, at, axis.size, own)
        if len(group.sizes) > 1 or group.index_groups is not None:
            return [group.apply(ctx, x, lambda y: self.moved(1).exchanged(ctx, y, group.size))], [0]
        out, where = self.exchanged(ctx, x, axis.size)
        return [out], [where]

    @override
    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray]) -> tuple[Sequence[Axes], Sequence[Axes]]:
        self.check_own(found[0])
        return super().varying(found, types)

    def check_size(self, size: int) -> None:
        """An error unless the named axis may have this size."""

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,) = cotangents
        return [ct] if isinstance(ct, Zero) else ctx.bind(self.transposed(), ct)


@frozen
class Tiling(Exchange):
    """One whose types depend on the size of the named axis, or of the groups of its elements."""

    axis_size: int

    @override
    def check_size(self, size: int) -> None:
        if size != self.axis_size:
            raise AxisNameError(
                f"{self.name} was staged for axis {self.axis_name!r} with {self.axis_size} elements; here it has {size}"
            )


@final
@frozen
class AllGather(Tiling):
    """The operands of all elements, one after the other along a dimension. The result is the same for all.

    >>> print(*AllGather("i", 4, all_gather_dimension=1).type_of(ShapedArray((2, 3), "float32")))
    f32[2,12]
    """

    all_gather_dimension: int
    axis_index_groups: IndexGroups | None = None
    name: ClassVar[str] = "all_gather"

    @property
    @override
    def index_groups(self) -> IndexGroups | None:
        return self.axis_index_groups

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,), at = avals, self.all_gather_dimension
        self.check_groups(self.axis_size)
        check_axes(self.name, (at,), x.ndim)
        return (array_type(_with(x.shape, at, x.shape[at] * self.axis_size), x.dtype, x.weak_type),)

    @override
    def moved(self, before: int) -> AllGather:
        return evolve(self, all_gather_dimension=self.all_gather_dimension + before)

    @override
    def exchanged(self, ctx: Context[V], x: V, size: int) -> tuple[V, int | None]:
        return _merged(ctx, move_axis(ctx, x, 0, self.all_gather_dimension), self.all_gather_dimension), None

    @override
    def transposed(self) -> ReduceScatter:
        return ReduceScatter(self.axis_name, self.axis_size, self.all_gather_dimension, self.axis_index_groups)


@final
@frozen
class ReduceScatter(Tiling):
    """The sum of the operands of all elements, divided along a dimension: a part for each."""

    scatter_dimension: int
    axis_index_groups: IndexGroups | None = None
    name: ClassVar[str] = "reduce_scatter"

    @property
    @override
    def index_groups(self) -> IndexGroups | None:
        return self.axis_index_groups

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,), at = avals, self.scatter_dimension
        self.check_groups(self.axis_size)
        check_dtype(self.name, x.dtype, NUMERIC)
        check_axes(self.name, (at,), x.ndim)
        return (array_type(_with(x.shape, at, self.part(x, at, self.axis_size)), x.dtype, x.weak_type),)

    @override
    def moved(self, before: int) -> ReduceScatter:
        return evolve(self, scatter_dimension=self.scatter_dimension + before)

    @override
    def exchanged(self, ctx: Context[V], x: V, size: int) -> tuple[V, int | None]:
        summed = reduce_sum(ctx, x, (0,))
        return divide_axis(ctx, summed, self.scatter_dimension, size), self.scatter_dimension

    @override
    def transposed(self) -> AllGather:
        return AllGather(self.axis_name, self.axis_size, self.scatter_dimension, self.axis_index_groups)


@final
@frozen
class AllToAll(Exchange):
    """Each element divides its operand along one dimension, and puts the parts that are meant for it together along
    another.

    Along the same dimension types don't depend on the size of the named axis, which may be None.
    """

    axis_size: int | None
    split_axis: int
    concat_axis: int
    axis_index_groups: IndexGroups | None = None
    name: ClassVar[str] = "all_to_all"

    @property
    @override
    def index_groups(self) -> IndexGroups | None:
        return self.axis_index_groups

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,), split, concat, count = avals, self.split_axis, self.concat_axis, self.axis_size
        self.check_groups(count)
        check_axes(self.name, (split,), x.ndim)
        check_axes(self.name, (concat,), x.ndim)
        if count is None:
            if split != concat:
                raise ShapeError(f"all_to_all needs axis_size to divide dimension {split} and join dimension {concat}")
            return avals
        divided = _with(x.shape, split, self.part(x, split, count))
        return (array_type(_with(divided, concat, divided[concat] * count), x.dtype, x.weak_type),)

    @override
    def check_size(self, size: int) -> None:
        if self.axis_size not in (size, None):
            raise AxisNameError(
                f"all_to_all was staged for axis {self.axis_name!r} with {self.axis_size} elements; here it has {size}"
            )

    @override
    def moved(self, before: int) -> AllToAll:
        return evolve(self, split_axis=self.split_axis + before, concat_axis=self.concat_axis + before)

    @override
    def exchanged(self, ctx: Context[V], x: V, size: int) -> tuple[V, int | None]:
        self.part(ctx.aval(x), self.split_axis + 1, size)
        # The part's number becomes the named axis, and that the part's number along the other dimension.
        x = move_axis(ctx, divide_axis(ctx, x, self.split_axis + 1, size), self.split_axis + 1, 0)
        return _merged(ctx, move_axis(ctx, x, 1, self.concat_axis + 1), self.concat_axis + 1), 0

    @override
    def transposed(self) -> AllToAll:
        return evolve(self, split_axis=self.concat_axis, concat_axis=self.split_axis)


@final
@frozen
class PPermute(Exchange):
    """Each pair (source, destination) of `perm` gives the second element the operand of the first. Elements that get
    nothing have zeros."""

    perm: tuple[tuple[int, int], ...]
    name: ClassVar[str] = "ppermute"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        self.check_size(None)
        return avals

    @override
    def check_size(self, size: int | None) -> None:
        """What doesn't depend on the size, too; only that if it is None."""
        for ends in zip(*self.perm, strict=True):
            if len(set(ends)) < len(ends):
                raise PermutationError(f"ppermute: sources and destinations must be unique; got perm={list(self.perm)}")
        for source, to in self.perm:
            if size is not None and not (0 <= source < size and 0 <= to < size):
                raise PermutationError(
                    f"ppermute: axis {self.axis_name!r} has {size} elements, and perm has the pair {(source, to)}"
                )

    @override
    def moved(self, before: int) -> PPermute:
        return self

    @override
    def exchanged(self, ctx: Context[V], x: V, size: int) -> tuple[V, int | None]:
        aval = ctx.aval(x)
        sources = {to: source for source, to in self.perm}
        parts: list[V] = []
        start = 0
        while start < size:  # neighbours that get what neighbours have are one part
            first, stop = sources.get(start), start + 1
            while stop < size and sources.get(stop) == (None if first is None else first + stop - start):
                stop += 1
            if first is None:
                shape = (stop - start, *aval.shape[1:])
                parts.append(full(ctx, array_type(shape, aval.dtype, aval.weak_type), 0))
            else:
                parts.append(slice_in_dim(ctx, x, first, first + stop - start, 1, 0))
            start = stop
        return concatenate(ctx, parts, 0), 0

    @override
    def transposed(self) -> PPermute:
        return PPermute(self.axis_name, tuple((to, source) for source, to in self.perm))


def _with(shape: Shape, at: int, size: int) -> Shape:
    return (*shape[:at], size, *shape[at + 1 :])


def _merged(ctx: Context[V], x: V, at: int) -> V:
    """x with a dimension and the next one as one."""
    shape = ctx.aval(x).shape
    return reshape(ctx, x, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))


# The vocabulary.


def all_gather(ctx: Context[V], x: V, axis_name: str | tuple[str, ...], axis_size: int, dimension: int) -> V:
    """The operands of all elements along the axis, one after the other along a dimension."""
    return ctx.bind(AllGather(axis_name, axis_size, dimension), x)[0]


def reduce_scatter(ctx: Context[V], x: V, axis_name: str | tuple[str, ...], axis_size: int, dimension: int) -> V:
    """The sum of the operands of all elements along the axis, divided along a dimension."""
    return ctx.bind(ReduceScatter(axis_name, axis_size, dimension), x)[0]


def all_to_all(
    ctx: Context[V], x: V, axis_name: str | tuple[str, ...], axis_size: int, split_axis: int, concat_axis: int
) -> V:
    """The parts that the elements along the axis have for this one, put together along a dimension."""
    return ctx.bind(AllToAll(axis_name, axis_size, split_axis, concat_axis), x)[0]


def ppermute(ctx: Context[V], x: V, axis_name: str | tuple[str, ...], perm: tuple[tuple[int, int], ...]) -> V:
    """The operand of another element along the axis, which the pairs (source, destination) say."""
    return ctx.bind(PPermute(axis_name, perm), x)[0]
