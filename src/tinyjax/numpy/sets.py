"""Arrays as sets: their distinct elements, and what two of them have in common.

How many there are depends on the elements. Where these aren't known, `size` says how large the result is.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, SupportsIndex, overload

import numpy as np

from tinyjax.arrays import along_axis, reductions
from tinyjax.arrays.elementwise import astype, broadcast_to, constant_like, is_nan, promote, where
from tinyjax.arrays.shaping import canonical_axis, concatenate, integer, moveaxis, ravel, reshape
from tinyjax.errors import ConcretizationError, InputError, ShapeError
from tinyjax.ir.dtypes import BOOL, COMPLEXES, INEXACT, INT64
from tinyjax.numpy.creation import arange, asarray, full, zeros
from tinyjax.numpy.finding import nonzero
from tinyjax.numpy.membership import members
from tinyjax.numpy.ordering import lexsort
from tinyjax.numpy.signatures import Nested
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


class UniqueAllResult(NamedTuple):
    """What `unique_all` returns."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """What `unique_counts` returns."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """What `unique_inverse` returns."""

    values: Array
    inverse_indices: Array


class _Found(NamedTuple):
    """Rows in order, the places that they come from, which are the first of their kind, and where these are."""

    rows: Array
    places: Array
    first: Array
    starts: Array


def _sorted(rows: Array, equal_nan: bool) -> tuple[Array, Array, Array]:
    """The rows in order, their places, and which of them differ from the one before."""
    count = rows.shape[0]
    flat = reshape(rows, (count, rows.size // count if count else 1)) if rows.size else zeros((count, 0), rows.dtype)
    if equal_nan and rows.dtype in COMPLEXES:
        # Whatever the other part is: nans that are one element lie side by side.
        flat = where(is_nan(flat), constant_like(flat, np.nan), flat)
    if flat.shape[1] == 1:
        places = along_axis.argsort(flat[:, 0])
    elif flat.shape[1]:
        places = lexsort([flat[:, i] for i in range(flat.shape[1] - 1, -1, -1)])
    else:
        places = arange(count)
    ordered = flat[places]
    after, before = ordered[1:], ordered[:-1]
    differs = after != before
    if equal_nan and rows.dtype in INEXACT:
        differs = differs & ~(is_nan(after) & is_nan(before))
    first = full((min(count, 1),), True, BOOL)
    return rows[places] if rows.size else rows, places, concatenate([first, reductions.any(differs, 1)], 0)


def _distinct(
    name: str, rows: Array, size: int | None, fill_value: ArrayLike | None, equal_nan: bool
) -> tuple[_Found, Array]:
    """The rows in order, and the distinct ones of them."""
    ordered, places, first = _sorted(rows, equal_nan)
    if size is None and first.concrete() is None:
        raise ConcretizationError(
            f"{name}: how many distinct elements there are depends on the elements, which aren't known of {rows.aval} "
            "here. Pass `size`, for a result of that size; or call it outside of jit and vmap."
        )
    count = None if size is None else integer(size, f"{name}: size")
    if count is not None and count and not rows.shape[0] and fill_value is None:
        raise ShapeError(f"{name}: there is no element to fill {count} places with. Pass fill_value.")
    starts = nonzero(first, size=count)[0]
    found = ordered[starts] if rows.shape[0] else broadcast_to(zeros((), rows.dtype), (count or 0, *rows.shape[1:]))
    if count is not None and fill_value is not None:
        there = arange(count) < reductions.sum(first)
        filling = astype(as_array(fill_value), rows.dtype)
        found = where(reshape(there, (count, *[1] * (rows.ndim - 1))), found, filling)
    return _Found(ordered, places, first, starts), found


def _inverse(found: _Found) -> Array:
    """For each row the place of what it equals among the distinct ones."""
    if not found.first.size:
        return zeros((0,), INT64)
    numbers = along_axis.cumsum(astype(found.first, INT64)) - 1
    return zeros(found.first.shape, INT64).at[found.places].set(numbers, unique_indices=True)


def _counts(found: _Found) -> Array:
    """How often each of the distinct rows is there: 0 for what fills the result."""
    if not found.first.size or not found.starts.size:
        return zeros(found.starts.shape, INT64)
    numbers = along_axis.cumsum(astype(found.first, INT64)) - 1
    return zeros(found.starts.shape, INT64).at[numbers].add(1, mode="drop", indices_are_sorted=True)


@overload
def unique(
    ar: ArrayLike, return_index: Literal[False] = False, return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False, axis: SupportsIndex | None = None, *, equal_nan: bool = True,
    size: int | None = None, fill_value: ArrayLike | None = None, sorted: bool = True,
) -> Array: ...  # fmt: skip
@overload
def unique(
    ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: SupportsIndex | None = None, *, equal_nan: bool = True, size: int | None = None,
    fill_value: ArrayLike | None = None, sorted: bool = True,
) -> Array | tuple[Array, ...]: ...  # fmt: skip
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: SupportsIndex | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Array | tuple[Array, ...]:
    """The distinct elements in order; or, along an axis, the distinct parts. nan is one of them unless `equal_nan` is
    False.

    Also, if asked for: where each is first, for each element its place in the result, how often each is there. Without
    `size`, the elements must be known. With it, the result has that size: what is missing is `fill_value`, by default
    the first one.

    >>> import numpy as np
    >>> unique(np.array([3, 1, 3]), return_counts=True)
    (Array([1, 3], dtype=int64), Array([1, 2], dtype=int64))
    >>> unique(np.array([3, 1, 3]), size=3, fill_value=-1)
    Array([ 1,  3, -1], dtype=int64)
    """
    x = as_array(ar)
    at = 0 if axis is None else canonical_axis(axis, x.ndim, "unique")
    rows = ravel(x) if axis is None else moveaxis(x, at, 0)
    found, values = _distinct("unique", rows, size, fill_value, equal_nan)
    out = [moveaxis(values, 0, at)]
    if return_index:
        out.append(found.places[found.starts] if rows.shape[0] else zeros(found.starts.shape, INT64))
    if return_inverse:
        inverse = _inverse(found)
        out.append(reshape(inverse, x.shape) if axis is None else inverse)
    if return_counts:
        out.append(_counts(found))
    return out[0] if len(out) == 1 else tuple(out)


def unique_all(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> UniqueAllResult:
    """The distinct elements, where each is first, for each element its place among them, and how often each is there.

    Each nan is distinct. `size` and `fill_value` as for unique.

    >>> import numpy as np
    >>> unique_all(np.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int64)
    """
    values, indices, inverse, counts = unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueAllResult(values, indices, inverse, counts)


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueCountsResult:
    """The distinct elements, and how often each is there. Each nan is distinct. `size` and `fill_value` as for unique.

    >>> import numpy as np
    >>> unique_counts(np.array([3, 1, 3])).counts
    Array([1, 2], dtype=int64)
    """
    values, counts = unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueCountsResult(values, counts)


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueInverseResult:
    """The distinct elements, and for each element its place among them. Each nan is distinct. `size` and `fill_value`
    as for unique.

    >>> import numpy as np
    >>> unique_inverse(np.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int64)
    """
    values, inverse = unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueInverseResult(values, inverse)


def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The distinct elements. Each nan is distinct. `size` and `fill_value` as for unique.

    >>> import numpy as np
    >>> unique_values(np.array([3, 1, 3]))
    Array([1, 3], dtype=int64)
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


# Two sets.


def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The distinct elements of two arrays. `size` and `fill_value` as for unique.

    >>> import numpy as np
    >>> union1d(np.array([3, 1]), np.array([2, 3]))
    Array([1, 2, 3], dtype=int64)
    """
    return unique(concatenate([ravel(as_array(ar1)), ravel(as_array(ar2))], 0), size=size, fill_value=fill_value)


