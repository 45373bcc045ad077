"""Images sampled between their pixels, as `scipy.ndimage` has it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import tinyjax.numpy as tnp
from tinyjax.errors import ShapeError, UnsupportedError
from tinyjax.ir.dtypes import INTEGERS, HostArray
from tinyjax.lax.binding import sequence
from tinyjax.numpy.signatures import Nested
from tinyjax.tracebacks import filter_package
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

__all__ = ["map_coordinates"]


def _mirrored(index: Array, size: int) -> Array:
    turn = max(size - 1, 1)  # a single pixel is everywhere
    return tnp.abs((index + turn) % (2 * turn) - turn) if size > 1 else tnp.zeros_like(index)


#: Where pixels outside of the image are looked for, for each mode.
_PLACES: Final[Mapping[str, Callable[[Array, int], Array]]] = MappingProxyType(
    {
        "constant": lambda index, size: tnp.clip(index, 0, size - 1),
        "nearest": lambda index, size: tnp.clip(index, 0, size - 1),
        "wrap": lambda index, size: index % size,
        "mirror": _mirrored,
        "reflect": lambda index, size: (_mirrored(2 * index + 1, 2 * size + 1) - 1) // 2,
    }
)


def map_coordinates(
    input: Nested,
    coordinates: Sequence[Nested] | Array | HostArray,
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Array:
    """The values of an image at coordinates, one array for each dimension, all of one shape: that of the result.

    `order` 0 takes the nearest pixel, 1 interpolates linearly. Outside of the image, `mode` says what there is: `cval`
    for "constant", the nearest pixel, the image again ("wrap"), or its mirror image, with the pixels at the edge
    repeated ("reflect") or not ("mirror"). "constant" and "wrap" are SciPy's "grid-constant" and "grid-wrap".

    Raises:
      ShapeError: there isn't one array of coordinates for each dimension.
      UnsupportedError: there is no such mode, or the order is above 1.

    >>> import numpy as np
    >>> map_coordinates(
    ...     np.arange(12.0).reshape(3, 4), [np.array([0.5, 1.5]), np.array([1.5, 2.5])], order=1
    ... )
    Array([3.5, 8.5], dtype=float64)
    """
    x = tnp.asarray(input)
    if len(places_of := sequence("map_coordinates: coordinates", coordinates)) != x.ndim:
        raise ShapeError(f"map_coordinates: {x.ndim} dimensions need as many coordinates, got {len(places_of)}")
    given: object = mode
    if not isinstance(given, str) or given not in _PLACES:
        raise UnsupportedError(f"map_coordinates does not yet support mode {mode!r}; choose from {', '.join(_PLACES)}")
    if order not in (0, 1):
        raise UnsupportedError(f"map_coordinates: order is 0 (nearest) or 1 (linear), got {order}")
    outside = as_array(cval).astype(x.dtype)
    neighbours = [(_linear if order else _nearest)(tnp.asarray(at)) for at in places_of]
    terms = []
    for corner in itertools.product(*neighbours):
        places = tuple(_PLACES[mode](at, size) for (at, _), size in zip(corner, x.shape, strict=True))
        found = x[places]
        if mode == "constant":
            within = [(at >= 0) & (at < size) for (at, _), size in zip(corner, x.shape, strict=True)]
            found = tnp.where(math.prod(within[1:], start=within[0]), found, outside)
        weights = [weight for _, weight in corner if weight is not None]
        terms.append(math.prod(weights, start=found))
    total = sum(terms[1:], start=terms[0])
    if x.dtype in INTEGERS:
        total = _rounded(total)
    return total.astype(x.dtype)


def _nearest(at: Array) -> list[tuple[Array, Array | None]]:
    """The neighbours along a dimension, and what they weigh; None is 1."""
    return [(_rounded(at).astype("int32"), None)]


def _linear(at: Array) -> list[tuple[Array, Array | None]]:
    lower = tnp.floor(at)
    upper = at - lower
    index = lower.astype("int32")
    return [(index, 1 - upper), (index + 1, upper)]


def _rounded(x: Array) -> Array:
    """To the nearest integer; halves away from zero."""
    return x if x.dtype in INTEGERS else tnp.trunc(x + tnp.copysign(0.5, x))


filter_package(__name__, ["map_coordinates"])
