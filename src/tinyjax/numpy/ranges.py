"""The ranges that slices stand for where arrays are written as indices."""

from __future__ import annotations

from tinyjax.errors import InputError
from tinyjax.numpy.creation import arange, linspace
from tinyjax.tracing.array import Array


def range_of(key: slice) -> Array:
    """The numbers that a slice stands for: with an imaginary step, that many, the end included."""
    if key.stop is None:
        raise InputError(f"a slice that stands for numbers needs an end, got {key}")
    start, step = 0 if key.start is None else key.start, 1 if key.step is None else key.step
    if isinstance(step, complex):
        return linspace(start, key.stop, int(abs(step)))
    return arange(start, key.stop, step)
