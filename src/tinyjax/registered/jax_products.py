"""Products of JAX, and choices of the largest elements, that are defined by others of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from attrs import field, frozen

from tinyjax.contexts.staging import StagingContext
from tinyjax.errors import ParameterError, ShapeError, UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BFLOAT16, FLOAT32, DType, as_dtype
from tinyjax.ir.program import Atom
from tinyjax.primitives.bitwise import logical_and
from tinyjax.primitives.comparison import le, lt
from tinyjax.primitives.contractions import DimensionNumbers, DotGeneral, as_dot_precision
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.cumulative import cumsum
from tinyjax.primitives.elementwise import mul, sub
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import iota, reshape
from tinyjax.primitives.structure import broadcast_in_dim, full, permute

Params: TypeAlias = Mapping[str, object]
Axes: TypeAlias = tuple[int, ...]


def _axes(axes: object) -> Axes:
    """Users write lists, too."""
    if isinstance(axes, Sequence | np.ndarray) and not isinstance(axes, str):
        found = tuple(axes)
        if all(isinstance(axis, int | np.integer) for axis in found):
            return tuple(map(int, found))
    raise ParameterError(f"RaggedDotDimensionNumbers: axes are a tuple of integers, got {axes!r}")


def _pair(given: object) -> tuple[object, object]:
    if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 2:
        return given[0], given[1]
    raise ParameterError(
        "RaggedDotDimensionNumbers: dot_dimension_numbers has two pairs, the axes of the left and the right operand "
        f"that are summed over, and those of the batch; {given!r} is no pair"
    )


def _tuples(numbers: object) -> DimensionNumbers:
    (x_sum, y_sum), (x_batch, y_batch) = map(_pair, _pair(numbers))
    found = (_axes(x_sum), _axes(y_sum)), (_axes(x_batch), _axes(y_batch))
    if any(len(x) != len(y) for x, y in found):
        raise ParameterError(
            f"RaggedDotDimensionNumbers: dot_dimension_numbers names as many axes of each operand, got {numbers!r}"
        )
    return found


@frozen
class RaggedDotDimensionNumbers:
    """What `dot_general` needs, which axis of the left operand is divided into groups, and which axis of the right one
    has an entry for each group, if one has."""

    dot_dimension_numbers: DimensionNumbers = field(converter=_tuples)
    lhs_ragged_dimensions: Axes = field(converter=_axes)
    rhs_group_dimensions: Axes = field(converter=_axes)


def ragged_dot_general(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
    """A product for each group of places along an axis of the left operand. Where the axis is summed over, there is a
    result for each group; where it isn't, each group has its own right operand.

    The left operand is repeated for each group, with zeros in place of all others.
    """
    x, y, sizes = args
    numbers = params["ragged_dot_dimension_numbers"]
    if not isinstance(numbers, RaggedDotDimensionNumbers) or len(numbers.lhs_ragged_dimensions) != 1:
        raise ParameterError(f"ragged_dot_general: one axis of the left operand is ragged, got {numbers}")
    if params.get("group_offset") is not None:
        raise UnsupportedError("ragged_dot_general[group_offset=...] is not supported")
    ((x_sum, y_sum), (x_batch, y_batch)), (ragged,) = numbers.dot_dimension_numbers, numbers.lhs_ragged_dimensions
    x_rest = tuple(i for i in range(x.aval.ndim) if i not in (*x_sum, *x_batch))
    _check_groups(numbers, x.aval, y.aval, sizes.aval, x_rest)
    precision, preferred = as_dot_precision(params.get("precision")), _dtype(params.get("preferred_element_type"))
    if ragged in x_batch:
        return ctx.bind(DotGeneral(numbers.dot_dimension_numbers, precision, preferred), x, y)
    if ragged in x_rest:
        spread = _by_group(ctx, x, sizes, ragged, (*x_batch, *x_rest[: x_rest.index(ragged)]))
        dims = ((*_next(x_sum), 0), (*y_sum, numbers.rhs_group_dimensions[0])), (_next(x_batch), y_batch)
        return ctx.bind(DotGeneral(dims, precision, preferred), spread, y)
    place = x_sum.index(ragged)
    left = _by_group(ctx, x, sizes, ragged, (*x_batch, *x_sum[:place]))
    right = _by_group(ctx, y, sizes, y_sum[place], (*y_batch, *y_sum[:place]))
    both = (_next(x_sum), _next(y_sum)), ((0, *_next(x_batch)), (0, *_next(y_batch)))
    return ctx.bind(DotGeneral(both, precision, preferred), left, right)


def _check_groups(
    numbers: RaggedDotDimensionNumbers, x: ShapedArray, y: ShapedArray, sizes: ShapedArray, x_rest: Axes
) -> None:
    """A ShapeError if groups are no axis of the right operand where they have to be, or if their sizes, which may
    differ along the axes before the divided one, haven't the shape for that."""
    ((x_sum, y_sum), (x_batch, y_batch)), (ragged,) = numbers.dot_dimension_numbers, numbers.lhs_ragged_dimensions
    count, groups = sizes.shape[-1], numbers.rhs_group_dimensions
    if ragged in x_rest:
        if len(groups) != 1:
            raise ShapeError("ragged_dot_general: the right operand needs an axis of groups if a kept axis is ragged")
        if groups[0] in (*y_sum, *y_batch) or not 0 <= groups[0] < y.ndim:
            raise ShapeError(
                f"ragged_dot_general: rhs_group_dimensions {groups} is an axis of the right operand {y} that is "
                f"neither summed over, as {y_sum} are, nor one of the batch, as {y_batch} are"
            )
        if y.shape[groups[0]] != count:
            raise ShapeError(
                f"ragged_dot_general: there are {count} groups in group_sizes {sizes}, and {y.shape[groups[0]]} along "
                f"axis {groups[0]} of the right operand {y}"
            )
        before = (*x_batch, *x_rest[: x_rest.index(ragged)])
    elif ragged in x_batch:
        before = x_batch[: x_batch.index(ragged)]
    else:
        before = (*x_batch, *x_sum[: x_sum.index(ragged)])
    expected = (*(x.shape[axis] for axis in before), count)
    if sizes.ndim > 1 and sizes.shape != expected:
        raise ShapeError(
            f"ragged_dot_general: group_sizes has the shape {expected}, for the axes {before} of the left operand {x} "
            f"before the divided one, {ragged}, or ({count},) for all of them; got {sizes}"
        )


