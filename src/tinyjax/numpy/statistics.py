"""Covariances, counts and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, SupportsIndex, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from tinyjax.arrays import products, reductions, shaping
from tinyjax.arrays.arithmetic import refuse_complex
from tinyjax.arrays.elementwise import apply, astype, constant_like, promote, promote_inexact, user_dtype, where
from tinyjax.arrays.shaping import integer, ravel, transpose
from tinyjax.errors import ChoiceError, ConcretizationError, DtypeError, InputError, ShapeError
from tinyjax.ir.dtypes import BOOL, COMPLEXES, INEXACT, INT64, INTEGERS, UINT8, WIDE, real_dtype
from tinyjax.lax.binding import sequence
from tinyjax.lax.layouts import OutSharding, laid_out
from tinyjax.numpy.arguments import with_axes
from tinyjax.numpy.arithmetic import conj, imag, real
from tinyjax.numpy.creation import asarray, linspace, zeros
from tinyjax.numpy.elementwise import sqrt
from tinyjax.numpy.grids import ravel_multi_index
from tinyjax.numpy.indexing import searchsorted
from tinyjax.numpy.joining import concatenate, stack
from tinyjax.numpy.reductions import average, diff
from tinyjax.numpy.signatures import Bins, Nested, Range
from tinyjax.prepared import closed
from tinyjax.prepared.functions import prepared, prepared_as
from tinyjax.primitives.complex import complex_
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

#: The rules by which NumPy finds bins.
_BinRule: TypeAlias = Literal["auto", "fd", "doane", "scott", "stone", "rice", "sturges", "sqrt"]
_BIN_RULES: Final[dict[str, _BinRule]] = {rule: rule for rule in get_args(_BinRule)}

# Covariances.


@prepared
def cov(
    m: Nested,
    y: Nested | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: npt.DTypeLike | None = None,
) -> Array:
    """The covariances of variables: the rows of m and y, or with `rowvar=False` their columns.

    The divisor is the number of observations minus `ddof`: 1, or 0 with `bias`. `fweights` says how often an
    observation was made, `aweights` how much it counts.

    >>> cov(np.array([[1.0, 2.0], [2.0, 0.0]]))
    Array([[ 0.5, -1. ],
           [-1. ,  2. ]], dtype=float64)
    """
    arrays = [asarray(m)] if y is None else list(promote(asarray(m), asarray(y)))
    if any(x.ndim > 2 for x in arrays):
        raise ShapeError(f"cov takes vectors and matrices, got {', '.join(str(x.aval) for x in arrays)}")
    rows = []
    for array in promote_inexact(*arrays):
        x = with_axes(array, 2)
        rows.append(transpose(x) if not rowvar and array.ndim == 2 else x)
    joined = concatenate(rows) if len(rows) > 1 else rows[0]
    chosen = user_dtype(dtype)
    if chosen is not None and chosen not in INEXACT:
        raise DtypeError(f"cov: dtype must be a subclass of float or complex; got {chosen.name}")
    joined = joined if chosen is None else astype(joined, chosen)
    less = as_array((0 if bias else 1) if ddof is None else ddof)
    weights: Array | None = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            w = as_array(given)
            if w.shape != (joined.shape[1],):
                raise ShapeError(f"cov: {name} needs a number for each of {joined.shape[1]} observations, got {w.aval}")
            if name == "fweights" and w.dtype not in INTEGERS:
                raise InputError(f"cov: fweights are integers, got {w.aval}")
            weights = w if weights is None else weights * w
    if weights is None:
        mean, divisor = average(joined, 1), as_array(joined.shape[1] - less)
    else:
        mean, total = average(joined, 1, weights, returned=True)
        divisor = total[0]
        if ddof != 0 and aweights is None:
            divisor = divisor - less
        elif ddof != 0:
            divisor = divisor - less * reductions.sum(weights * as_array(aweights)) / divisor
    divisor = where(
        divisor > 0, divisor, constant_like(divisor, 0)
    )  # too few observations: the quotient has no meaning
    away = joined - mean[:, None]
    heavy = away if weights is None else away * weights
    found = products.matmul(heavy, transpose(conj(away)))
    return shaping.squeeze(
        found / astype(divisor, real_dtype(found.dtype)) if divisor.dtype in INTEGERS else found / divisor
    )


@prepared
def corrcoef(x: Nested, y: Nested | None = None, rowvar: bool = True, dtype: npt.DTypeLike | None = None) -> Array:
    """The correlations of variables: the rows of x and y, or with `rowvar=False` their columns.

    >>> corrcoef(np.array([[1.0, 2.0], [2.0, 0.0]]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float64)
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    scale = sqrt(real(shaping.diagonal(c)))
    c = c / scale[:, None] / scale[None, :]
    if c.dtype in COMPLEXES:
        return apply(complex_, real(c).clip(-1, 1), imag(c).clip(-1, 1))
    return c.clip(-1, 1)


# Counts.


def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: SupportsIndex = 0,
    *,
    length: int | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """How often each number from 0 on is there, or how much it weighs.

    Without `length`, the numbers must be known. With it, the result has that length: what is greater isn't counted.
    Negative numbers count as 0.

    >>> bincount(np.array([0, 2, 2]))
    Array([1, 0, 2], dtype=int64)
    """
    numbers = asarray(x)
    if numbers.dtype not in INTEGERS and numbers.dtype != BOOL:
        raise InputError(f"bincount counts integers, got {numbers.aval}")
    if numbers.ndim != 1:
        raise ShapeError(f"bincount takes a vector, got {numbers.aval}")
    least = integer(minlength, "bincount: minlength")
    if least < 0:
        raise ShapeError(f"bincount: minlength is at least 0, got {least}")
    if length is None:
        known = numbers.concrete()
        if known is None:
            raise ConcretizationError(
                f"bincount: the length of the result depends on the numbers, which aren't known of {numbers.aval}. "
                "Pass `length`, for a result of that length; or call it outside of jit and vmap."
            )
        found = np.asarray(known.data)
        count = max(least, int(found.max(initial=0)) + 1 if found.size else 0)
    else:
        count = max(integer(length, "bincount: length"), 0)
    heavy = None if weights is None else as_array(weights)
    if heavy is not None and heavy.shape != numbers.shape:
        raise ShapeError(f"bincount: a weight for each number, got {heavy.aval} for {numbers.aval}")
    start = zeros((count,), INT64 if heavy is None else heavy.dtype)
    if not count or not numbers.size:
        return laid_out(start, out_sharding)
    places = astype(numbers, INT64)
    return laid_out(
        start.at[where(places < 0, constant_like(places, 0), places)].add(1 if heavy is None else heavy, mode="drop"),
        out_sharding,
    )


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Array:
    """The number of the bin that each element is in, by their bounds in ascending or descending order.

    A bound belongs to the bin after it, or with `right` to that before it. `method` makes no difference.

    >>> digitize(np.array([0.5, 1.0, 3.0]), np.array([1.0, 2.0]))
    Array([0, 1, 2], dtype=int64)
    """
    values, bounds = asarray(x), asarray(bins)
    if bounds.ndim != 1:
        raise ShapeError(f"digitize: bins is a vector, got {bounds.aval}")
    if not bounds.size:
        return zeros(values.shape, INT64)
    return (_before_bounds if right else _after_bounds)(*promote(values, bounds))


@prepared_as(closed.bins_before)
def _before_bounds(values: Array, bounds: Array) -> Array:
    return _between_bounds(values, bounds, "left")


@prepared_as(closed.bins_after)
def _after_bounds(values: Array, bounds: Array) -> Array:
    return _between_bounds(values, bounds, "right")


def _between_bounds(values: Array, bounds: Array, side: str) -> Array:
    up = bounds[-1] >= bounds[0]
    found = searchsorted(where(up, bounds, bounds[::-1]), values, side)
    return where(up, found, bounds.size - found)


# Histograms.


def histogram_bin_edges(
    a: ArrayLike, bins: Bins = 10, range: Range | None = None, weights: ArrayLike | None = None
) -> Array:
    """Where the bins of a histogram begin and end: given as they are; or so many of one width, over a range or over all
    elements; or, if the elements are known, by one of NumPy's rules such as "auto".

    >>> histogram_bin_edges(np.array([1.0, 3.0]), 2)
    Array([1., 2., 3.], dtype=float64)
    """
    x = asarray(a)
    if isinstance(bins, str):
        if bins not in _BIN_RULES:
            raise ChoiceError(f"histogram: bins is a number, a vector, or one of {', '.join(_BIN_RULES)}, not {bins!r}")
        x = astype(x, UINT8 if x.dtype == BOOL else WIDE.get(x.dtype, x.dtype))
        known = x.concrete()
        if known is None:
            raise ConcretizationError(
                f"histogram: bins={bins!r} depends on the elements, which aren't known of {x.aval} here. Pass a number."
            )
        ends = None if range is None else _limits(range)
        limits = None if ends is None else (float(ends[0]), float(ends[1]))
        edges = np.histogram_bin_edges(np.asarray(known.data), _BIN_RULES[bins], limits)
        return as_array(edges)
    given = asarray(bins)
    refuse_complex("histogram", x, given)
    if given.ndim == 1:
        return given
    if given.ndim:
        raise ShapeError(f"histogram: bins is a number or a vector, got {given.aval}")
    count = integer(given, "histogram: bins")
    if count < 1:
        raise ShapeError(f"histogram: there is at least one bin, got {count}")
    (x,) = promote_inexact(ravel(x))
    if range is not None:
        low, high = (astype(v, x.dtype) for v in _limits(range))
    elif x.size:
        low, high = reductions.min(x), reductions.max(x)
    else:
        low, high = constant_like(x, 0), constant_like(x, 1)
    same = low == high
    return linspace(where(same, low - 0.5, low), where(same, high + 0.5, high), count + 1, dtype=x.dtype)


def _widths(edges: Array) -> Array:
    """How wide the bins are, as floats; the difference of two integers may not fit in their dtype."""
    (floats,) = promote_inexact(edges)
    return astype(diff(astype(edges, INT64)), floats.dtype) if edges.dtype in INTEGERS else diff(floats)


def histogram(
    a: ArrayLike,
    bins: Bins = 10,
    range: Range | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """How many elements are in each bin, or how much they weigh, and where the bins begin and end: see
    `histogram_bin_edges`. With `density`, such that the integral is 1. The last bin has its end too.

    >>> histogram(np.array([1, 2, 2, 3]), 2)
    (Array([1, 3], dtype=int64), Array([1., 2., 3.], dtype=float64))
    """
    x = ravel(asarray(a))
    heavy = None if weights is None else ravel(as_array(weights))
    if heavy is not None and heavy.shape != x.shape:
        raise ShapeError(f"histogram: weights must have the shape of the array, got {heavy.aval} for {x.aval}")
    edges = histogram_bin_edges(x, bins, range, weights)
    counts = _count([x], [edges], heavy)
    if density:
        widths = _widths(edges)
        counts = counts / widths / reductions.sum(counts)
    return counts, edges


def _count(columns: Sequence[Array], edges: Sequence[Array], weights: Array | None) -> Array:
    """The number, or the weight, of points in each box: int64, or of the dtype of weights; bools count."""
    if weights is not None and weights.dtype == BOOL:
        weights = astype(weights, INT64)
    shape, places, inside = tuple(e.size - 1 for e in edges), [], None
    for values, ends in zip(columns, edges, strict=True):
        x, bounds = (astype(v, WIDE.get(v.dtype, v.dtype)) for v in (values, ends))
        last = bounds[-1]
        place = where(x == last, as_array(bounds.size - 1), searchsorted(bounds, x, "right")) - 1
        within = (x >= bounds[0]) & (x <= last)
        inside = within if inside is None else inside & within
        places.append(place)
    start = zeros(shape, INT64 if weights is None else weights.dtype)
    if inside is None or not start.size:
        return start
    total = start.size
    flat = where(inside, ravel_multi_index(places, shape, "clip"), as_array(total))
    return shaping.reshape(ravel(start).at[flat].add(1 if weights is None else weights, mode="drop"), shape)


def histogramdd(
    sample: Nested,
    bins: Bins | Sequence[Bins] = 10,
    range: Sequence[Range | None] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """How many points, the rows of a matrix, are in each box, and where the bins of each column begin and end: see
    `histogram`.

    >>> histogramdd(np.array([[0.0, 0.0], [1.0, 1.0]]), 2)[0].tolist()
    [[1, 0], [0, 1]]
    """
    points = stack([ravel(asarray(x)) for x in sample], 1) if isinstance(sample, list | tuple) else asarray(sample)
    points = points if points.ndim != 1 else points[:, None]
    if points.ndim != 2:
        raise ShapeError(f"histogramdd takes a matrix, whose rows are points, got {points.aval}")
    number, axes = points.shape
    given = None if range is None else sequence("histogramdd: range", range)
    each: list[Bins] = list(bins) if isinstance(bins, list | tuple) else _for_each(bins, axes)
    if len(each) != axes or (given is not None and len(given) != axes):
        raise ShapeError(f"histogramdd: bins and range are for {axes} columns, got {len(each)} bins")
    columns = [points[:, i] for i in np.arange(axes).tolist()]
    limits: Sequence[Range | None] = [None] * axes if given is None else given
    edges = [histogram_bin_edges(x, b, r) for x, b, r in zip(columns, each, limits, strict=True)]
    heavy = None if weights is None else ravel(as_array(weights))
    if heavy is not None and heavy.shape != (number,):
        raise ShapeError(f"histogramdd: weights need a number for each of {number} points, got {heavy.aval}")
    counts = _count(columns, edges, heavy)
    if density:
        counts = counts / reductions.sum(counts)
        for axis, bounds in enumerate(edges):
            widths = _widths(bounds)
            counts = counts / shaping.reshape(widths, tuple(-1 if i == axis else 1 for i, _ in enumerate(edges)))
    return counts, edges


def _limits(given: Range) -> list[Array]:
    """Both ends of a range."""
    return [as_array(x) for x in sequence("histogram: range", given, 2)]


def _for_each(bins: Bins, axes: int) -> list[Bins]:
    if isinstance(bins, str):
        return [bins] * axes
    x = asarray(bins)
    return [bins] * axes if x.ndim == 0 else [x[i] for i in np.arange(x.shape[0]).tolist()] if x.ndim == 2 else [
        integer(n, "histogramdd: a number of bins") for n in x]  # fmt: skip


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Bins | Sequence[Bins] = 10,
    range: Sequence[Range | None] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """How many of the points (x, y) are in each box, and where the bins of both begin and end: see `histogram`.

    >>> histogram2d(np.array([0.0, 1.0]), np.array([0.0, 1.0]), 2)[0].tolist()
    [[1, 0], [0, 1]]
    """
    if not isinstance(bins, list | tuple) or len(bins) != 2:
        one = isinstance(bins, list | tuple) or asarray(bins).ndim == 1
        if one and (isinstance(bins, list | tuple) or asarray(bins).shape != (2,)):
            both = asarray(bins)
            bins = [both, both]
    counts, (first, second) = histogramdd([asarray(x), asarray(y)], bins, range, weights, density)
    return counts, first, second
