"""Orders: by several keys, of a part of the elements only, of complex numbers."""

from __future__ import annotations

from typing import Literal, SupportsIndex

from tinyjax.arrays import along_axis
from tinyjax.arrays.elementwise import astype, inexact_dtype
from tinyjax.arrays.shaping import canonical_axis, integer
from tinyjax.errors import ChoiceError, DtypeError, ShapeError
from tinyjax.ir.dtypes import COMPLEX64, COMPLEX128, COMPLEXES, FLOAT64, INT64
from tinyjax.ir.result_types import made_once
from tinyjax.lax.binding import sequence
from tinyjax.numpy.arguments import iota
from tinyjax.numpy.signatures import Arrays
from tinyjax.prepared.functions import prepared, prepared_for_several
from tinyjax.primitives.sorting import Sort
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind


@prepared_for_several
def lexsort(keys: Arrays, axis: SupportsIndex = -1) -> Array:
    """The indices that sort along an axis by several keys: by the last one, then by the one before it, and so on.

    >>> import numpy as np
    >>> lexsort([np.array([2, 1, 3]), np.array([1, 1, 0])])
    Array([2, 1, 0], dtype=int64)
    """
    given: object = keys
    if isinstance(given, Array) and given.ndim == 1 and given.size:  # each of its elements is a key of one
        return as_array(0).astype(INT64)
    arrays = [as_array(key) for key in sequence("what lexsort takes", keys)]
    if not arrays:
        raise ShapeError("lexsort needs at least one key")
    shape = arrays[0].shape
    if any(key.shape != shape for key in arrays):
        raise ShapeError(f"lexsort: the keys must have one shape, got {', '.join(str(key.aval) for key in arrays)}")
    if not shape:
        return as_array(0).astype(INT64)
    at = canonical_axis(axis, len(shape), "lexsort")
    operands = (*reversed(arrays), iota(INT64, shape, at))
    return bind(made_once(Sort, at, True, len(arrays)), *operands)[-1]


def _kth(name: str, x: Array, kth: SupportsIndex, axis: SupportsIndex) -> int:
    at = canonical_axis(axis, x.ndim, name)
    place, size = integer(kth, f"{name}: kth"), x.shape[at]
    if not -size <= place < size:
        raise ShapeError(f"{name}: kth is a position along axis {at} of {x.aval}, got {place}")
    return at


@prepared
def partition(a: ArrayLike, kth: SupportsIndex, axis: SupportsIndex = -1) -> Array:
    """The elements with that one at its place along an axis that sorting would put there; before it none that is
    larger, after it none that is smaller.

    >>> import numpy as np
    >>> partition(np.array([5, 1, 4, 2]), 1)[1]
    Array(2, dtype=int64)
    """
    x = as_array(a)
    return along_axis.sort(x, _kth("partition", x, kth, axis))


@prepared
def argpartition(a: ArrayLike, kth: SupportsIndex, axis: SupportsIndex = -1) -> Array:
    """The indices that partition along an axis: see `partition`.

    >>> import numpy as np
    >>> argpartition(np.array([5, 1, 4, 2]), 1)[1]
    Array(3, dtype=int64)
    """
    x = as_array(a)
    return along_axis.argsort(x, _kth("argpartition", x, kth, axis))


def top_k(
    a: ArrayLike,
    k: SupportsIndex,
    /,
    *,
    axis: SupportsIndex = -1,
    mode: Literal["largest", "smallest"] = "largest",
    sorted: bool = True,
) -> tuple[Array, Array]:
    """The k largest elements along an axis, the largest first, or the k smallest, and their indices, which are int64.
    nan counts as largest. Of equal elements the first come first, even where `sorted` doesn't ask for order.

    >>> import numpy as np
    >>> values, places = top_k(np.array([5, 1, 4, 2]), 2)
    >>> values, places
    (Array([5, 4], dtype=int64), Array([0, 2], dtype=int64))
    >>> top_k(np.array([5, 1, 4, 2]), 1, mode="smallest")[1]
    Array([1], dtype=int64)
    """
    del sorted
    x = as_array(a)
    if x.dtype in COMPLEXES:
        raise DtypeError(f"top_k does not accept complex operands, got {x.aval}")
    given: object = mode
    if given not in ("largest", "smallest"):
        raise ChoiceError(f"top_k: mode is 'largest' or 'smallest', not {mode!r}")
    at = canonical_axis(axis, x.ndim, "top_k")
    count, size = integer(k, "top_k: k"), x.shape[at]
    if not 0 <= count <= size:
        raise ShapeError(f"top_k: k is between 0 and the size of axis {at} of {x.aval}, got {count}")
    every = (slice(None),) * at
    places = iota(INT64, x.shape, at)
    if mode == "smallest":
        chosen = (*every, slice(count))
    else:  # sorted from the end, and read from there, so that of equal elements the first come first
        backwards = (*every, slice(None, None, -1))
        x, places = x[backwards], places[backwards]
        chosen = (*every, slice(None, -count - 1, -1))
    values, places = bind(made_once(Sort, at, True, 1), x, places)
    return values[chosen], places[chosen]


@prepared
def sort_complex(a: ArrayLike) -> Array:
    """The elements in order along the last axis, as complex numbers: by their real parts, then by their imaginary ones.

    >>> import numpy as np
    >>> sort_complex(np.array([2, 1]))
    Array([1.+0.j, 2.+0.j], dtype=complex128)
    """
    x = as_array(a)
    within = inexact_dtype(x.dtype)
    return along_axis.sort(astype(x, within if within in COMPLEXES else COMPLEX128 if within == FLOAT64 else COMPLEX64))
