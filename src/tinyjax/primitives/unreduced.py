"""Sums between devices that are yet to be made, and values whose cotangents are such sums.

A value of a device may become a term of a sum (`vary_unreduced_cast`), and the sum may be made later, for all devices
(`unreduced_psum`) or a part for each (`unreduced_reduce_scatter`). Their transposes take a value that all have, whose
cotangent is a sum yet to be made, apart for each device (`reduced_vary_cast`), make such a value of what all have
(`preduced`), or of what each has a part of (`all_gather_reduced`):

{ lambda ; a:f64[4]{V:x}. let
    b:f64[4]{U:x} = vary_unreduced_cast[axes=(x,)] a
    c:f64[4] = unreduced_psum[axis_name=x] b
  in (c,) }
{ lambda ; a:f64[4]. let
    b:f64[4]{R:x} = preduced[axes=(x,)] a
    c:f64[4]{V:x} = reduced_vary_cast[axes=(x,)] b
  in (c,) }

Where types don't say such things, the casts are nothing, and the others are `psum`, `reduce_scatter` and `all_gather`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.errors import TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import NUMERIC
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.roles import Tracking
from tinyjax.ir.shapes import REDUCED, UNREDUCED, Axes, as_axes
from tinyjax.ir.varying import without
from tinyjax.primitives.casts import PReduced
from tinyjax.primitives.collectives import Collective, PSum
from tinyjax.primitives.elementwise import check_dtype
from tinyjax.primitives.exchanges import AllGather, Exchange, ReduceScatter, Tiling
from tinyjax.primitives.structure import check_arity

V = TypeVar("V")


@final
@frozen
class UnreducedPSum(Exchange, Tracking):
    """The sum that the operand is along the axes, made: the same for all devices."""

    name: ClassVar[str] = "unreduced_psum"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        check_dtype(self.name, avals[0].dtype, NUMERIC)
        return avals

    @override
    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray]) -> tuple[Sequence[Axes], Sequence[Axes]]:
        return found, [_moved(self, axes, UNREDUCED, None) for axes in found]

    @override
    def untracked(self) -> PSum:
        return PSum(self.axis_name)

    @override
    def moved(self, before: int) -> UnreducedPSum:
        return self

    @override
    def exchanged(self, ctx: Context[V], x: V, size: int) -> tuple[V, int | None]:
        return self.untracked().reduce(ctx, x, 0), None

    @override
    def transposed(self) -> Primitive:
        return PReduced(as_axes(self.names))


@final
@frozen
class UnreducedReduceScatter(Tiling, Tracking):
    """The sum that the operand is along the axes, divided along a dimension: a part for each device."""

    scatter_dimension: int
    name: ClassVar[str] = "unreduced_reduce_scatter"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return self.untracked().type_of(*avals)

    @override
    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray]) -> tuple[Sequence[Axes], Sequence[Axes]]:
        return found, [_moved(self, axes, UNREDUCED, "") for axes in found]

    @override
    def untracked(self) -> ReduceScatter:
        return ReduceScatter(self.axis_name, self.axis_size, self.scatter_dimension)

    @override
    def moved(self, before: int) -> UnreducedReduceScatter:
        return UnreducedReduceScatter(self.axis_name, self.axis_size, self.scatter_dimension + before)

    @override
    def exchanged(self, ctx: Context[V], x: V, size: int) -> tuple[V, int | None]:
        return self.untracked().exchanged(ctx, x, size)

    @override
    def transposed(self) -> AllGatherReduced:
        return AllGatherReduced(self.axis_name, self.axis_size, self.scatter_dimension)


@final
@frozen
class AllGatherReduced(Tiling, Tracking):
    """The operands of all devices, one after the other along a dimension: the same for all, with cotangents that are
    sums yet to be made."""

    all_gather_dimension: int
    name: ClassVar[str] = "all_gather_reduced"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return self.untracked().type_of(*avals)

    @override
    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray]) -> tuple[Sequence[Axes], Sequence[Axes]]:
        return found, [_moved(self, axes, "", REDUCED) for axes in found]

    @override
    def untracked(self) -> AllGather:
        return AllGather(self.axis_name, self.axis_size, self.all_gather_dimension)

    @override
    def moved(self, before: int) -> AllGatherReduced:
        return AllGatherReduced(self.axis_name, self.axis_size, self.all_gather_dimension + before)

    @override
    def exchanged(self, ctx: Context[V], x: V, size: int) -> tuple[V, int | None]:
        return self.untracked().exchanged(ctx, x, size)

    @override
    def transposed(self) -> UnreducedReduceScatter:
        return UnreducedReduceScatter(self.axis_name, self.axis_size, self.all_gather_dimension)


def _moved(primitive: Collective, axes: Axes, source: str, target: str | None) -> Axes:
    """What a type says of the result along the axes of a collective, which takes what is marked so along them."""
    if missing := [name for name in primitive.names if source + name not in axes]:
        what = "is unreduced" if source else "varies"
        raise TypingError(
            f"{primitive.name} takes a value that {what} along {', '.join(map(repr, primitive.names))}; its operand "
            f"isn't such along {missing[0]!r}"
        )
    rest = without(axes, [source + name for name in primitive.names])
    return rest if target is None else as_axes([*rest, *[target + name for name in primitive.names]])


# The vocabulary.


def unreduced_psum(ctx: Context[V], x: V, axis_name: str | tuple[str, ...]) -> V:
    """The sum that x is along these axes of a mesh."""
    return ctx.bind(UnreducedPSum(axis_name), x)[0]
