"""The shapes of convolutions, from those of their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tinyjax.arrays.shaping import integer, integers
from tinyjax.errors import InputError, ShapeError
from tinyjax.lax.binding import padding_pairs, sequence
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
    words = sequence("dimension_numbers", dimension_numbers)
    if len(words) != 3 or not all(isinstance(word, str) for word in words):
        raise InputError(f"dimension_numbers is three strings such as ('NCHW', 'OIHW', 'NCHW'); got {words}")
    ranks = (0,) * len(words[1])
    found = conv_dimension_numbers(ranks, ranks, words)
    return found.lhs_spec, found.rhs_spec, found.out_spec


def conv_shape_tuple(
    lhs_shape: _Sizes, rhs_shape: _Sizes, strides: _Sizes, pads: _Pads, batch_group_count: int = 1
) -> tuple[int, ...]:
    """The shape of a convolution of (batch, features, …) with (features out, features in, …).

    >>> conv_shape_tuple((1, 3, 8, 8), (5, 3, 3, 3), (2, 2), "SAME")
    (1, 5, 4, 4)
    """
    name = "conv_shape_tuple"
    left, right, steps = (integers(shape, f"{name}: a size or stride") for shape in (lhs_shape, rhs_shape, strides))
    if not len(left) == len(right) == len(steps) + 2 or 0 in steps:
        raise ShapeError(
            f"{name}: shapes {left} and {right} need as many axes, at least two, and a stride, not 0, for each but "
            f"these; got {steps}"
        )
    given = padtype_to_pads(left[2:], right[2:], steps, pads) if isinstance(pads, str) else padding_pairs(name, pads)
    if len(given) != len(steps):
        raise ShapeError(f"{name}: {len(steps)} axes need as many pairs of padding, got {len(given)}")
    groups = integer(batch_group_count, f"{name}: batch_group_count")
    if groups < 1 or left[0] % groups:
        raise ShapeError(f"{name}: a batch of {left[0]} can't be divided into {groups} groups")
    padded = [size + low + high for size, (low, high) in zip(left[2:], given, strict=True)]
    if any(size < 0 for size in padded):
        raise ShapeError(f"{name}: negative padding {list(given)} is larger than the axes it is for: {left[2:]}")
    out = [max((size - k) // step + 1, 0) for size, k, step in zip(padded, right[2:], steps, strict=True)]
    return (left[0] // groups, right[0], *out)


def conv_general_shape_tuple(
    lhs_shape: _Sizes, rhs_shape: _Sizes, window_strides: _Sizes, padding: _Pads, dimension_numbers: Sequence[str]
) -> tuple[int, ...]:
    """The shape of a convolution whose axes are as `dimension_numbers` says.

    >>> conv_general_shape_tuple((1, 8, 8, 3), (3, 3, 3, 5), (1, 1), "VALID", ("NHWC", "HWIO", "NHWC"))
    (1, 6, 6, 5)
    """
    left, right, out = _arranged("conv_general_shape_tuple", lhs_shape, rhs_shape, dimension_numbers)
    return _in_place(conv_shape_tuple(left, right, window_strides, padding), out)


def conv_transpose_shape_tuple(
    lhs_shape: _Sizes, rhs_shape: _Sizes, window_strides: _Sizes, padding: _Pads, dimension_numbers: Sequence[str]
) -> tuple[int, ...]:
    """The shape of what `conv_transpose` gives.

    >>> conv_transpose_shape_tuple((1, 4, 4, 3), (3, 3, 3, 5), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))
    (1, 8, 8, 5)
    """
    name = "conv_transpose_shape_tuple"
    sizes, kernel, out = _arranged(name, lhs_shape, rhs_shape, dimension_numbers)
    strides = integers(window_strides, f"{name}: a stride")
    count = len(out) - 2
    if isinstance(padding, str):
        pads = list(map(_transposed_pads, kernel[2:], strides, [padding] * count))
    else:
        pads = list(padding_pairs(name, padding))
    if not len(strides) == len(pads) == count:
        raise ShapeError(f"{name}: {count} axes need as many strides and pairs of padding, got {strides} and {pads}")
    spatial = [
        (n - 1) * s - k + 2 + sum(pad) for n, k, s, pad in zip(sizes[2:], kernel[2:], strides, pads, strict=True)
    ]
    return _in_place((sizes[0], kernel[0], *spatial), out)


def _arranged(
    name: str, lhs_shape: _Sizes, rhs_shape: _Sizes, dimension_numbers: Sequence[str]
) -> tuple[list[int], list[int], tuple[int, ...]]:
    """Both shapes in the order of `conv_shape_tuple`, and where the axes of the result belong."""
    left, right, out = conv_general_permutations(dimension_numbers)
    shapes = [integers(shape, f"{name}: a size") for shape in (lhs_shape, rhs_shape)]
    if any(len(shape) != len(out) for shape in shapes):
        raise ShapeError(f"{name}: dimension_numbers {dimension_numbers} don't fit shapes {shapes[0]} and {shapes[1]}")
    return [shapes[0][i] for i in left], [shapes[1][i] for i in right], out


def _in_place(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    found = dict(zip(axes, shape, strict=True))
    return tuple(found[i] for i in range(len(shape)))
