"""Inner products of vectors as real numbers, for what goes on until something is small enough."""

from __future__ import annotations

import tinyjax.numpy as tnp
from tinyjax.tracing.array import Array


def real_inner(x: Array, y: Array, axis: int | None = None) -> Array:
    """The real part of the sum of conj(x) y."""
    return tnp.sum((x.conj() * y).real, axis)


def squared_norm(x: Array) -> Array:
    """The sum of the squared sizes of all elements."""
    return real_inner(x, x)
