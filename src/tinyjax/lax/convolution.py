"""Convolutions, and what is defined by them."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tinyjax.arrays.products import PrecisionLike, asked_precision
from tinyjax.arrays.shaping import integer, integers, moveaxis
from tinyjax.errors import InputError, ShapeError, TypingError
from tinyjax.ir.dtypes import BOOL, NUMERIC, as_dtype
from tinyjax.ir.shapes import as_shape
from tinyjax.lax.binding import operands, padding_pairs, strict
from tinyjax.lax.explicit import computed
from tinyjax.lax.layouts import OutSharding
from tinyjax.lax.reductions import dot_general
from tinyjax.lax.shaping import rev
from tinyjax.primitives.contractions import Precision, as_precision
from tinyjax.primitives.convolution import ConvDimensionNumbers, ConvGeneralDilated
from tinyjax.primitives.window_shapes import dilated, dilated_shape, pads_of
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.transforms.arguments import flag

_NumbersLike: TypeAlias = ConvDimensionNumbers | Sequence[str] | Sequence[Sequence[int]] | None
_PaddingLike: TypeAlias = str | Sequence[tuple[int, int]]
_Sizes: TypeAlias = Sequence[int]


def _asked(precision: PrecisionLike) -> Precision | tuple[Precision, Precision] | None:
    """What is given, or else what is in force; an algorithm is for products of matrices only."""
    if precision is not None:
        return as_precision(precision)
    found = asked_precision(None)
    return found if isinstance(found, Precision | tuple) else None


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: str
) -> list[tuple[int, int]]:
    """The numbers of elements added before and after each axis that "SAME", "SAME_LOWER" or "VALID" stands for.

    >>> padtype_to_pads((5, 5), (3, 2), (1, 2), "SAME")
    [(1, 1), (0, 1)]
    """
    shape, window, strides = (
        integers(values, f"padtype_to_pads: {what}")
        for what, values in (("a size", in_shape), ("a window size", window_shape), ("a stride", window_strides))
    )
    if not isinstance(padding, str):
        raise InputError(f"padtype_to_pads: padding is 'VALID', 'SAME' or 'SAME_LOWER', got {padding!r}")
    return list(pads_of(shape, window, strides, padding))


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: _NumbersLike
) -> ConvDimensionNumbers:
    """Which axis of an operand, a kernel and the result of a convolution is what.

    `dimension_numbers` is three strings with a letter for each axis: N for the batch and C for the features of operand
    and result, O and I for the features of the result and of the operand in the kernel, and other letters for spatial
    axes, which keep the order that they have in the kernel. None stands for `("NC…", "OI…", "NC…")`.

    >>> conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    left, right = (integers(shape, "conv_dimension_numbers: a size") for shape in (lhs_shape, rhs_shape))
    if len(left) != len(right):
        raise ShapeError(f"conv_dimension_numbers: lhs and rhs must have as many axes, got shapes {left} and {right}")
    if dimension_numbers is None:
        axes = tuple(range(len(left)))
        return ConvDimensionNumbers(axes, axes, axes)
    if not isinstance(dimension_numbers, tuple | list) or len(dimension_numbers) != 3:
        raise InputError(
            "dimension_numbers is three strings such as ('NCHW', 'OIHW', 'NCHW'), a lax.ConvDimensionNumbers or None; "
            f"got {dimension_numbers!r}"
        )
    words = [spec for spec in dimension_numbers if isinstance(spec, str)]
    axes_of = [integers(spec, "dimension_numbers: an axis") for spec in dimension_numbers if not isinstance(spec, str)]
    if not words:
        lhs, rhs, out = axes_of
        if any(sorted(axes) != list(range(len(left))) for axes in axes_of):
            raise ShapeError(
                f"dimension_numbers: each of the three has the {len(left)} axes once, got {tuple(dimension_numbers)}"
            )
        return ConvDimensionNumbers(lhs, rhs, out)
    if axes_of:
        raise InputError(f"dimension_numbers is three strings, or three tuples of axes; got {dimension_numbers!r}")
    for word, letters in zip(words, ("NC", "OI", "NC"), strict=True):
        if len(word) != len(left):
            raise InputError(f"dimension_numbers: {word!r} must have a letter for each of the {len(left)} axes")
        if len(set(word)) < len(word) or not set(letters) <= set(word):
            raise InputError(
                f"dimension_numbers: {word!r} must have the letters {letters[0]} and {letters[1]}, and no letter twice"
            )
    spatial = [c for c in words[1] if c not in "OI"]
    for word, letters in ((words[0], "NC"), (words[2], "NC")):
        if set(word) - set(letters) != set(spatial):
            raise InputError(
                f"dimension_numbers: {word!r} and {words[1]!r} must have the same letters for spatial axes"
            )

    lhs, rhs, out = (tuple(map(word.index, (*letters, *spatial)))
                     for word, letters in zip(words, ("NC", "OI", "NC"), strict=True))  # fmt: skip
    return ConvDimensionNumbers(lhs, rhs, out)


