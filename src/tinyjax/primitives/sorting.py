"""Sorting along an axis, of several arrays together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import BOOL, COMPLEXES, FLOAT32, FLOAT64, INT32, INT64, INTEGERS, MOVABLE, SUPPORTED, HostArray
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Zero
from tinyjax.primitives.elementwise import check_dtype, unmapped
from tinyjax.primitives.gather import permuted
from tinyjax.primitives.shaping import iota
from tinyjax.primitives.structure import accumulator, check_axes, shape_error, with_leading_axis

V = TypeVar("V")


#: What NumPy sorts the same way.
_SORTED_BY_NUMPY: Final = INTEGERS | {BOOL, FLOAT32, FLOAT64}


@final
@frozen
class Sort(Primitive):
    """Sorts along `dimension` by the first `num_keys` operands, the first one first; the others follow.

    nan comes last. -0.0 and 0.0 are equal, and so are all nans. Complex numbers are compared by their real parts, then
    by their imaginary ones. If `is_stable`, equal elements stay in order.
    """

    dimension: int
    is_stable: bool = True
    num_keys: int = 1
    name: ClassVar[str] = "sort"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        if not avals:
            raise shape_error(self.name, "at least one array is needed")
        for i, aval in enumerate(avals):
            check_dtype(self.name, aval.dtype, SUPPORTED if i < self.num_keys else MOVABLE)
        if any(aval.shape != avals[0].shape for aval in avals):
            raise shape_error(self.name, f"the arrays differ in shape: {', '.join(map(str, avals))}")
        check_axes(self.name, (self.dimension,), avals[0].ndim)
        if not 1 <= self.num_keys <= len(avals):
            raise shape_error(self.name, f"num_keys must be between 1 and {len(avals)}, the number of arrays, got "
                              f"{self.num_keys}")  # fmt: skip
        return avals

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        keys: list[HostArray] = []
        for arg in args[: self.num_keys]:
            if arg.dtype in COMPLEXES:
                keys += [arg.real, arg.imag]
            else:
                keys.append(arg.astype(accumulator(arg.dtype), copy=False))
        order = np.lexsort(keys[::-1], self.dimension)
        return tuple(np.take_along_axis(arg, order, self.dimension) for arg in args)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        known = len(avals) == 1 and avals[0].dtype in _SORTED_BY_NUMPY
        return partial(np.sort, axis=self.dimension, kind="stable") if known else super().host_function(*avals)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        aval = ctx.aval(primals[0])
        dtype = INT32 if aval.shape[self.dimension] <= np.iinfo(np.int32).max else INT64
        *outs, order = ctx.bind(self, *primals, iota(ctx, dtype, aval.shape, self.dimension))
        moved = [t if isinstance(t, Zero) else permuted(ctx, t, order, self.dimension) for t in tangents]
        return outs, moved

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        mapped = {at for at in axes if at is not None}
        if len(mapped) == 1 and None not in axes:
            (at,) = mapped
            return ctx.bind(self._along(self.dimension + (self.dimension >= at)), *args), [at] * len(args)
        moved = [
            with_leading_axis(ctx, arg, at, axis.size, unmapped(ctx.aval(arg).shape, at))
            for arg, at in zip(args, axes, strict=True)
        ]
        return ctx.bind(self._along(self.dimension + 1), *moved), [0] * len(args)

    def _along(self, dimension: int) -> Sort:
        return Sort(dimension, self.is_stable, self.num_keys)


# The vocabulary.


def sort(ctx: Context[V], *operands: V, dimension: int, num_keys: int = 1) -> tuple[V, ...]:
    """The operands, sorted along `dimension` by the first `num_keys` of them."""
    return ctx.bind(Sort(dimension, True, num_keys), *operands)