def _by_group(ctx: StagingContext, x: Atom, sizes: Atom, axis: int, before: Axes) -> Atom:
    """x for each group, in a new first axis: zero where a place along the axis isn't the group's. The sizes of groups
    may differ along the axes `before` it."""
    shape = (sizes.aval.shape[-1], *x.aval.shape)
    along = (*_next(before), 0) if sizes.aval.ndim > 1 else (0,)
    order = tuple(sorted(range(len(along)), key=along.__getitem__))
    ends = cumsum(ctx, sizes, sizes.aval.ndim - 1)
    first, last = (
        broadcast_in_dim(ctx, permute(ctx, part, order), shape, tuple(sorted(along)))
        for part in (sub(ctx, ends, sizes), ends)
    )
    places = iota(ctx, sizes.aval.dtype, shape, axis + 1)
    inside = logical_and(ctx, le(ctx, first, places), lt(ctx, places, last))
    repeated = broadcast_in_dim(ctx, x, shape, tuple(range(1, len(shape))))
    return select(ctx, inside, repeated, full(ctx, repeated.aval, 0))


def _next(axes: Axes) -> Axes:
    return tuple(axis + 1 for axis in axes)


def _dtype(value: object) -> DType | None:
    if value is None:
        return None
    if not isinstance(value, str | np.dtype | type):
        raise ParameterError(f"{value!r} is no dtype")
    return as_dtype(value)


def scaled_dot(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
    """The product of two operands, of which each is multiplied with its scale first, in bfloat16. A scale has one
    element for so many of the operand's along each axis that is summed over."""
    x, y, x_scale, y_scale = args
    numbers = _dimension_numbers(params["dimension_numbers"])
    (x_sum, y_sum), _ = numbers
    product = DotGeneral(numbers, None, _dtype(params.get("preferred_element_type")) or BFLOAT16)
    left = _scaled(ctx, "scaled_dot: lhs_scale", x, x_scale, x_sum, BFLOAT16)
    return ctx.bind(product, left, _scaled(ctx, "scaled_dot: rhs_scale", y, y_scale, y_sum, BFLOAT16))


def scaled_matmul(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
    """The same for a batch of matrices, x yᵀ, in the dtype of the result."""
    x, y, x_scale, y_scale = args
    dtype = _dtype(params.get("preferred_element_type")) or FLOAT32
    product = DotGeneral((((2,), (2,)), ((0,), (0,))), None, dtype)
    left = _scaled(ctx, "scaled_matmul: the scale of lhs", x, x_scale, (2,), dtype)
    return ctx.bind(product, left, _scaled(ctx, "scaled_matmul: the scale of rhs", y, y_scale, (2,), dtype))


def _scaled(ctx: StagingContext, what: str, x: Atom, scale: Atom, summed: Axes, dtype: DType) -> Atom:
    shape, own = x.aval.shape, scale.aval.shape
    if len(shape) != len(own):
        raise ShapeError(f"{what} has as many axes as its operand {x.aval}, got {scale.aval}")
    for axis, (m, n) in enumerate(zip(shape, own, strict=True)):
        if axis in summed and (n == 0 or m % n):
            raise ShapeError(f"{what} {scale.aval} has a size along axis {axis} that divides that of {x.aval}")
        if axis not in summed and m != n:
            raise ShapeError(
                f"{what} {scale.aval} has an element for each of its operand {x.aval} along axis {axis}, which isn't "
                "summed over"
            )
    parts = tuple(n for m, k in zip(shape, own, strict=True) for n in (k, m // max(k, 1)))
    spread = broadcast_in_dim(ctx, convert(ctx, scale, dtype), parts, tuple(range(0, len(parts), 2)))
    return mul(ctx, convert(ctx, x, dtype), reshape(ctx, spread, shape))


def _dimension_numbers(value: object) -> DimensionNumbers:
    pairs = value if isinstance(value, tuple) else ()
    if len(pairs) == 2 and all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        (a, b), (c, d) = pairs
        return (tuple(a), tuple(b)), (tuple(c), tuple(d))
    raise ParameterError(f"{value!r} has no axes to sum over")
