"""Products of groups of rows, products with scales, and the largest elements where approximate ones would do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tinyjax.arrays.products import DotPrecisionLike, asked_precision
from tinyjax.caching import bounded
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.call import Call
from tinyjax.errors import InputError, ShapeError, TypingError, UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOATS, INTEGERS, NUMERIC, as_dtype, short_name
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.lax.binding import dimension_pairs
from tinyjax.lax.explicit import computed
from tinyjax.lax.layouts import OutSharding
from tinyjax.lax.reductions import top_k
from tinyjax.lax.unary import neg
from tinyjax.primitives.contractions import DimensionNumbers
from tinyjax.registered import jax_products
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.transforms.arguments import flag

RaggedDotDimensionNumbers: TypeAlias = jax_products.RaggedDotDimensionNumbers
_Definition: TypeAlias = Callable[[StagingContext, Mapping[str, object], Sequence[Atom]], Sequence[Atom]]
_ROWS: Final = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: DotPrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
    group_offset: None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """The rows of `lhs` (m, k) in groups, of which each is multiplied with a matrix of its own: `rhs` has shape
    (g, k, n), `group_sizes` (g,). Rows beyond the last group become 0.

    >>> ragged_dot(np.ones((3, 2)), np.array([[[1.0], [1.0]], [[5.0], [0.0]]]), np.array([2, 1]))
    Array([[2.],
           [2.],
           [5.]], dtype=float64)
    """
    return ragged_dot_general(
        lhs, rhs, group_sizes, _ROWS, precision, preferred_element_type, group_offset, out_sharding=out_sharding
    )


def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: DotPrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
    group_offset: None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """`dot_general`, where an axis of `lhs` is divided into groups of these sizes.

    If it is an axis that is kept, each group has a right operand of its own along `rhs_group_dimensions`; if it is
    summed over, the result has a leading axis with the sum of each group; along a batch axis groups change nothing.
    `group_sizes` has shape (g,), or these sizes for each place along the axes before the divided one.

    >>> numbers = RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
    >>> ragged_dot_general(np.ones((3, 1)), np.arange(3.0)[:, None], np.array([1, 2]), numbers).ravel()
    Array([0., 3.], dtype=float64)
    """
    if group_offset is not None:
        raise UnsupportedError("ragged_dot_general: group_offset is not supported: leave the groups before it out.")
    arrays = [as_array(x) for x in (lhs, rhs, group_sizes)]
    if arrays[2].aval.dtype not in INTEGERS or arrays[2].aval.ndim == 0:
        raise TypingError(f"ragged_dot_general: group_sizes is an array of integers, got {arrays[2].aval}")
    given: object = ragged_dot_dimension_numbers
    if not isinstance(given, RaggedDotDimensionNumbers):
        raise InputError(f"ragged_dot_general: lax.RaggedDotDimensionNumbers say which axes are meant, not {given!r}")
    axes = [*given.dot_dimension_numbers[0][0], *given.dot_dimension_numbers[1][0], *given.lhs_ragged_dimensions]
    (contracting, of_right), (batch, right_batch) = given.dot_dimension_numbers
    named = ("lhs", arrays[0], axes), ("rhs", arrays[1], [*of_right, *right_batch])
    for operand, x, own in named:
        if not all(0 <= axis < x.aval.ndim for axis in own):
            raise ShapeError(f"ragged_dot_general: {operand} {x.aval} doesn't have the axes that {given} names")
        if x.aval.dtype not in NUMERIC:
            raise TypingError(f"ragged_dot_general: {operand} holds numbers, got {x.aval}")
    for what, left, right in (("summed over", contracting, of_right), ("batch axes", batch, right_batch)):
        if [arrays[0].shape[i] for i in left] != [arrays[1].shape[i] for i in right]:
            raise ShapeError(
                f"ragged_dot_general: axes {tuple(left)} of lhs {arrays[0].aval} and {tuple(right)} of rhs "
                f"{arrays[1].aval} are {what}, and must have the same sizes"
            )
    if given.rhs_group_dimensions and {*contracting, *batch}.intersection(given.lhs_ragged_dimensions):
        raise ShapeError(
            "ragged_dot_general: the right operand has groups only if a kept axis of the left one is divided, got "
            f"{given}. Leave out rhs_group_dimensions."
        )
    return computed(
        lambda *arrays: _defined(
            "ragged_dot_general",
            arrays,
            ragged_dot_dimension_numbers=ragged_dot_dimension_numbers,
            precision=asked_precision(precision),
            preferred_element_type=None if preferred_element_type is None else as_dtype(preferred_element_type),
        ),
        arrays,
        out_sharding,
    )


def scaled_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    lhs_scale: ArrayLike | None = None,
    rhs_scale: ArrayLike | None = None,
    dimension_numbers: DimensionNumbers | None = None,
    preferred_element_type: npt.DTypeLike | None = None,
) -> Array:
    """The product of `lhs * lhs_scale` and `rhs * rhs_scale`, which are computed in bfloat16; its dtype is that, or
    the preferred one.

    A scale has as many axes as its operand, and one element for so many of the operand's along each axis that is
    summed over. Without `dimension_numbers`, matrices are multiplied, for each element of the axes before their two.
    A ShapeError if a scale doesn't fit its operand, or has an element for each of the operand's along an axis that is
    summed over.

    >>> scaled_dot(
    ...     np.ones((1, 4)),
    ...     np.ones((4, 1)),
    ...     lhs_scale=np.array([[1.0, 10.0]]),
    ...     preferred_element_type="float32",
    ... )
    Array([[22.]], dtype=float32)
    """
    x, y = as_array(lhs), as_array(rhs)
    numbers = dimension_numbers
    if numbers is None:
        if x.aval.ndim != y.aval.ndim or x.aval.ndim < 2:
            raise ShapeError(f"scaled_dot: say dimension_numbers for operands {x.aval} and {y.aval}")
        last = x.aval.ndim - 1
        batch = tuple(range(last - 1))
        numbers = ((last,), (last - 1,)), (batch, batch)
    (x_sum, y_sum), (x_batch, y_batch) = dimension_pairs("scaled_dot", numbers)
    scales = [
        as_array(np.ones([1 if i in axes else n for i, n in enumerate(operand.aval.shape)], np.float32))
        if scale is None
        else as_array(scale)
        for operand, scale, axes in ((x, lhs_scale, x_sum), (y, rhs_scale, y_sum))
    ]
    for name, given, operand, scale, axes in (
        ("lhs_scale", lhs_scale, x, scales[0], x_sum),
        ("rhs_scale", rhs_scale, y, scales[1], y_sum),
    ):
        same = [i for i in axes if scale.aval.ndim == operand.aval.ndim and scale.shape[i] == operand.shape[i]]
        if given is not None and same:
            raise ShapeError(
                f"scaled_dot: {name} {scale.aval} has an element for two of {operand.aval} at least along axis "
                f"{same[0]}, which is summed over. Multiply the operand by it, and use dot_general."
            )
    return _defined(
        "scaled_dot", [x, y, *scales], dimension_numbers=((x_sum, y_sum), (x_batch, y_batch)),
        preferred_element_type=None if preferred_element_type is None else as_dtype(preferred_element_type),
    )  # fmt: skip


def _defined(name: str, arrays: Sequence[Array], **params: object) -> Array:
    """Applies what is defined by other primitives: one equation."""
    avals = tuple(array.aval for array in arrays)
    return bind(Call(name, _program(name, avals, tuple(params.items()))), *arrays)[0]


@bounded(256)
def _program(name: str, avals: tuple[ShapedArray, ...], params: tuple[tuple[str, object], ...]) -> Jaxpr:
    from tinyjax.registered import jax_expansions  # which loads the whole vocabulary: at first need

    definitions: Mapping[str, _Definition] = {
        "one_minus_square": jax_expansions.one_minus_square,
        "ragged_dot_general": jax_products.ragged_dot_general,
        "scaled_dot": jax_products.scaled_dot,
    }
    return stage(avals, lambda ctx, ins: definitions[name](ctx, dict(params), ins))


def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """The k largest elements along an axis, the largest first, and their int32 indices. Here they are always found:
    `recall_target` says how many of them would do. If not `aggregate_to_topk`, there are more, as many as XLA would
    choose the k from; of a part of a longer axis, so many as are wanted where `reduction_input_size_override` is the
    size of that.

    >>> approx_max_k(np.array([1.0, 5.0, 3.0], "float32"), 2)
    (Array([5., 3.], dtype=float32), Array([1, 2], dtype=int32))
    """
    x = _floats("approx_max_k", operand, recall_target)
    if not flag("approx_max_k: aggregate_to_topk", aggregate_to_topk):
        k = _kept(x, k, reduction_dimension, recall_target, reduction_input_size_override)
    return top_k(x, k, axis=reduction_dimension)


def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """The k smallest elements along an axis, the smallest first, and their int32 indices; see `approx_max_k`.

    >>> approx_min_k(np.array([1.0, 5.0, 3.0], "float32"), 2)
    (Array([1., 3.], dtype=float32), Array([0, 2], dtype=int32))
    """
    x = _floats("approx_min_k", operand, recall_target)
    if not flag("approx_min_k: aggregate_to_topk", aggregate_to_topk):
        k = _kept(x, k, reduction_dimension, recall_target, reduction_input_size_override)
    values, indices = top_k(neg(x), k, axis=reduction_dimension)
    return neg(values), indices


def _floats(name: str, operand: ArrayLike, recall_target: float) -> Array:
    x = as_array(operand)
    if x.aval.dtype not in FLOATS:
        raise TypingError(f"{name}: the operand must be floats, got {short_name(x.aval.dtype)}")
    given: object = recall_target
    if not isinstance(given, int | float | np.number) or not 0.0 < given <= 1.0:
        raise ShapeError(f"{name}: recall_target is between 0 and 1, got {recall_target}")
    return x


def _kept(x: Array, k: int, axis: int, recall_target: float, override: int) -> int:
    """How many elements there are where they aren't aggregated."""
    if not (-x.aval.ndim <= axis < x.aval.ndim and 0 < k <= x.aval.shape[axis]):
        return k  # top_k says what is wrong
    from tinyjax.registered.jax_expansions import candidates

    return candidates(x.aval.shape[axis], x.aval.ndim, k, recall_target, override)


def one_minus_square(x: ArrayLike) -> Array:
    """1 - x**2, exact near 1, with a derivative that is exact near 0.

    >>> one_minus_square(1.0 - 1e-17), one_minus_square(3)
    (Array(0., dtype=float64, weak_type=True), Array(-8, dtype=int64, weak_type=True))
    """
    array = as_array(x)
    if array.aval.dtype not in NUMERIC:
        raise TypingError(f"one_minus_square: the operand must be numbers, got {short_name(array.aval.dtype)}")
    return _defined("one_minus_square", [array])
