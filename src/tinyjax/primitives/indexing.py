"""Taking and adding elements at computed positions along one axis. The two are each other's transposes.

Both clamp positions that are out of range to the nearest one in range.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

import numpy as np
import numpy.typing as npt
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import LinearityError, TypingError
from tinyjax.ir.aval import ShapedArray, array_type
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import INTEGERS, NUMERIC, SUPPORTED, HostArray, short_name
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.primitives.elementwise import check_dtype, unmapped
from tinyjax.primitives.reductions import accumulator
from tinyjax.primitives.structure import check_arity, check_axes, shape_error, with_leading_axis

V = TypeVar("V")


@frozen
class AlongAxis(Primitive):
    """Linear in the first operand; the second holds positions along `axis`."""

    axis: int

    def _checked(self, avals: Sequence[ShapedArray]) -> tuple[ShapedArray, ShapedArray]:
        check_arity(self.name, avals, 2)
        x, positions = avals
        if positions.dtype not in INTEGERS:
            raise TypingError(f"{self.name} needs positions of an integer dtype, got {short_name(positions.dtype)}")
        check_axes(self.name, (self.axis,), x.ndim)
        return x, positions

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        outs, t = ctx.bind(self, *primals), tangents[0]
        if isinstance(t, Zero):
            return outs, [Zero(ctx.aval(outs[0]).tangent)]
        return outs, ctx.bind(self, t, primals[1])

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x, positions) = cotangents, args
        if isinstance(positions, UndefPrimal):
            raise LinearityError(f"{self.name} is linear in its first operand, but not in the positions")
        if isinstance(ct, Zero) or not isinstance(x, UndefPrimal):
            return [None, None]
        return [self.transposed(ctx, ct, positions, x.aval), None]

    @abstractmethod
    def transposed(self, ctx: Context[V], ct: V, positions: V, operand: ShapedArray) -> V:
        """The cotangent of the first operand, which has type `operand`."""


def _with_leading_axes(ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]) -> list[V]:
    return [
        with_leading_axis(ctx, arg, at, axis.size, unmapped(ctx.aval(arg).shape, at))
        for arg, at in zip(args, axes, strict=True)
    ]


@final
@frozen
class TakeAlongAxis(AlongAxis):
    """The elements of the first operand at positions along `axis`: `out[i, j] = x[positions[i, j], j]` for axis 0.

    The operands have the same shape, but for that axis.
    """

    name: ClassVar[str] = "take_along_axis"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        x, positions = self._checked(avals)
        check_dtype(self.name, x.dtype, SUPPORTED)
        if x.ndim != positions.ndim or unmapped(x.shape, self.axis) != unmapped(positions.shape, self.axis):
            raise shape_error(self.name, f"operand {x} and positions {positions} differ in other axes than {self.axis}")
        if x.shape[self.axis] == 0 and positions.size:
            raise shape_error(self.name, f"there is nothing to take along axis {self.axis} of {x}")
        return (array_type(positions.shape, x.dtype, x.weak_type),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        x, positions = args
        if positions.size == 0:
            return (np.empty(positions.shape, x.dtype),)
        return (np.take_along_axis(x, _clamped(positions, x.shape[self.axis]), self.axis),)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        return ctx.bind(TakeAlongAxis(self.axis + 1), *_with_leading_axes(ctx, axis, args, axes)), [0]

    @override
    def transposed(self, ctx: Context[V], ct: V, positions: V, operand: ShapedArray) -> V:
        return scatter_add_along_axis(ctx, ct, positions, self.axis, operand.shape[self.axis])


@final
@frozen
class ScatterAddAlongAxis(AlongAxis):
    """Zeros, with the elements of the first operand added at positions along `axis`, which has size `size`:
    `out[positions[i, j], j] += x[i, j]` for axis 0.

    The operands have the same shape.
    """

    size: int
    name: ClassVar[str] = "scatter_add_along_axis"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        x, positions = self._checked(avals)
        check_dtype(self.name, x.dtype, NUMERIC)
        if x.shape != positions.shape:
            raise shape_error(self.name, f"operand {x} and positions {positions} differ in shape")
        if self.size < 0 or (self.size == 0 and x.size):
            raise shape_error(self.name, f"{x} can't be added along an axis of size {self.size}")
        shape = (*x.shape[: self.axis], self.size, *x.shape[self.axis + 1 :])
        return (array_type(shape, x.dtype, x.weak_type),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        x, positions = args
        shape = (*x.shape[: self.axis], self.size, *x.shape[self.axis + 1 :])
        out = np.zeros(shape, accumulator(x.dtype))
        if x.size:
            where: list[npt.NDArray[np.int64]] = list(np.indices(x.shape, sparse=True))
            where[self.axis] = _clamped(positions, self.size)
            np.add.at(out, tuple(where), x)
        return (out.astype(x.dtype, copy=False),)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        moved = _with_leading_axes(ctx, axis, args, axes)
        return ctx.bind(ScatterAddAlongAxis(self.axis + 1, self.size), *moved), [0]

    @override
    def transposed(self, ctx: Context[V], ct: V, positions: V, operand: ShapedArray) -> V:
        return take_along_axis(ctx, ct, positions, self.axis)


def _clamped(positions: HostArray, size: int) -> npt.NDArray[np.int64]:
    return np.clip(positions, 0, size - 1).astype(np.int64)


# The vocabulary.


def take_along_axis(ctx: Context[V], x: V, positions: V, axis: int) -> V:
    """The elements of x at these positions along an axis."""
    return ctx.bind(TakeAlongAxis(axis), x, positions)[0]


def scatter_add_along_axis(ctx: Context[V], x: V, positions: V, axis: int, size: int) -> V:
    """Zeros with the elements of x added at these positions along an axis of this size."""
    return ctx.bind(ScatterAddAlongAxis(axis, size), x, positions)[0]
