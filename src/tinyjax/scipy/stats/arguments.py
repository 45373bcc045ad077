"""What the distributions make of their arguments."""

from __future__ import annotations

import tinyjax.numpy as tnp
from tinyjax.scipy.special.promoted import floats
from tinyjax.tracing.array import Array, ArrayLike


def standard(name: str, x: ArrayLike, loc: ArrayLike, scale: ArrayLike, *shapes: ArrayLike) -> list[Array]:
    """(x - loc) / scale, the scale, and the shapes: floats of one dtype and shape."""
    point, start, width, *rest = floats(name, x, loc, scale, *shapes)
    return [(point - start) / width, width, *rest]


def counted(name: str, k: ArrayLike, loc: ArrayLike, *shapes: ArrayLike) -> list[Array]:
    """k - loc and the shapes: floats of one dtype and shape."""
    count, start, *rest = floats(name, k, loc, *shapes)
    return [count - start, *rest]


def outside(x: Array, value: float) -> Array:
    """The value of a function where it is defined otherwise, or not: nan where x is."""
    return tnp.where(tnp.isnan(x), x, value)