def _both(ar1: ArrayLike, ar2: ArrayLike) -> tuple[Array, Array]:
    x, y = promote(as_array(ar1), as_array(ar2))
    return ravel(x), ravel(y)


def _selected(name: str, values: Array, chosen: Array, size: int | None, fill_value: ArrayLike | None) -> Array:
    """The values that are chosen; what is missing is filled."""
    if size is None and chosen.concrete() is None:
        raise ConcretizationError(
            f"{name}: the size of the result depends on the elements, which aren't known here. Pass `size`, for a "
            "result of that size; or call it outside of jit and vmap."
        )
    if size is None:
        return values[nonzero(chosen)[0]] if values.size else values
    # What is missing is the first that is chosen, or 0 if none is, unless something else is asked for.
    places = nonzero(chosen, size=size, fill_value=along_axis.argmax(chosen) if values.size else None)[0]
    filling = astype(as_array(0 if fill_value is None else fill_value), values.dtype)
    if not values.size:
        return broadcast_to(filling, (size,))
    if fill_value is None:
        return where(reductions.any(chosen), values[places], filling)
    return where(arange(size) < reductions.sum(chosen), values[places], filling)


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array | tuple[Array, Array, Array]:
    """The distinct elements that two arrays have in common; with `return_indices`, also where each is first in both.

    `assume_unique`: the elements of each array are distinct already. `size` and `fill_value` as for unique.

    >>> import numpy as np
    >>> intersect1d(np.array([3, 1, 3]), np.array([2, 3]))
    Array([3], dtype=int64)
    """
    x, y = _both(ar1, ar2)
    both = concatenate([x, y], 0)
    places = along_axis.argsort(both)
    ordered = both[places] if both.size else both
    sizes = as_array(x.size), as_array(y.size)
    # Equal elements are side by side, the first array's first.
    if assume_unique:
        common, chosen = ordered[:-1], ordered[1:] == ordered[:-1]
        if not return_indices:
            return _selected("intersect1d", common, chosen, size, fill_value)
        return _with_places(common, chosen, (places[:-1], places[1:] - sizes[0]), sizes, size, fill_value)
    second = places >= x.size
    begins = concatenate([full((min(both.size, 1),), True, BOOL), ordered[1:] != ordered[:-1]], 0)
    groups = along_axis.cumsum(astype(begins, INT64)) - 1
    empty = zeros(groups.shape, BOOL)
    has_first, has_second = (empty.at[groups].max(marks) for marks in (~second, second))
    chosen = begins & has_first[groups] & has_second[groups] if both.size else begins
    if not return_indices:
        return _selected("intersect1d", ordered, chosen, size, fill_value)
    far = full(groups.shape, max(x.size, y.size), INT64)
    own = far.at[groups].min(where(second, sizes[0], places))
    others = far.at[groups].min(where(second, places - sizes[0], sizes[1]))
    found = (own[groups], others[groups]) if both.size else (own, others)
    return _with_places(ordered, chosen, found, sizes, size, fill_value)


