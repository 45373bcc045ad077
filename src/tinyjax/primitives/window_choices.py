"""What chooses elements of windows, and moves others by it: the derivatives of maxima and minima of windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from typing_extensions import override

from tinyjax.errors import ParameterError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import BOOL, FLOATS, INTEGERS, DType, HostArray, Scalar
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.comparison import ge, le
from tinyjax.primitives.elementwise import check_dtype, unmapped
from tinyjax.primitives.reductions import highest, lowest
from tinyjax.primitives.selection import select
from tinyjax.primitives.slicing import pad, slice_
from tinyjax.primitives.sliding import Windowed, slide
from tinyjax.primitives.structure import (
    accumulator,
    check_arity,
    constant_like,
    shape_error,
    with_leading_axis,
)
from tinyjax.primitives.window_shapes import (
    Padding,
    Sizes,
)

V = TypeVar("V")


def _choice(name: object) -> str:
    if not isinstance(name, str) or name not in ("ge", "le"):
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
    whole = x.dtype in INTEGERS or x.dtype == BOOL
    if select_prim == "le":
        x = ~x if whole else -x  # the least of integers, and those without signs, have no negative
    if whole:
        return np.asarray(np.argmax(x, -1))
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


def _check_pair(name: str, avals: Sequence[ShapedArray], accepted: frozenset[DType]) -> tuple[ShapedArray, ShapedArray]:
    check_arity(name, avals, 2)
    x, y = avals
    if x.dtype != y.dtype:
        raise TypingError(f"{name}: the operands must have one dtype, got {x} and {y}")
    check_dtype(name, x.dtype, accepted)
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
        t, x = _check_pair(self.name, avals, FLOATS)
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
    """Adds each element of `source` to zeros, where the chosen element of a window of `operand` is.

    A sum of booleans is whether one of them is true.
    """

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
        source, x = _check_pair(self.name, avals, FLOATS | INTEGERS | {BOOL})
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
