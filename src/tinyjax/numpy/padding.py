"""Padding with what is computed of the elements: statistics, and ramps towards a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from tinyjax.arrays import reductions, repeating
from tinyjax.arrays.elementwise import astype
from tinyjax.arrays.shaping import concatenate
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.ir.dtypes import INTEGERS
from tinyjax.numpy.arithmetic import rint
from tinyjax.numpy.creation import asarray, linspace
from tinyjax.numpy.reductions import median
from tinyjax.numpy.signatures import Nested, PadWidth
from tinyjax.numpy.vectorization import apply_along_axis
from tinyjax.tracing.array import Array, ArrayLike

_STATISTICS: Final[dict[str, Callable[..., Array]]] = {
    "maximum": reductions.max,
    "mean": reductions.mean,
    "median": median,
    "minimum": reductions.min,
}
#: The modes of this file.
COMPUTED: Final = frozenset({*_STATISTICS, "linear_ramp"})

#: The arguments that a mode has.
_OPTIONS: Final = {
    "constant": "constant_values",
    "linear_ramp": "end_values",
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
    **dict.fromkeys(_STATISTICS, "stat_length"),
}


def check_options(mode: str, given: Mapping[str, object]) -> None:
    """A ChoiceError for arguments that the mode doesn't have."""
    others = sorted(set(given) - {_OPTIONS.get(mode, "")})
    if others:
        raise ChoiceError(f"pad: mode {mode!r} doesn't take {', '.join(others)}")
    if given.get("reflect_type", "even") not in ("even", "odd"):
        raise ChoiceError(f"pad: reflect_type is 'even' or 'odd', not {given['reflect_type']!r}")


def pad_by_function(
    padded: Array, pairs: Sequence[tuple[int, int]], function: Callable[..., ArrayLike], given: Mapping[str, object]
) -> Array:
    """What a function makes of each vector along each axis."""
    for axis, pair in enumerate(pairs):
        padded = apply_along_axis(function, axis, padded, pair, axis, dict(given))
    return padded


def pad_odd(x: Array, pairs: Sequence[tuple[int, int]], symmetric: bool) -> Array:
    """Each end with the rest turned around it: twice the edge, minus the reflection. Symmetric repeats the edge."""
    for axis, widths in enumerate(pairs):
        size, key = x.shape[axis], (slice(None),) * axis
        if not size and any(widths):
            raise ShapeError(f"pad: an axis without elements can't be padded by reflection, got {x.aval}")
        skipped, backwards = int(not symmetric and size > 1), (*key, slice(None, None, -1))
        for front, width in zip((True, False), widths, strict=True):
            whole = x.shape[axis] + width
            x = x if front else x[backwards]
            while x.shape[axis] < whole:  # as far as the other end each time
                turned = x[(*key, slice(skipped, size))][backwards]
                x = concatenate([2 * x[(*key, slice(0, 1))] - turned, x], axis)
            x = x[(*key, slice(x.shape[axis] - whole, None))]
            x = x if front else x[backwards]
    return x


def pad_computed(
    x: Array, pairs: Sequence[tuple[int, int]], mode: str, lengths: PadWidth | None, end_values: Nested
) -> Array:
    """x with so many elements before and after each axis."""
    ends = asarray(np.broadcast_to(np.asarray(end_values), (x.ndim, 2)))
    counts = None if lengths is None else np.broadcast_to(np.asarray(lengths), (x.ndim, 2))
    for axis, (before, after) in enumerate(pairs):
        if not before and not after:
            continue
        size, key = x.shape[axis], (slice(None),) * axis
        if not size:
            raise ShapeError(f"pad: an axis without elements can't be padded in mode {mode!r}")
        parts = [x]
        for side, width in enumerate((before, after)):
            if mode == "linear_ramp":
                edge = x[(*key, 0 if side == 0 else size - 1)]
                way = linspace(ends[axis, side], edge, width, endpoint=False, dtype=x.dtype, axis=axis)
                part = way if side == 0 else way[(*key, slice(None, None, -1))]
            else:
                count = size if counts is None else min(int(counts[axis, side]), size)
                if count < 1:
                    raise ShapeError(f"pad: stat_length is at least 1, got {count}")
                taken = x[(*key, slice(0, count) if side == 0 else slice(size - count, size))]
                found = _STATISTICS[mode](taken, axis, keepdims=True)
                found = rint(found) if x.dtype in INTEGERS and found.dtype != x.dtype else found
                part = repeating.repeat(astype(found, x.dtype), width, axis)
            parts.insert(0 if side == 0 else len(parts), part)
        x = concatenate(parts, axis)
    return x