def _with_places(
    values: Array,
    chosen: Array,
    places: tuple[Array, Array],
    sizes: tuple[Array, Array],
    size: int | None,
    fill_value: ArrayLike | None,
) -> tuple[Array, Array, Array]:
    """What two arrays of these sizes have in common, and where it is in both."""
    common, first, second = (
        _selected("intersect1d", found, chosen, size, missing)
        for found, missing in zip((values, *places), (fill_value, *sizes), strict=True)
    )
    return common, first, second


def isin(
    element: Nested,
    test_elements: Nested,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Whether each element is one of these; with `invert` whether it isn't. nan is none of them.

    `assume_unique` makes no difference, and neither does `method` ("auto", "compare_all", "binary_search", "sort").

    >>> import numpy as np
    >>> isin(np.array([[1, 2], [3, 4]]), [2, 4])
    Array([[False,  True],
           [False,  True]], dtype=bool)
    """
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise InputError(f"isin: method is 'auto', 'compare_all', 'binary_search' or 'sort', got {method!r}")
    x, y = promote(asarray(element), ravel(asarray(test_elements)))
    if not x.size or not y.size:
        return full(x.shape, bool(invert), BOOL)
    found = members(x, y)
    return ~found if invert else found


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements of the first array that aren't in the second. With `assume_unique` they stay in order.

    `size` and `fill_value` (0 by default) as for unique.

    >>> import numpy as np
    >>> setdiff1d(np.array([3, 1, 3]), np.array([2, 3]))
    Array([1], dtype=int64)
    """
    x, y = ravel(as_array(ar1)), as_array(ar2)
    if assume_unique:
        return _selected("setdiff1d", x, isin(x, y, invert=True), size, 0 if fill_value is None else fill_value)
    ordered, _, first = _sorted(x, True)
    chosen = first & isin(ordered, y, invert=True)
    return _selected("setdiff1d", ordered, chosen, size, 0 if fill_value is None else fill_value)


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements that are in one of two arrays only. `size` and `fill_value` as for unique.

    >>> import numpy as np
    >>> setxor1d(np.array([3, 1, 3]), np.array([2, 3]))
    Array([1, 2], dtype=int64)
    """
    x, y = _both(ar1, ar2)
    both = concatenate([x, y], 0)
    if assume_unique:
        ordered = along_axis.sort(both)
        turns, end = ordered[1:] != ordered[:-1], full((min(both.size, 1),), True, BOOL)
        alone = concatenate([end, turns], 0) & concatenate([turns, end], 0)
        return _selected("setxor1d", ordered, alone, size, fill_value)
    other = concatenate([isin(x, y), isin(y, x)], 0)
    ordered, places, first = _sorted(both, True)
    if both.size and both.dtype in INEXACT:  # nan of one array isn't that of the other
        second = places >= x.size
        turns = concatenate([full((1,), False, BOOL), second[1:] != second[:-1]], 0)
        first = first | (is_nan(ordered) & turns)
    chosen = first & ~(other[places] if both.size else other)
    return _selected("setxor1d", ordered, chosen, size, fill_value)
