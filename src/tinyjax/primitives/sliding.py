"""What goes over windows: their parameters, and reductions of them by a function of two elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from attrs import frozen

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import HostArray, Scalar
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.slicing import Pad, slice_in_dim
from tinyjax.primitives.window_shapes import (
    Padding,
    Sizes,
    check_each,
    dilated_shape,
    padded,
    padded_shape,
    window_shape,
    windows,
)

V = TypeVar("V")
#: Makes one of two values, or groups of values, the first of which is of the elements before the other's.
Combine: TypeAlias = Callable[[Context[V], Sequence[V], Sequence[V]], Sequence[V]]


@frozen
class Windowed(Primitive):
    """What goes over windows: of this size, at positions so far apart, of an operand with padding around, and gaps
    between the elements of the operand and of each window."""

    window_dimensions: Sizes
    window_strides: Sizes
    padding: Padding
    base_dilation: Sizes
    window_dilation: Sizes

    def out_shape(self, x: ShapedArray) -> Shape:
        """How many windows there are along each axis of x; a ShapeError if the parameters don't fit."""
        check_each(self.name, x, x.ndim, window_dimensions=self.window_dimensions, window_strides=self.window_strides)
        check_each(self.name, x, x.ndim, base_dilation=self.base_dilation, window_dilation=self.window_dilation)
        sizes = padded_shape(self.name, x, dilated_shape(x.shape, self.base_dilation), self.padding)
        return window_shape(sizes, dilated_shape(self.window_dimensions, self.window_dilation), self.window_strides)

    def mapped(self, at: int) -> tuple[Sizes, Sizes, Padding, Sizes, Sizes]:
        """The parameters for operands with one more axis, at `at`, along which windows have size 1."""
        dims, strides, base, holes = (
            (*sizes[:at], 1, *sizes[at:])
            for sizes in (self.window_dimensions, self.window_strides, self.base_dilation, self.window_dilation)
        )
        return dims, strides, (*self.padding[:at], (0, 0), *self.padding[at:]), base, holes

    def parameters(self) -> tuple[Sizes, Sizes, Padding, Sizes, Sizes]:
        return self.window_dimensions, self.window_strides, self.padding, self.base_dilation, self.window_dilation

    def view(self, x: HostArray, fill: Scalar) -> HostArray:
        """NumPy's view of the windows of an operand, of which there must be some: positions, then elements."""
        x = padded(x, fill, self.padding, self.base_dilation)
        return windows(x, self.window_dimensions, self.window_strides, self.window_dilation)


def of_all_windows(x: ShapedArray, made: Windowed) -> ShapedArray:
    return array_type(made.out_shape(x), x.dtype, x.weak_type)


def slide(ctx: Context[V], made: Windowed, args: Sequence[V], initial: Sequence[V], combine: Combine[V]) -> Sequence[V]:
    """The windows of several arrays reduced together by an associative function, which is applied about twice as many
    times as the numbers of elements have binary digits: to whole arrays, of windows of twice the size each time."""
    config = tuple((low, high, step - 1) for (low, high), step in zip(made.padding, made.base_dilation, strict=True))
    xs: Sequence[V] = [ctx.bind(Pad(config), x, i)[0] for x, i in zip(args, initial, strict=True)]
    for axis in reversed(range(len(config))):
        size, step = made.window_dimensions[axis], made.window_dilation[axis]
        count = max(ctx.aval(xs[0]).shape[axis] - step * (size - 1), 0)
        if not count:  # none fits
            xs = [slice_in_dim(ctx, x, 0, 0, 1, axis) for x in xs]
            continue
        found: Sequence[V] | None = None
        width, start = 1, 0  # of the windows of which xs are the reductions; of what isn't in `found`
        while True:
            if size & width:
                part = [slice_in_dim(ctx, x, start, start + count, 1, axis) for x in xs]
                found = part if found is None else combine(ctx, found, part)
                start += step * width
            if 2 * width > size:
                break
            n = ctx.aval(xs[0]).shape[axis]
            xs = combine(
                ctx,
                [slice_in_dim(ctx, x, 0, n - step * width, 1, axis) for x in xs],
                [slice_in_dim(ctx, x, step * width, n, 1, axis) for x in xs],
            )
            width *= 2
        xs = found or xs
        xs = [slice_in_dim(ctx, x, 0, count, made.window_strides[axis], axis) for x in xs]
    return xs
