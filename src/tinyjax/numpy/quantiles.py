"""Quantiles: by all of NumPy's methods, with and without nan."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from tinyjax.arrays import along_axis, reductions
from tinyjax.arrays.arithmetic import absolute, maximum, minimum
from tinyjax.arrays.elementwise import (
    astype,
    broadcast_to,
    constant_like,
    is_nan,
    promote_inexact,
    where,
)
from tinyjax.arrays.intake import refuse_out
from tinyjax.arrays.reductions import Axis
from tinyjax.arrays.shaping import canonical_axes, expand_dims, moveaxis, ravel, reshape, transpose
from tinyjax.arrays.taking import take_along_axis
from tinyjax.errors import ChoiceError, DtypeError, ShapeError
from tinyjax.ir.dtypes import COMPLEXES, FLOAT32, INT64
from tinyjax.ir.shapes import Shape
from tinyjax.lax.explicit import computed
from tinyjax.lax.layouts import OutSharding
from tinyjax.numpy.arithmetic import ceil, floor, rint
from tinyjax.numpy.creation import asarray
from tinyjax.numpy.signatures import Nested
from tinyjax.numpy.types import finfo
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

Rule = Callable[[Array, Array], Array]


def _between(alpha: float, beta: float) -> Rule:
    """The place of a quantile among n elements in order, by Hyndman and Fan's two numbers."""
    return lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


def _up_unless(whole: Callable[[Array], Array], shift: float) -> Rule:
    """The place after this one, or, where it is whole and a condition holds, itself."""

    def rule(n: Array, q: Array) -> Array:
        place = _settled(n * q - 1 - shift, n)
        below = floor(place)
        return where((place == below) & whole(below), below, below + 1)

    return rule


def _settled(place: Array, n: Array) -> Array:
    """The place, whole if it is as good as that: compiled, products are rounded in other ways."""
    near = rint(place)
    return where(absolute(place - near) <= n * (2 * finfo(place.dtype).eps), near, place)


def _averaged(n: Array, q: Array) -> Array:
    place = _settled(n * q - 1, n)
    below = floor(place)
    # At the ends there is one element only.
    return where(place == below, where(place < 0, place + 1, place + 0.5), below + 1)


def _middle(n: Array, q: Array) -> Array:
    place = (n - 1) * q
    return (floor(place) + ceil(place)) * 0.5


#: From the number of elements and the quantile to its place among the elements in order; between two, both count.
_RULES: Final[dict[str, Rule]] = {
    "inverted_cdf": _up_unless(lambda below: below == floor(below), 0),
    "averaged_inverted_cdf": _averaged,
    "closest_observation": _up_unless(lambda below: below % 2 == 1, 0.5),
    "interpolated_inverted_cdf": _between(0, 1),
    "hazen": _between(0.5, 0.5),
    "weibull": _between(0, 0),
    "linear": lambda n, q: (n - 1) * q,
    "median_unbiased": _between(1 / 3, 1 / 3),
    "normal_unbiased": _between(3 / 8, 3 / 8),
    "lower": lambda n, q: floor((n - 1) * q),
    "higher": lambda n, q: ceil((n - 1) * q),
    "midpoint": _middle,
    "nearest": lambda n, q: rint((n - 1) * q),
}