def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: _Sizes,
    padding: _PaddingLike,
    lhs_dilation: _Sizes | None = None,
    rhs_dilation: _Sizes | None = None,
    dimension_numbers: _NumbersLike = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """The convolution of an operand with a kernel, over any number of spatial axes.

    As usual in neural networks the kernel isn't turned around. `lhs` has an axis for the batch, one for features and
    spatial ones; `rhs` has one for the features of the result, one for those of `lhs` (of one group), and spatial ones;
    `dimension_numbers` says which is which, see `conv_dimension_numbers`.

    `padding` is "VALID", "SAME" (as many results as elements, divided by the stride), "SAME_LOWER", or for each spatial
    axis how many zeros are added before and after it; negative numbers remove elements. The dilations put gaps between
    the elements: of `lhs` for a transposed convolution, of `rhs` for one with holes. With groups, the features (or the
    batch) are divided, and so are those of the result, of which each group depends on one group.

    Raises:
      ShapeError: shapes, groups, strides or dilations that don't fit each other.
      TypingError: operands of different dtypes.

    >>> x, kernel = np.arange(5.0).reshape(1, 1, 5), np.ones((1, 1, 3))
    >>> conv_general_dilated(x, kernel, (1,), "SAME")
    Array([[[1., 3., 6., 9., 7.]]], dtype=float64)
    """
    name = "conv_general_dilated"
    x, y = operands(lhs, rhs)
    numbers = conv_dimension_numbers(x.aval.shape, y.aval.shape, dimension_numbers)
    ones = (1,) * max(x.aval.ndim - 2, 0)
    strides = integers(window_strides, f"{name}: a stride")
    spread = ones if lhs_dilation is None else integers(lhs_dilation, f"{name}: lhs_dilation")
    holes = ones if rhs_dilation is None else integers(rhs_dilation, f"{name}: rhs_dilation")
    groups = integer(feature_group_count, f"{name}: feature_group_count")
    batches = integer(batch_group_count, f"{name}: batch_group_count")
    dtype = None if preferred_element_type is None else as_dtype(preferred_element_type)
    exactly = _asked(precision)
    checked = ConvGeneralDilated(
        strides, ((0, 0),) * len(ones), spread, holes, numbers, groups, batches, exactly, dtype
    )
    checked.check(x.aval, y.aval)
    if isinstance(padding, str):
        if any(step != 1 for step in spread) and padding.upper() != "VALID":
            raise InputError(
                f"{name}: padding {padding!r} has no meaning where lhs is dilated. Give a pair of numbers for each "
                "axis, or use conv_transpose."
            )
        shape, kernel = ([aval.shape[axis] for axis in spec[2:]]
                         for aval, spec in ((x.aval, numbers.lhs_spec), (y.aval, numbers.rhs_spec)))  # fmt: skip
        pads = pads_of(shape, dilated_shape(kernel, holes), strides, padding)
    else:
        pads = padding_pairs(name, padding)
    made = ConvGeneralDilated(strides, pads, spread, holes, numbers, groups, batches, exactly, dtype)
    return computed(lambda x, y: strict(made, x, y), (x, y), out_sharding)


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: _Sizes,
    padding: str,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
) -> Array:
    """`conv_general_dilated` without dilation and groups, of axes in the order NC…, OI…, NC….

    >>> conv(np.ones((1, 1, 4)), np.ones((1, 1, 2)), (2,), "VALID")
    Array([[[2., 2.]]], dtype=float64)
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, precision=precision, preferred_element_type=preferred_element_type
    )


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: _Sizes,
    padding: _PaddingLike,
    lhs_dilation: _Sizes | None,
    rhs_dilation: _Sizes | None,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
) -> Array:
    """`conv_general_dilated` without groups, of axes in the order NC…, OI…, NC….

    >>> conv_with_general_padding(np.ones((1, 1, 2)), np.ones((1, 1, 2)), (1,), [(1, 1)], None, None)
    Array([[[1., 2., 1.]]], dtype=float64)
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def _transposed_pads(kernel: int, stride: int, padding: str | Sequence[int]) -> tuple[int, int]:
    """What is added before and after an axis of a transposed convolution, from the padding of the convolution."""
    if isinstance(padding, str):
        name = padding.upper()
        if name == "SAME":
            total = kernel + stride - 2
            before = kernel - 1 if stride > kernel - 1 else -(-total // 2)
            return before, total - before
        if name == "VALID":
            return kernel - 1, kernel + stride - 2 + max(kernel - stride, 0) - (kernel - 1)
        raise InputError(
            f"conv_transpose: padding is 'SAME', 'VALID' or a pair of numbers for each axis; got {padding!r}"
        )
    low, high = padding
    return kernel - 1 - low, kernel - 1 - high


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: _Sizes,
    padding: _PaddingLike,
    rhs_dilation: _Sizes | None = None,
    dimension_numbers: _NumbersLike = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
    use_consistent_padding: bool = False,
) -> Array:
    """A transposed convolution: `strides - 1` zeros between the elements make the result larger.

    `padding` "SAME" and "VALID" are those of the convolution that this is the transpose of. Pairs of numbers are added
    here, or, if `use_consistent_padding`, are that convolution's, too. `transpose_kernel` takes the kernel of that
    convolution: turned around, its axes of features exchanged. Without `dimension_numbers` the axes are in the order
    N…C, …IO, N…C.

    >>> conv_transpose(np.ones((1, 2, 1)), np.ones((3, 1, 1)), (2,), "VALID").ravel()
    Array([1., 1., 2., 1., 1.], dtype=float64)
    """
    x, y = operands(lhs, rhs)
    ndim = x.aval.ndim
    if ndim != y.aval.ndim or ndim < 2:
        raise ShapeError(f"conv_transpose: lhs and rhs must have as many axes, at least two; got {x.aval} and {y.aval}")
    if dimension_numbers is None:
        if ndim > 5:
            raise InputError(f"conv_transpose: give dimension_numbers for the {ndim} axes of {x.aval}")
        spatial = "HWD"[: ndim - 2]
        dimension_numbers = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    numbers = conv_dimension_numbers(x.aval.shape, y.aval.shape, dimension_numbers)
    kernel = numbers.rhs_spec
    steps = integers(strides, "conv_transpose: a stride")
    holes = (1,) * (ndim - 2) if rhs_dilation is None else integers(rhs_dilation, "conv_transpose: rhs_dilation")
    if not len(steps) == len(holes) == ndim - 2:
        raise ShapeError(f"conv_transpose: strides and rhs_dilation need {ndim - 2} numbers, got {steps} and {holes}")
    if isinstance(padding, str) or use_consistent_padding:
        each = [padding] * (ndim - 2) if isinstance(padding, str) else padding_pairs("conv_transpose", padding)
        if len(each) != ndim - 2:
            raise ShapeError(f"conv_transpose: padding needs {ndim - 2} pairs of numbers, got {padding}")
        widths = [dilated(y.aval.shape[axis], hole) for axis, hole in zip(kernel[2:], holes, strict=True)]
        padding = list(map(_transposed_pads, widths, steps, each))
    if flag("conv_transpose: transpose_kernel", transpose_kernel):
        y = rev(y, kernel[2:])
        order = list(range(ndim))
        order[kernel[0]], order[kernel[1]] = kernel[1], kernel[0]
        y = y.transpose(order)
    return conv_general_dilated(
        x, y, (1,) * (ndim - 2), padding, steps, holes, numbers, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: _Sizes,
    window_strides: _Sizes,
    padding: _PaddingLike,
    lhs_dilation: _Sizes | None = None,
    rhs_dilation: _Sizes | None = None,
    dimension_numbers: _NumbersLike = None,
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
) -> Array:
    """What is under a kernel of this shape at each position, as features: for each of the operand's, the elements of
    the window, in the order of the kernel's spatial axes.

    >>> conv_general_dilated_patches(np.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")[0]
    Array([[0., 1., 2.],
           [1., 2., 3.]], dtype=float64)
    """
    x, window = as_array(lhs), as_shape(integers(filter_shape, "conv_general_dilated_patches: a size of filter_shape"))
    numbers = conv_dimension_numbers(x.aval.shape, (1, 1, *window), dimension_numbers)
    if x.aval.dtype not in NUMERIC and x.aval.dtype != BOOL:
        raise TypingError(f"conv_general_dilated_patches: lhs holds numbers or bools, got {x.aval}")
    channels, size = x.aval.shape[numbers.lhs_spec[1]], math.prod(window)
    each = np.eye(size, dtype=x.aval.dtype).reshape(size, 1, *window)
    kernel = np.moveaxis(np.concatenate([each] * channels), (0, 1), numbers.rhs_spec[:2])
    given = as_precision(precision)
    left = given[0] if isinstance(given, tuple) else given
    return conv_general_dilated(
        x, as_array(kernel), window_strides, padding, lhs_dilation, rhs_dilation, numbers, channels,
        precision=None if left is None else (left, Precision.DEFAULT), preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: _Sizes,
    padding: _PaddingLike,
    filter_shape: _Sizes,
    lhs_dilation: _Sizes | None = None,
    rhs_dilation: _Sizes | None = None,
    dimension_numbers: _NumbersLike = None,
    precision: PrecisionLike = None,
) -> Array:
    """A convolution with a kernel of its own at each position.

    The spatial axes of `rhs` are those of the result, and its axis of the operand's features is that of the result of
    `conv_general_dilated_patches`: the features, and for each the elements of the window.

    >>> x, kernels = np.arange(4.0).reshape(1, 1, 4), np.eye(2)[None, :, [0, 1, 0]]
    >>> conv_general_dilated_local(x, kernels, (1,), "VALID", (2,))
    Array([[[0., 2., 2.]]], dtype=float64)
    """
    given = as_precision(precision)
    patches = conv_general_dilated_patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers,
        given[0] if isinstance(given, tuple) else given,
    )  # fmt: skip
    x = as_array(lhs)
    numbers = conv_dimension_numbers(
        x.aval.shape,
        (1, 1, *integers(filter_shape, "conv_general_dilated_local: a size of filter_shape")),
        dimension_numbers,
    )
    out, kernel = numbers.out_spec, numbers.rhs_spec
    places = builtins.sorted(zip(out[2:], kernel[2:], strict=True))
    batch = [axis for axis, _ in places], [axis for _, axis in places]
    found = dot_general(patches, rhs, (([out[1]], [kernel[1]]), batch), given)
    return moveaxis(found, (-2, -1), (out[0], out[1]))
