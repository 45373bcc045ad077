"""Sums, maxima and minima of windows that slide over an array, and their derivatives.

Windows are those of `window_shapes`. A general reduction of windows, by a program, is in `control.reducing`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeAlias, TypeVar, final

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from typing_extensions import override

from tinyjax.errors import ParameterError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import COMPLEXES, FLOATS, NUMERIC, SUPPORTED, DType, HostArray, Scalar
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.comparison import ge, le
from tinyjax.primitives.elementwise import check_dtype, unmapped
from tinyjax.primitives.reductions import Choice, ReduceMax, ReduceMin, highest, lowest
from tinyjax.primitives.selection import select
from tinyjax.primitives.slicing import Pad, pad, slice_, slice_in_dim
from tinyjax.primitives.structure import (
    Linear,
    ReduceSum,
    Reduction,
    accumulator,
    check_arity,
    constant_like,
    shape_error,
    with_leading_axis,
)
from tinyjax.primitives.window_shapes import (
    Padding,
    Sizes,
    check_each,
    dilated,
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


# Reductions.


@frozen
class WindowReduction(Windowed):
    """Reduces each window to a number."""

    plain: ClassVar[bool] = True

    def reduction(self) -> Reduction:
        """What reduces the elements of the windows in NumPy's view."""
        n = len(self.window_dimensions)
        return _REDUCTIONS[type(self)](tuple(range(n, 2 * n)))

    def identity(self, dtype: DType) -> Scalar:
        """What padding is filled with."""
        return 0

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,) = avals
        check_dtype(self.name, x.dtype, NUMERIC if type(self) is ReduceWindowSum else SUPPORTED)
        return (of_all_windows(x, self),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        (x,) = args
        shape = self.out_shape(array_type(x.shape, x.dtype))
        if 0 in shape:
            return (np.zeros(shape, x.dtype),)
        view = self.view(x.astype(accumulator(x.dtype), copy=False), self.identity(x.dtype))
        return (self.reduction().evaluate(view)[0].astype(x.dtype, copy=False),)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        at = axes[0] or 0
        return ctx.bind(type(self)(*self.mapped(at)), *args), [at]


@final
@frozen
class ReduceWindowSum(WindowReduction, Linear):
    """The sum of each window."""

    name: ClassVar[str] = "reduce_window_sum"

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        """Each element gets the cotangents of the windows that it is in, which are those of a window, too."""
        (ct,), (x,) = cotangents, args
        if isinstance(ct, Zero) or not isinstance(x, UndefPrimal):
            return [None]
        if ctx.aval(ct).size == 0:
            return [Zero(x.aval.tangent)]
        config: list[tuple[int, int, int]] = []
        for i, size in enumerate(dilated_shape(self.window_dimensions, self.window_dilation)):
            before = size - 1 - self.padding[i][0]
            reach = dilated(ctx.aval(ct).shape[i], self.window_strides[i])
            whole = dilated(x.aval.shape[i], self.base_dilation[i])
            config.append((before, whole + size - 1 - reach - before, self.window_strides[i] - 1))
        nothing, ones = ((0, 0),) * x.aval.ndim, (1,) * x.aval.ndim
        turned = ReduceWindowSum(self.window_dimensions, self.base_dilation, nothing, ones, self.window_dilation)
        return ctx.bind(turned, pad(ctx, ct, tuple(config)))


@frozen
class WindowChoice(WindowReduction):
    """Chooses an element of each window. Of several that are equal, the first one has the tangent."""

    #: Whether an element is chosen before one that comes after it.
    select_prim: ClassVar[str]

    @override
    def identity(self, dtype: DType) -> Scalar:
        chosen = self.reduction()
        return _beyond(chosen.identity(dtype), dtype) if isinstance(chosen, Choice) else 0

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (x,), (t,) = primals, tangents
        (out,) = ctx.bind(self, x)
        if isinstance(t, Zero):
            return [out], [Zero(ctx.aval(out).tangent)]
        gather = SelectAndGatherAdd(*self.parameters(), self.select_prim)
        if all(step == 1 for step in self.window_dilation):
            return [out], ctx.bind(gather, t, x)
        return [out], gather.by_pairs(ctx, t, x)  # whose transpose there is no primitive for


@final
@frozen
class ReduceWindowMax(WindowChoice):
    """The maximum of each window; nan if there is one."""

    name: ClassVar[str] = "reduce_window_max"
    select_prim: ClassVar[str] = "ge"


@final
@frozen
class ReduceWindowMin(WindowChoice):
    """The minimum of each window; nan if there is one."""

    name: ClassVar[str] = "reduce_window_min"
    select_prim: ClassVar[str] = "le"


_REDUCTIONS: Final[dict[type[WindowReduction], type[Reduction]]] = {
    ReduceWindowSum: ReduceSum, ReduceWindowMax: ReduceMax, ReduceWindowMin: ReduceMin,
}  # fmt: skip


def _beyond(value: Scalar, dtype: DType) -> Scalar:
    """Of complex numbers, what none is beyond in any of its parts."""
    return complex(value.real, value.real) if dtype in COMPLEXES else value


# Choices.


def _choice(name: str) -> str:
    if name not in ("ge", "le"):
        raise ParameterError(f"select_prim is 'ge' for a maximum or 'le' for a minimum, got {name!r}", "select_prim")
    return name


def worst(select_prim: str, dtype: DType) -> Scalar:
    """What no element is chosen after."""
    return lowest(dtype) if select_prim == "ge" else highest(dtype)


def prefers(ctx: Context[V], select_prim: str, x: V, y: V) -> V:
    """Whether x is chosen, which is before y."""
    return (ge if select_prim == "ge" else le)(ctx, x, y)


def _chosen(x: HostArray, select_prim: str, present: HostArray | None = None) -> npt.NDArray[np.intp]:
    """Where along the last axis the chosen element is, if one that isn't preferred to the next gives way to it: the
    first of the best ones, of those after the last nan. `present`: without what is filled in."""
    if select_prim == "le":
        x = -x
    missing = np.isnan(x)
    if not missing.any():
        return np.asarray(np.argmax(x, -1))
    size = x.shape[-1]
    last = np.where(missing.any(-1), size - 1 - np.argmax(missing[..., ::-1], -1), -1)
    after = np.arange(size) > last[..., None]
    if present is not None:
        after &= present
    numbers = np.where(after, x, -math.inf)
    first = np.where(np.max(numbers, -1) == -math.inf, np.argmax(after, -1), np.argmax(numbers, -1))
    return np.asarray(np.where(after.any(-1), first, last))


def _check_pair(name: str, avals: Sequence[ShapedArray]) -> tuple[ShapedArray, ShapedArray]:
    check_arity(name, avals, 2)
    x, y = avals
    if x.dtype != y.dtype:
        raise TypingError(f"{name}: the operands must have one dtype, got {x} and {y}")
    check_dtype(name, x.dtype, FLOATS)
    return x, y


@frozen
class _Chosen(Primitive):
    """Linear in the first operand; the second one says where."""

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (_, x), (t, _) = primals, tangents
        outs = ctx.bind(self, *primals)
        return outs, [Zero(ctx.aval(outs[0]).tangent)] if isinstance(t, Zero) else ctx.bind(self, t, x)


@final
@frozen
class SelectAndGatherAdd(Windowed, _Chosen):
    """Of each window the element of `tangents` where the chosen one of `operand` is: the largest with "ge", the
    smallest with "le", of equal ones the first."""

    select_prim: str = field(converter=_choice)
    name: ClassVar[str] = "select_and_gather_add"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        t, x = _check_pair(self.name, avals)
        if t.shape != x.shape:
            raise shape_error(self.name, f"tangents {t} and operand {x} must have one shape")
        return (array_type(self.out_shape(x), x.dtype, t.weak_type and x.weak_type),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        t, x = args
        shape = self.out_shape(array_type(x.shape, x.dtype))
        if 0 in shape:
            return (np.zeros(shape, x.dtype),)
        none = worst(self.select_prim, x.dtype)
        among = self.view(x.astype(accumulator(x.dtype), copy=False), none).reshape((*shape, -1))
        present = self.view(np.ones(x.shape, np.bool_), False).reshape(among.shape)
        at = _chosen(among, self.select_prim, present)[..., None]
        found = np.take_along_axis(self.view(t, 0).reshape((*shape, -1)), at, -1)[..., 0]
        # What padding is filled with is chosen before what equals it.
        return (np.where(np.all(among == none, -1), np.zeros((), x.dtype), found),)

    def by_pairs(self, ctx: Context[V], t: V, x: V) -> Sequence[V]:
        """The same by other primitives: elements are compared, and carry their tangents along."""

        def combine(ctx: Context[V], left: Sequence[V], right: Sequence[V]) -> Sequence[V]:
            taken = prefers(ctx, self.select_prim, left[0], right[0])
            return [select(ctx, taken, a, b) for a, b in zip(left, right, strict=True)]

        initial = [constant_like(ctx, x, worst(self.select_prim, ctx.aval(x).dtype)), constant_like(ctx, t, 0)]
        return slide(ctx, self, (x, t), initial, combine)[1:]

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        operands = _together(ctx, axis, args, axes)
        return ctx.bind(SelectAndGatherAdd(*self.mapped(0), self.select_prim), *operands), [0]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (t, x) = cotangents, args
        if isinstance(ct, Zero) or not isinstance(t, UndefPrimal) or isinstance(x, UndefPrimal):
            return [None, None]
        if ctx.aval(ct).size == 0:
            return [Zero(t.aval.tangent), None]
        if any(step != 1 for step in self.window_dilation):
            raise shape_error(self.name, "it has no transpose for windows with gaps; use reduce_window, which has")
        base = tuple((0, 0, step - 1) for step in self.base_dilation)
        spread = pad(ctx, x, base, worst(self.select_prim, ctx.aval(x).dtype))
        scatter = SelectAndScatterAdd(self.window_dimensions, self.window_strides, self.padding, self.select_prim)
        (found,) = ctx.bind(scatter, ct, spread)
        return [slice_(ctx, found, strides=self.base_dilation), None]


@final
@frozen
class SelectAndScatterAdd(_Chosen):
    """Adds each element of `source` to zeros, where the chosen element of a window of `operand` is."""

    window_dimensions: Sizes
    window_strides: Sizes
    padding: Padding
    select_prim: str = field(converter=_choice)
    name: ClassVar[str] = "select_and_scatter_add"
    plain: ClassVar[bool] = True

    @property
    def gather(self) -> SelectAndGatherAdd:
        """What this is the transpose of."""
        ones = (1,) * len(self.window_dimensions)
        return SelectAndGatherAdd(
            self.window_dimensions, self.window_strides, self.padding, ones, ones, self.select_prim
        )

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        source, x = _check_pair(self.name, avals)
        shape = self.gather.out_shape(x)
        if source.shape != shape:
            raise shape_error(self.name, f"source {source} needs an element for each window of operand {x}: {shape}")
        return (array_type(x.shape, x.dtype, source.weak_type and x.weak_type),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        source, x = args
        if source.size == 0:
            return (np.zeros(x.shape, x.dtype),)
        gather, wide = self.gather, accumulator(x.dtype)
        among = gather.view(x.astype(wide, copy=False), worst(self.select_prim, x.dtype))
        among = among.reshape((*source.shape, -1))
        at = _chosen(among, self.select_prim)[..., None]
        numbers = np.arange(x.size, dtype=np.int64).reshape(x.shape)
        places = np.take_along_axis(gather.view(numbers, -1).reshape((*source.shape, -1)), at, -1)[..., 0]
        within = places >= 0
        out = np.zeros(x.size, wide)
        np.add.at(out, places[within], source[within].astype(wide, copy=False))
        return (out.reshape(x.shape).astype(x.dtype, copy=False),)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        dims, strides, padding, _, _ = self.gather.mapped(0)
        operands = _together(ctx, axis, args, axes)
        return ctx.bind(SelectAndScatterAdd(dims, strides, padding, self.select_prim), *operands), [0]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (source, x) = cotangents, args
        if isinstance(ct, Zero) or not isinstance(source, UndefPrimal) or isinstance(x, UndefPrimal):
            return [None, None]
        return [ctx.bind(self.gather, ct, x)[0], None]


def _together(ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]) -> list[V]:
    """All operands with the mapped axis first."""
    found: list[V] = []
    for arg, at in zip(args, axes, strict=True):
        shape = ctx.aval(arg).shape
        found.append(with_leading_axis(ctx, arg, at, axis.size, shape if at is None else unmapped(shape, at)))
    return found


# By other primitives.


def slide(ctx: Context[V], made: Windowed, args: Sequence[V], initial: Sequence[V], combine: Combine[V]) -> Sequence[V]:
    """The windows of several arrays reduced together by an associative function, which is applied about twice as many
    times as the numbers of elements have binary digits: to whole arrays, of windows of twice the size each time."""
    config = tuple((low, high, step - 1) for (low, high), step in zip(made.padding, made.base_dilation, strict=True))
    xs: Sequence[V] = [ctx.bind(Pad(config), x, i)[0] for x, i in zip(args, initial, strict=True)]
    for axis in reversed(range(len(config))):
        size, step = made.window_dimensions[axis], made.window_dilation[axis]
        count = max(ctx.aval(xs[0]).shape[axis] - step * (size - 1), 0)
        found: Sequence[V] | None = None
        width, start = 1, 0  # of the windows of which xs are the reductions; of what isn't in `found`
        while True:
            if size & width:
                part = [slice_in_dim(ctx, x, start, start + count, 1, axis) for x in xs] if count else None
                if part is None:
                    found = [slice_in_dim(ctx, x, 0, 0, 1, axis) for x in xs]
                    break
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
