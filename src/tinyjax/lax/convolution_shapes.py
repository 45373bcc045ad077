"""The shapes of convolutions, from those of their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tinyjax.arrays.shaping import integers
from tinyjax.errors import ShapeError
from tinyjax.lax.convolution import _transposed_pads, conv_dimension_numbers, padtype_to_pads

ConvGeneralDilatedDimensionNumbers: TypeAlias = Sequence[str]
_Pads: TypeAlias = str | Sequence[tuple[int, int]]
_Sizes: TypeAlias = Sequence[int]


def conv_general_permutations(
    dimension_numbers: Sequence[str],
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Where the batch, the features and the spatial axes are, in operand, kernel and result.

    >>> conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    ranks = (0,) * len(dimension_numbers[1])
    found = conv_dimension_numbers(ranks, ranks, tuple(dimension_numbers))
    return found.lhs_spec, found.rhs_spec, found.out_spec


def conv_shape_tuple(
    lhs_shape: _Sizes, rhs_shape: _Sizes, strides: _Sizes, pads: _Pads, batch_group_count: int = 1
) -> tuple[int, ...]:
    """The shape of a convolution of (batch, features, …) with (features out, features in, …).

    >>> conv_shape_tuple((1, 3, 8, 8), (5, 3, 3, 3), (2, 2), "SAME")
    (1, 5, 4, 4)
    """
    left, right, steps = (integers(shape, "conv_shape_tuple: a size") for shape in (lhs_shape, rhs_shape, strides))
    given = padtype_to_pads(left[2:], right[2:], steps, pads) if isinstance(pads, str) else list(pads)
    if len(given) != len(left) - 2:
        raise ShapeError(f"conv_shape_tuple: {len(left) - 2} axes need as many pairs of padding, got {len(given)}")
    padded = [size + low + high for size, (low, high) in zip(left[2:], given, strict=True)]
    if any(size < 0 for size in padded):
        raise ShapeError(f"conv_shape_tuple: negative padding {given} is larger than the axes it is for: {left[2:]}")
    out = [max((size - k) // step + 1, 0) for size, k, step in zip(padded, right[2:], steps, strict=True)]
    return (left[0] // batch_group_count, right[0], *out)


def conv_general_shape_tuple(
    lhs_shape: _Sizes, rhs_shape: _Sizes, window_strides: _Sizes, padding: _Pads, dimension_numbers: Sequence[str]
) -> tuple[int, ...]:
    """The shape of a convolution whose axes are as `dimension_numbers` says.

    >>> conv_general_shape_tuple((1, 8, 8, 3), (3, 3, 3, 5), (1, 1), "VALID", ("NHWC", "HWIO", "NHWC"))
    (1, 6, 6, 5)
    """
    left, right, out = conv_general_permutations(dimension_numbers)
    shape = conv_shape_tuple(
        [lhs_shape[i] for i in left], [rhs_shape[i] for i in right], window_strides, padding
    )  # fmt: skip
    return _in_place(shape, out)


def conv_transpose_shape_tuple(
    lhs_shape: _Sizes, rhs_shape: _Sizes, window_strides: _Sizes, padding: _Pads, dimension_numbers: Sequence[str]
) -> tuple[int, ...]:
    """The shape of what `conv_transpose` gives.

    >>> conv_transpose_shape_tuple((1, 4, 4, 3), (3, 3, 3, 5), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))
    (1, 8, 8, 5)
    """
    left, right, out = conv_general_permutations(dimension_numbers)
    sizes, kernel = [lhs_shape[i] for i in left], [rhs_shape[i] for i in right]
    strides = integers(window_strides, "conv_transpose_shape_tuple: a stride")
    if isinstance(padding, str):
        pads = [_transposed_pads(k, s, padding) for k, s in zip(kernel[2:], strides, strict=True)]
    else:
        pads = list(padding)
    spatial = [
        (n - 1) * s - k + 2 + sum(pad) for n, k, s, pad in zip(sizes[2:], kernel[2:], strides, pads, strict=True)
    ]
    return _in_place((sizes[0], kernel[0], *spatial), out)


def _in_place(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    found = dict(zip(axes, shape, strict=True))
    return tuple(found[i] for i in range(len(shape)))
