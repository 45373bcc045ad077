"""Methods of resampling: how much each pixel weighs at a distance from where the image is looked at.

Lanczos: C. E. Duchon, "Lanczos filtering in one and two dimensions" (1979). Cubic: R. G. Keys, "Cubic convolution
interpolation for digital image processing" (1981), with a = -1/2; OpenCV and PyTorch have a = -3/4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import tinyjax.numpy as tnp
from tinyjax.errors import ChoiceError

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array


class ResizeMethod(Enum):
    """How pixels between those of an image are found.

    NEAREST takes the nearest pixel, LINEAR interpolates linearly, LANCZOS3 and LANCZOS5 use the Lanczos window of this
    radius, CUBIC Keys's cubic kernel. CUBIC_PYTORCH is cubic as PyTorch has it: without antialiasing it uses another
    kernel, and repeats the pixels at the edge. AREA is the mean over the area of a pixel.

    >>> ResizeMethod.from_string("bilinear")
    <ResizeMethod.LINEAR: 1>
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of this name; a ChoiceError if there is none."""
        found = _NAMES.get(s)
        if found is None:
            raise ChoiceError(f"there is no method {s!r} of resizing; choose from {', '.join(_NAMES)}")
        return found


_NAMES: Final[Mapping[str, ResizeMethod]] = MappingProxyType(
    {
        "nearest": ResizeMethod.NEAREST,
        **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
        "lanczos3": ResizeMethod.LANCZOS3,
        "lanczos5": ResizeMethod.LANCZOS5,
        **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
        **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
        "area": ResizeMethod.AREA,
    }
)


def _triangle(x: Array) -> Array:
    return tnp.maximum(0, 1 - x)


def _lanczos(radius: int, x: Array) -> Array:
    # At the middle, where it is 0 / 0, the limit is 1.
    shape = radius * tnp.sin(math.pi * x) * tnp.sin(math.pi * x / radius)
    inside = tnp.where(x > 1e-3, shape / tnp.where(x != 0, math.pi**2 * x**2, 1), 1)
    return tnp.where(x > radius, 0, inside)


def _cubic(a: float, x: Array) -> Array:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return tnp.where(x >= 2, 0, tnp.where(x >= 1, far, near))


#: Weights at distances, which are not negative.
KERNELS: Final[Mapping[ResizeMethod, Callable[[Array], Array]]] = MappingProxyType(
    {
        ResizeMethod.LINEAR: _triangle,
        ResizeMethod.LANCZOS3: partial(_lanczos, 3),
        ResizeMethod.LANCZOS5: partial(_lanczos, 5),
        ResizeMethod.CUBIC: partial(_cubic, -0.5),
        ResizeMethod.CUBIC_PYTORCH: partial(_cubic, -0.75),
    }
)
#: Where the kernel of CUBIC_PYTORCH ends.
RADIUS: Final = 2