def quantile(
    a: ArrayLike,
    q: Nested,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The quantiles over axes, each a fraction q of the way from the least element to the greatest; nan if one is.

    The axes of q come first; the dtype is that of the elements. `method` says what is between two elements: "linear",
    "lower", "higher", "nearest", "midpoint", or one of NumPy's others. With `weights` it is "inverted_cdf".

    >>> quantile(np.array([1.0, 2.0, 4.0]), [0.5, 0.75])
    Array([2., 3.], dtype=float64)
    """
    refuse_out("quantile", out)
    return _quantile("quantile", a, q, 1, axis, method, keepdims, weights, False)


def percentile(
    a: ArrayLike,
    q: Nested,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """The quantiles over axes, q in percent: see `quantile`. `out_sharding` says how they lie on a mesh.

    >>> percentile(np.array([1.0, 2.0, 4.0]), 75)
    Array(3., dtype=float64)
    """
    refuse_out("percentile", out)
    return computed(
        lambda x: _quantile("percentile", x, q, 100, axis, method, keepdims, weights, False),
        [as_array(a)],
        out_sharding,
    )


def nanquantile(
    a: ArrayLike,
    q: Nested,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The quantiles over axes, nan left out: see `quantile`.

    >>> nanquantile(np.array([1.0, math.nan, 3.0]), 0.5)
    Array(2., dtype=float64)
    """
    refuse_out("nanquantile", out)
    return _quantile("nanquantile", a, q, 1, axis, method, keepdims, weights, True)


def nanpercentile(
    a: ArrayLike,
    q: Nested,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The quantiles over axes, q in percent, nan left out: see `quantile`.

    >>> nanpercentile(np.array([1.0, math.nan, 3.0]), 50)
    Array(2., dtype=float64)
    """
    refuse_out("nanpercentile", out)
    return _quantile("nanpercentile", a, q, 100, axis, method, keepdims, weights, True)


@prepared
def nanmedian(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """The middle element over axes, or the mean of the two in the middle, nan left out.

    >>> nanmedian(np.array([1.0, math.nan, 3.0]))
    Array(2., dtype=float64)
    """
    refuse_out("nanmedian", out)
    return _quantile("nanmedian", a, 0.5, 1, axis, "linear", keepdims, None, True)


def _quantile(
    name: str,
    a: ArrayLike,
    q: Nested,
    whole: int,
    axis: Axis,
    method: str,
    keepdims: bool,
    weights: ArrayLike | None,
    skip: bool,
) -> Array:
    given: object = method
    if not isinstance(given, str) or given not in _RULES:
        raise ChoiceError(f"{name}: method is one of {', '.join(_RULES)}, not {method!r}")
    x, asked = as_array(a), as_array(q) if isinstance(q, float | int | Array) else asarray(q)
    low, high = (q, q) if isinstance(q, float | int) else _limits(asked)
    if low < 0 or high > whole:
        raise ChoiceError(f"{name}: q is between 0 and {whole}, got {float(low)} to {float(high)}")
    if weights is None:
        return _unweighted(x, asked, name, whole, axis, method, keepdims, skip)
    x, asked, axes, kept, size = _looked_at(name, x, asked, axis)
    rest = tuple(x.shape[i] for i in kept)
    rows = reshape(transpose(x, (*kept, *axes)), (*rest, size))
    if method != "inverted_cdf":
        raise ChoiceError(f"{name}: with weights, method is 'inverted_cdf', not {method!r}")
    w = as_array(weights)
    if w.shape != x.shape:
        if w.shape != tuple(x.shape[i] for i in axes):
            raise ShapeError(f"{name}: weights have the shape of the array, or of the axes, got {w.aval}")
        w = broadcast_to(reshape(w, tuple(n if i in axes else 1 for i, n in enumerate(x.shape))), x.shape)
    heavy = reshape(transpose(w, (*kept, *axes)), (*rest, size))
    _, heavy, _ = promote_inexact(rows, heavy, asked)
    picked = _weighted(rows, heavy, _fractions(asked, whole), skip)
    return _in_place(picked, asked.shape, rest, axes, keepdims)


def _limits(asked: Array) -> tuple[float, float]:
    """The least and the greatest of what is asked for; 0 if that isn't known, or isn't real."""
    known = asked.concrete() if asked.size and asked.dtype not in COMPLEXES else None
    if known is None:
        return 0.0, 0.0
    elements = np.asarray(known.data)
    return float(elements.min()), float(elements.max())


def _looked_at(
    name: str, x: Array, asked: Array, axis: Axis
) -> tuple[Array, Array, tuple[int, ...], tuple[int, ...], int]:
    """The array, and what is asked for, as floats; the axes that are reduced, the others, and the number of elements
    of which there are quantiles."""
    (x,), (asked,) = promote_inexact(x), promote_inexact(asked)
    if asked.dtype.itemsize < FLOAT32.itemsize:  # places are counted in it
        asked = astype(asked, FLOAT32)
    if x.dtype in COMPLEXES or asked.dtype in COMPLEXES:
        raise DtypeError(f"{name} does not accept complex operands, got {x.aval} and {asked.aval}")
    axes = canonical_axes(axis, x.ndim, name)
    size = math.prod(x.shape[i] for i in axes)
    if size == 0:
        raise ShapeError(f"{name} of no elements isn't defined: {x.aval} has none along {axes}")
    return x, asked, axes, tuple(i for i in range(x.ndim) if i not in axes), size


def _fractions(asked: Array, whole: int) -> Array:
    return ravel(asked) / whole if whole != 1 else ravel(asked)


def _in_place(picked: Array, asked: Shape, rest: Shape, axes: tuple[int, ...], keepdims: bool) -> Array:
    """What was found along the last axis: where what was asked for comes first."""
    picked = reshape(moveaxis(picked, -1, 0), (*asked, *rest))
    return expand_dims(picked, [len(asked) + i for i in axes]) if keepdims else picked


@prepared
def _unweighted(
    x: Array, asked: Array, name: str, whole: int, axis: Axis, method: str, keepdims: bool, skip: bool
) -> Array:
    x, asked, axes, kept, size = _looked_at(name, x, asked, axis)
    rest = tuple(x.shape[i] for i in kept)
    rows = reshape(transpose(x, (*kept, *axes)), (*rest, size))
    picked = _ordinary(along_axis.sort(rows), _fractions(asked, whole), _RULES[method], skip)
    return _in_place(picked, asked.shape, rest, axes, keepdims)


def _at(ordered: Array, places: Array) -> Array:
    """The elements of rows at places that there are."""
    return take_along_axis(ordered, places, -1, "clip", wrap=False)


def _ordinary(ordered: Array, q: Array, rule: Rule, skip: bool) -> Array:
    """Of rows in order, nan last: the quantiles, as the last axis."""
    some = as_array(np.full(1, ordered.shape[-1]))
    count = reductions.sum(~is_nan(ordered), -1, INT64, keepdims=True) if skip else some
    n = astype(count, q.dtype)  # a narrow dtype of the elements may not reach so far
    last = maximum(n - 1, constant_like(n, 0))
    place = minimum(maximum(rule(n, q), constant_like(n, 0)), last)
    below = floor(place)
    above, part = minimum(below + 1, last), astype(place - below, ordered.dtype)
    shape = (*ordered.shape[:-1], q.size)
    low, high = (_at(ordered, broadcast_to(astype(i, INT64), shape)) for i in (below, above))
    # By no difference, which overflows, and is nan next to infinities; equal elements both have derivatives.
    out = where(part == 0, low, low * (1 - part) + high * part)
    bad = count == 0 if skip else is_nan(ordered[..., -1:])
    return where(bad | is_nan(q), constant_like(out, math.nan), out)


def _weighted(rows: Array, weights: Array, q: Array, skip: bool) -> Array:
    """The first elements below which, or at which, there is this part of the weight."""
    order = along_axis.argsort(rows)
    ordered, heavy = (take_along_axis(x, order, -1, "promise_in_bounds", wrap=False) for x in (rows, weights))
    nans = is_nan(ordered)
    heavy = where(nans, constant_like(heavy, 0), heavy) if skip else heavy
    reached = along_axis.cumsum(heavy, -1)
    total = reached[..., -1:]
    after = (reached / total)[..., None, :] < q[:, None]
    # Elements without weight at the start don't count.
    place = maximum(reductions.sum(after, -1, INT64), reductions.sum(reached == 0, -1, INT64, keepdims=True))
    place = minimum(place, as_array(rows.shape[-1] - 1))
    out = take_along_axis(ordered, place, -1, "promise_in_bounds", wrap=False)
    bad = reductions.all(nans, -1, keepdims=True) if skip else reductions.any(nans, -1, keepdims=True)
    return where(bad | is_nan(q), constant_like(out, math.nan), out)
