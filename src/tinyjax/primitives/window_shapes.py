"""The arithmetic of windows that slide over arrays: sizes, paddings, and NumPy's views of the windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tinyjax.errors import PaddingError, ShapeError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray, Scalar
from tinyjax.ir.shapes import Shape
from tinyjax.primitives.slicing import Pad
from tinyjax.primitives.structure import shape_error

#: For each axis: elements added before and after. Negative ones remove elements.
Padding: TypeAlias = tuple[tuple[int, int], ...]
Sizes: TypeAlias = tuple[int, ...]

_NAMES: Final = ("SAME", "SAME_LOWER", "VALID")


def dilated(size: int, dilation: int) -> int:
    """The size of an axis with `dilation - 1` elements between each two."""
    return 0 if size == 0 else 1 + dilation * (size - 1)


def dilated_shape(sizes: Sequence[int], dilation: Sequence[int]) -> Shape:
    """The same for each axis."""
    return tuple(dilated(size, step) for size, step in zip(sizes, dilation, strict=True))


def count(size: int, window: int, stride: int) -> int:
    """How many windows there are along an axis.

    >>> count(7, 3, 2)
    3
    """
    return 0 if size < window else (size - window) // stride + 1


def pads_of(shape: Sequence[int], window: Sequence[int], strides: Sequence[int], padding: str) -> Padding:
    """The padding that a name stands for: "VALID" is none; with "SAME" there are as many windows as elements, divided
    by the stride, and what is odd is added at the end, or with "SAME_LOWER" at the beginning. A PaddingError otherwise.

    >>> pads_of((5, 5), (3, 2), (1, 2), "SAME")
    ((1, 1), (0, 1))
    """
    name = padding.upper()
    if name not in _NAMES:
        raise PaddingError(
            f"padding is 'VALID', 'SAME', 'SAME_LOWER', or a pair of numbers for each axis; got {padding!r}"
        )
    if not len(shape) == len(window) == len(strides):
        raise ShapeError(
            f"padding {padding!r} needs a window size and a stride for each axis; there are {len(shape)} axes, "
            f"{len(window)} window sizes and {len(strides)} strides"
        )
    if name == "VALID":
        return ((0, 0),) * len(shape)
    if any(stride < 1 for stride in strides):
        raise ShapeError(f"padding {padding!r}: strides must be at least 1, got {tuple(strides)}")
    found: list[tuple[int, int]] = []
    for size, width, stride in zip(shape, window, strides, strict=True):
        total = max((-(-size // stride) - 1) * stride + width - size, 0)
        less = total // 2
        found.append((less, total - less) if name == "SAME" else (total - less, less))
    return tuple(found)


def check_each(name: str, x: ShapedArray, ndim: int, least: int = 1, **parameters: Sequence[int]) -> None:
    """A ShapeError unless each of the parameters has `ndim` numbers that are at least `least`."""
    for what, values in parameters.items():
        if len(values) != ndim:
            raise shape_error(name, f"{what} needs {ndim} numbers for an operand {x}, got {tuple(values)}")
        if any(value < least for value in values):
            raise shape_error(name, f"{what} must be at least {least}, got {tuple(values)}")


def padded_shape(name: str, x: ShapedArray, shape: Shape, padding: Padding) -> Shape:
    """The shape with what is added and removed; a ShapeError if more is removed than there is."""
    if len(padding) != len(shape):
        raise shape_error(name, f"padding needs {len(shape)} pairs of numbers for an operand {x}, got {padding}")
    found = tuple(size + low + high for size, (low, high) in zip(shape, padding, strict=True))
    if any(size < 0 for size in found):
        raise shape_error(
            name, f"padding {padding} removes more elements than {x} has: the sizes to go over are {shape}"
        )
    return found


def window_shape(sizes: Shape, window: Shape, strides: Sequence[int]) -> Shape:
    """How many windows there are along each axis."""
    return tuple(map(count, sizes, window, strides))


def padded(x: HostArray, fill: Scalar, padding: Padding, dilation: Sequence[int]) -> HostArray:
    """x with `fill` around and in between, or with less than it has."""
    config = tuple((low, high, step - 1) for (low, high), step in zip(padding, dilation, strict=True))
    if not any(map(any, config)):
        return x
    return Pad(config).evaluate(x, np.asarray(fill, x.dtype))[0]


def windows(x: HostArray, sizes: Shape, strides: Sequence[int], dilation: Sequence[int]) -> HostArray:
    """A view of the windows over the last axes of x: those before, the positions, then the elements of each window.

    There must be at least one window, and an element in it.
    """
    first = x.ndim - len(sizes)
    view = np.lib.stride_tricks.sliding_window_view(x, dilated_shape(sizes, dilation), tuple(range(first, x.ndim)))
    key = [slice(None)] * first + [slice(None, None, step) for step in (*strides, *dilation)]
    found: HostArray = view[tuple(key)]
    return found


def inside(size: int, window: int, stride: int, pads: tuple[int, int], dilation: int, spread: int) -> int:
    """How many elements all windows along an axis have in common with the operand, its padding and gaps left out.

    `dilation` is that of the window, `spread` that of the operand.
    """
    last = dilated(size, spread)
    starts = stride * np.arange(count(last + sum(pads), dilated(window, dilation), stride)) - pads[0]
    places: npt.NDArray[np.int64] = starts[:, None] + dilation * np.arange(window)
    return int(np.count_nonzero((places >= 0) & (places < last) & (places % spread == 0)))
