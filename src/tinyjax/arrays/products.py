"""Products that sum over axes: matmul, dot, tensordot. All of them are one `dot_general`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from tinyjax.arrays.arithmetic import multiply
from tinyjax.arrays.elementwise import astype, promote, user_dtype
from tinyjax.arrays.intake import as_operand
from tinyjax.arrays.shaping import canonical_axes, canonical_axis, integer, integers
from tinyjax.caching import bounded
from tinyjax.deferred import PRECISION
from tinyjax.errors import ShapeError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import DType
from tinyjax.ir.result_types import made_once
from tinyjax.primitives.contractions import DimensionNumbers, DotGeneral, DotPrecision, Precision, as_dot_precision
from tinyjax.primitives.dot_algorithms import DotAlgorithm, DotAlgorithmPreset
from tinyjax.primitives.shaping import Squeeze
from tinyjax.primitives.structure import Transpose

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array, ArrayLike


_PrecisionName: TypeAlias = Literal[
    "default", "high", "highest", "fastest", "bfloat16", "bfloat16_3x", "tensorfloat32", "float32"
]
#: How exactly an accelerator multiplies: a Precision or its name, for both operands or for each.
PrecisionLike: TypeAlias = (
    Precision | _PrecisionName | tuple[Precision | _PrecisionName, Precision | _PrecisionName] | None
)
#: The same, or an algorithm, or the name of a preset, such as "F32_F32_F32".
DotPrecisionLike: TypeAlias = PrecisionLike | DotAlgorithm | DotAlgorithmPreset | str


@bounded(1024)
def _primitive(dims: DimensionNumbers, precision: DotPrecision, preferred: DType | None) -> DotGeneral:
    return DotGeneral(dims, precision, preferred)


def contract(
    x: Array,
    y: Array,
    dimension_numbers: DimensionNumbers,
    precision: DotPrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
) -> Array:
    """`dot_general` after promotion. Its axes: the batch axes, what remains of x, what remains of y."""
    x, y = promote(x, y)
    made = _primitive(dimension_numbers, asked_precision(precision), user_dtype(preferred_element_type))
    return x._bind(made, x, y)[0]


def asked_precision(given: DotPrecisionLike) -> DotPrecision:
    """What is given, or else what is in force: see `tinyjax.default_matmul_precision`."""
    return as_dot_precision(PRECISION.use() if given is None else given)


def matmul(
    x: Array, y: Array, precision: DotPrecisionLike = None, preferred_element_type: npt.DTypeLike | None = None
) -> Array:
    """The matrix product over the last two axes; the axes before are broadcast. Vectors gain an axis and lose it."""
    left, right = x.aval, y.aval
    if not left.shape or not right.shape:
        raise ShapeError(f"matmul needs operands with at least one axis, got {left} and {right}. Use * for scalars.")
    if left.shape[-1] != right.shape[-2:][0]:
        raise ShapeError(
            f"matmul: the last axis of {left} must have the size of axis {max(-2, -right.ndim)} of {right}"
        )
    if left.ndim <= 2 and right.ndim <= 2:
        sums = (((left.ndim - 1,), (0,)), ((), ()))
        return contract(x, y, sums, precision, preferred_element_type)
    return _batched_matmul(x, y, precision, preferred_element_type)


def _batched_matmul(x: Array, y: Array, precision: DotPrecisionLike, preferred: npt.DTypeLike | None) -> Array:
    # Where both operands have a batch axis, it is one of `dot_general`. Where only one does, it is among the axes that
    # remain of that operand, so nothing is repeated.
    x_shape, y_shape = x.aval.shape, y.aval.shape
    ndim = max(len(x_shape), len(y_shape), 2) - 2
    x_sizes = _padded(x_shape[:-2], ndim)
    y_sizes = _padded(y_shape[:-2], ndim)
    shared = [i for i in range(ndim) if x_sizes[i] == y_sizes[i]]
    x_only = [i for i in range(ndim) if i not in shared and y_sizes[i] in (None, 1) and x_sizes[i] is not None]
    y_only = [i for i in range(ndim) if i not in shared and i not in x_only]
    if any(x_sizes[i] not in (None, 1) for i in y_only):
        raise ShapeError(f"matmul: the batch axes of {x.aval} and {y.aval} can't be broadcast together")
    x, x_at = _without(x, x_sizes, y_only)
    y, y_at = _without(y, y_sizes, x_only)
    sums = (x.aval.ndim - 1,), (max(y.aval.ndim - 2, 0),)
    batch = tuple(x_at[i] for i in shared), tuple(y_at[i] for i in shared)
    out = contract(x, y, (sums, batch), precision, preferred)
    # The axes of the product, by their places in the result.
    rows = [ndim] if len(x_shape) > 1 else []
    columns = [ndim + 1] if len(y_shape) > 1 else []
    places = [*shared, *x_only, *rows, *y_only, *columns]
    order = tuple(sorted(range(len(places)), key=places.__getitem__))
    return out if order == tuple(range(len(places))) else out._bind(made_once(Transpose, order), out)[0]


def _padded(sizes: tuple[int, ...], ndim: int) -> list[int | None]:
    return [*[None] * (ndim - len(sizes)), *sizes]


def _without(x: Array, sizes: list[int | None], dropped: list[int]) -> tuple[Array, dict[int, int]]:
    """x without the batch axes of size 1 that are dropped, and where the others are."""
    offset = sizes.count(None)
    present = [i for i, size in enumerate(sizes) if size is not None]
    squeezed = tuple(i - offset for i in dropped if i in present)
    if squeezed:
        (x,) = x._bind(made_once(Squeeze, squeezed), x)
    return x, {i: at for at, i in enumerate(i for i in present if i not in dropped)}


def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: DotPrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
) -> Array:
    """The sum over the last axis of a and the last but one of b; for scalars the product."""
    x, y = as_operand(a), as_operand(b)
    left, right = x.aval, y.aval
    if left.shape and right.shape:
        axes = (left.ndim - 1,), (max(right.ndim - 2, 0),)
        return _summed("dot", x, y, axes, precision, preferred_element_type)
    product = multiply(x, y)
    return product if preferred_element_type is None else _converted(product, preferred_element_type)


def _converted(x: Array, dtype: npt.DTypeLike) -> Array:
    found = user_dtype(dtype)
    return x if found is None else astype(x, found)


def _summed(
    name: str,
    x: Array,
    y: Array,
    axes: tuple[tuple[int, ...], tuple[int, ...]],
    precision: DotPrecisionLike,
    preferred: npt.DTypeLike | None,
) -> Array:
    return contract(x, y, _numbers(name, x.aval, y.aval, axes), precision, preferred)


@bounded(1024)
def _numbers(
    name: str, left: ShapedArray, right: ShapedArray, axes: tuple[tuple[int, ...], tuple[int, ...]]
) -> DimensionNumbers:
    """What sums over these axes, which must be of the same sizes."""
    sizes = [tuple(aval.shape[i] for i in own) for aval, own in zip((left, right), axes, strict=True)]
    if sizes[0] != sizes[1]:
        raise ShapeError(f"{name}: axes {axes[0]} of {left} and {axes[1]} of {right} differ in size")
    return axes, ((), ())


def tensordot(
    x: Array,
    y: Array,
    axes: SupportsIndex | Sequence[SupportsIndex | Sequence[SupportsIndex]] = 2,
    precision: DotPrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
) -> Array:
    """The sum over pairs of axes: the last `axes` of x with the first of y, or the two lists of axes."""
    x_ndim, y_ndim = x.aval.ndim, y.aval.ndim
    if isinstance(axes, SupportsIndex) and not isinstance(axes, Sequence):
        axes = integer(axes, "tensordot: axes")
        if not 0 <= axes <= min(x_ndim, y_ndim):
            raise ShapeError(f"tensordot: {axes} axes can't be summed over in {x.aval} and {y.aval}")
        pairs = tuple(range(x_ndim - axes, x_ndim)), tuple(range(axes))
    else:
        given: object = axes
        if not isinstance(given, Sequence | np.ndarray) or len(given) != 2:
            raise ShapeError(f"tensordot: axes is a number, or those of one array and those of the other, got {axes}")
        lists = [integers(entry, "tensordot: an axis") for entry in axes]
        if len(lists[0]) != len(lists[1]):
            raise ShapeError(f"tensordot: axes must list as many axes of one array as of the other, got {axes}")
        pairs = (
            tuple(canonical_axis(axis, x_ndim, "tensordot") for axis in lists[0]),
            tuple(canonical_axis(axis, y_ndim, "tensordot") for axis in lists[1]),
        )
        for own, ndim in zip(pairs, (x_ndim, y_ndim), strict=True):
            canonical_axes(own, ndim, "tensordot")
    return _summed("tensordot", x, y, pairs, precision, preferred_element_type)
