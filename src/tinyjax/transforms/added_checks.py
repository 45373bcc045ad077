"""What `checkify` looks for by itself: nan in results of arithmetic, divisions by zero, positions out of range."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import numpy as np

from tinyjax.ir.dtypes import INEXACT, INT32, DType, integer_limits
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.arithmetic import Abs, Div, Extreme, rem
from tinyjax.primitives.bitwise import logical_or
from tinyjax.primitives.checks import DivisionByZero, NanResult, OutOfBounds
from tinyjax.primitives.collectives import PSum
from tinyjax.primitives.comparison import eq, gt, lt, ne
from tinyjax.primitives.contractions import Bilinear
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.cumulative import Cumulative
from tinyjax.primitives.dynamic import DynamicSlice, DynamicUpdateSlice, dynamic_slice
from tinyjax.primitives.elementwise import Binary, Smooth
from tinyjax.primitives.fourier import Fft
from tinyjax.primitives.gather import Gather, ScatterAdd, Scattering
from tinyjax.primitives.incomplete import RegularizedIncompleteBeta
from tinyjax.primitives.matrices import OfMatrices
from tinyjax.primitives.reduce_window import ReduceWindowSum
from tinyjax.primitives.reductions import ReduceProd, argmax, reduce_or
from tinyjax.primitives.scatter import Scatter, ScatterMax, ScatterMin, ScatterMul
from tinyjax.primitives.shaping import reshape
from tinyjax.primitives.slicing import concatenate
from tinyjax.primitives.structure import ReduceSum, broadcast_in_dim, constant_like
from tinyjax.transforms.checkify import CHECKING, CheckContext

#: What may make a nan, where others hand one on at most.
_ARITHMETIC: tuple[type[Primitive], ...] = (
    Smooth, Binary, Bilinear, Cumulative, Fft, OfMatrices, PSum, ReduceProd, ReduceSum, ReduceWindowSum,
    RegularizedIncompleteBeta,
)  # fmt: skip


def check_nans(primitive: Primitive, ctx: CheckContext, args: Sequence[Atom]) -> Sequence[Atom]:
    """Applies a primitive, and looks for nan in the results."""
    outs = ctx.parent.bind(primitive, *args)
    inexact = [out for out in outs if out.aval.dtype in INEXACT and out.aval.size]
    if NanResult in ctx.kinds and inexact:
        found = [_any(ctx, ne(ctx.parent, x, x)) for x in inexact]
        wrong = reduce(partial(logical_or, ctx.parent), found)
        ctx.fail(wrong, NanResult(primitive.name, source=ctx.cursor.source))
    return outs


def _as_it_is(primitive: Primitive, ctx: CheckContext, args: Sequence[Atom]) -> Sequence[Atom]:
    return ctx.parent.bind(primitive, *args)


for _cls in _ARITHMETIC:
    CHECKING[_cls] = check_nans
CHECKING[Abs] = _as_it_is
CHECKING[Extreme] = _as_it_is


def _any(ctx: CheckContext, x: Atom) -> Atom:
    return reduce_or(ctx.parent, x, tuple(range(x.aval.ndim)))


@CHECKING.register(Div)
def _div(primitive: Div, ctx: CheckContext, args: Sequence[Atom]) -> Sequence[Atom]:
    divisor = args[1]
    if DivisionByZero in ctx.kinds and divisor.aval.size:
        zero = eq(ctx.parent, divisor, constant_like(ctx.parent, divisor, 0))
        ctx.fail(_any(ctx, zero), DivisionByZero(source=ctx.cursor.source))
    return check_nans(primitive, ctx, args)


@CHECKING.register(Gather)
def _gather(primitive: Gather, ctx: CheckContext, args: Sequence[Atom]) -> Sequence[Atom]:
    x, indices = args
    axes = primitive.dimension_numbers.start_index_map
    _check_positions(primitive, ctx, x, indices, axes, primitive.slice_sizes)
    return ctx.parent.bind(primitive, *args)


def _scatter(primitive: Scattering, ctx: CheckContext, args: Sequence[Atom]) -> Sequence[Atom]:
    x, indices, updates = args
    numbers = primitive.dimension_numbers
    sizes = numbers.window_sizes(x.aval.shape, updates.aval.shape)
    _check_positions(primitive, ctx, x, indices, numbers.scatter_dims_to_operand_dims, sizes)
    if isinstance(primitive, ScatterAdd | ScatterMul):
        return check_nans(primitive, ctx, args)
    return ctx.parent.bind(primitive, *args)


for _scattering in (Scatter, ScatterAdd, ScatterMul, ScatterMin, ScatterMax):
    CHECKING[_scattering] = _scatter


@CHECKING.register(DynamicSlice)
def _dynamic_slice(primitive: DynamicSlice, ctx: CheckContext, args: Sequence[Atom]) -> Sequence[Atom]:
    _check_starts(primitive, ctx, args[0], args[1:], primitive.slice_sizes)
    return ctx.parent.bind(primitive, *args)


@CHECKING.register(DynamicUpdateSlice)
def _dynamic_update_slice(primitive: DynamicUpdateSlice, ctx: CheckContext, args: Sequence[Atom]) -> Sequence[Atom]:
    _check_starts(primitive, ctx, args[0], args[2:], args[1].aval.shape)
    return ctx.parent.bind(primitive, *args)


def _check_starts(
    primitive: Primitive, ctx: CheckContext, x: Atom, starts: Sequence[Atom], sizes: Sequence[int]
) -> None:
    if starts and OutOfBounds in ctx.kinds:
        positions = concatenate(ctx.parent, [reshape(ctx.parent, start, (1,)) for start in starts], 0)
        _check_positions(primitive, ctx, x, positions, range(len(starts)), sizes)


def _check_positions(
    primitive: Primitive, ctx: CheckContext, x: Atom, positions: Atom, axes: Sequence[int], sizes: Sequence[int]
) -> None:
    """Notes windows of `sizes` that aren't within x: `positions` has, along its last axis, where one begins along each
    of these axes of x. The message tells of the first such position."""
    shape, parent = x.aval.shape, ctx.parent
    if OutOfBounds not in ctx.kinds or not positions.aval.size:
        return
    dtype = positions.aval.dtype
    highest = _vector(ctx, [min(shape[axis] - sizes[axis], integer_limits(dtype)[1]) for axis in axes], dtype)
    highest = broadcast_in_dim(parent, highest, positions.aval.shape, (positions.aval.ndim - 1,))
    low = lt(parent, positions, constant_like(parent, positions, 0))
    outside = logical_or(parent, low, gt(parent, positions, highest))
    flat = (positions.aval.size,)
    first = argmax(parent, reshape(parent, outside, flat), 0, INT32)
    column = rem(parent, first, constant_like(parent, first, len(axes)))
    values = [
        dynamic_slice(parent, convert(parent, reshape(parent, positions, flat), INT32), (1,), first),
        dynamic_slice(parent, _vector(ctx, axes, INT32), (1,), column),
        dynamic_slice(parent, _vector(ctx, [shape[axis] for axis in axes], INT32), (1,), column),
    ]
    shown = concatenate(parent, values, 0)
    ctx.fail(_any(ctx, outside), OutOfBounds(primitive.name, shape, source=ctx.cursor.source), [shown])


def _vector(ctx: CheckContext, values: Sequence[int], dtype: DType) -> Atom:
    return ctx.constant(ConcreteValue.of(np.array(values, dtype)))
