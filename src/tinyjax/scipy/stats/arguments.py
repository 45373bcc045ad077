"""What the distributions make of their arguments."""

from __future__ import annotations

from collections.abc import Callable

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


def from_zero(function: Callable[[Array, Array], Array], shape: Array, y: Array, below: float) -> Array:
    """A function of a positive shape and y; below zero a constant, with derivatives of 0 whatever they are at zero."""
    outside = (y < 0) & (shape > 0)
    return tnp.where(outside, below, function(shape, tnp.where(outside, 1, tnp.where(y < 0, 0, y))))


def outside(x: Array, value: float) -> Array:
    """The value of a function where it is defined otherwise, or not: nan where x is."""
    return tnp.where(tnp.isnan(x), x, value)
