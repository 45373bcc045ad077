"""Sums, maxima and minima of windows that slide over an array.

Windows are those of `window_shapes`. A general reduction of windows, by a program, is in `control.reducing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import COMPLEXES, NUMERIC, SUPPORTED, DType, HostArray, Scalar
from tinyjax.ir.primitive import BatchAxis, Outputs, UndefPrimal, Zero
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.elementwise import check_dtype
from tinyjax.primitives.reductions import Choice, ReduceMax, ReduceMin
from tinyjax.primitives.slicing import pad
from tinyjax.primitives.sliding import Windowed, of_all_windows
from tinyjax.primitives.structure import (
    Linear,
    ReduceSum,
    Reduction,
    accumulator,
    check_arity,
)
from tinyjax.primitives.window_choices import SelectAndGatherAdd
from tinyjax.primitives.window_shapes import (
    dilated,
    dilated_shape,
)

V = TypeVar("V")


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
