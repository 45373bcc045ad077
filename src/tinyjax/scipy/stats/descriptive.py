"""Descriptions of samples."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, SupportsIndex

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.arrays.shaping import canonical_axis, integer
from tinyjax.errors import ChoiceError, UnsupportedError
from tinyjax.ir.dtypes import FLOATS
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

_METHODS = ("average", "min", "max", "dense", "ordinal")


#: The most frequent number, and how often it is there.
ModeResult = NamedTuple("ModeResult", [("mode", Array), ("count", Array)])  # noqa: UP014  (a class can't name a `count`)


def _check_policy(name: str, policy: str, *supported: str) -> None:
    if policy not in ("propagate", "omit", "raise"):
        raise ChoiceError(f"{name}: nan_policy is 'propagate', 'omit' or 'raise', got {policy!r}")
    if policy not in supported:
        raise UnsupportedError(
            f"{name}: nan_policy={policy!r} isn't supported; take {' or '.join(map(repr, supported))}"
        )


def _last(a: ArrayLike, axis: SupportsIndex | None, name: str) -> tuple[Array, int]:
    """The array with the axis last, or flattened; and which axis that was."""
    x = as_array(a)
    if axis is None or not x.ndim:
        return tnp.reshape(x, (-1,)), 0
    along = canonical_axis(axis, x.ndim, name)
    return tnp.moveaxis(x, along, -1), along


def mode(
    a: ArrayLike, axis: SupportsIndex | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most frequent number along an axis, the smallest one of several, and how often it is there.

    Nans are equal. Without numbers it is nan, 0 times.

    >>> import numpy as np
    >>> mode(np.array([3, 1, 3, 2]))
    ModeResult(mode=Array(3, dtype=int64), count=Array(2, dtype=int64))
    """
    _check_policy("mode", nan_policy, "propagate")
    x, along = _last(a, axis, "mode")
    size = x.shape[-1]
    if not size:
        found, count = tnp.full(x.shape[:-1], math.nan), tnp.zeros(x.shape[:-1])
    else:
        ordered = tnp.sort(x, -1)
        place = tnp.arange(size)
        starts = lax.cummax(tnp.where(_is_new(ordered), place, 0), ordered.ndim - 1)
        runs = place - starts + 1
        last = tnp.argmax(runs, -1, keepdims=True)
        found = _taken(ordered, last)[..., 0]
        count = _taken(runs, last)[..., 0]
    if keepdims:
        axes = tuple(range(as_array(a).ndim)) if axis is None else (along,)
        found, count = tnp.expand_dims(found, axes), tnp.expand_dims(count, axes)
    return ModeResult(found, count)


def _taken(x: Array, places: Array) -> Array:
    """What is at places that there are, along the last axis."""
    return tnp.take_along_axis(x, places, -1, "promise_in_bounds", wrap_negative_indices=False)


def _is_new(ordered: Array) -> Array:
    """Where a number is another one than that before; nans are last, and equal."""
    after, before = ordered[..., 1:], ordered[..., :-1]
    changed = after != before
    if ordered.dtype in FLOATS:
        changed = changed & ~(tnp.isnan(after) & tnp.isnan(before))
    return tnp.concatenate([tnp.ones((*ordered.shape[:-1], 1), dtype=bool), changed], -1)


def rankdata(
    a: ArrayLike,
    method: Literal["average", "min", "max", "dense", "ordinal"] = "average",
    *,
    axis: SupportsIndex | None = None,
    nan_policy: str = "propagate",
) -> Array:
    """The ranks of numbers along an axis, or of all, from 1 on: floats. Equal ones share the average of their ranks, or
    the smallest or the largest of them, or the number of different ones up to theirs ("dense"), or are ranked in order
    ("ordinal"). With a nan among them all ranks are nan.

    >>> import numpy as np
    >>> rankdata(np.array([20, 10, 20]))
    Array([2.5, 1. , 2.5], dtype=float64)
    """
    _check_policy("rankdata", nan_policy, "propagate")
    if method not in _METHODS:
        raise ChoiceError(f"rankdata: method is one of {', '.join(_METHODS)}; got {method!r}")
    x, along = _last(a, axis, "rankdata")
    order = tnp.argsort(x, -1, stable=True)
    ordered = _taken(x, order)
    place = tnp.arange(x.shape[-1])
    new, last = _is_new(ordered), ordered.ndim - 1
    first = lax.cummax(tnp.where(new, place, 0), last)
    ends = tnp.concatenate([new[..., 1:], tnp.ones((*new.shape[:-1], 1), dtype=bool)], -1)
    final = lax.cummin(tnp.where(ends, place, x.shape[-1]), last, reverse=True)
    if method == "dense":
        ranks = tnp.cumsum(new, -1)
    elif method == "ordinal":
        ranks = tnp.broadcast_to(place + 1, x.shape)
    else:
        ranks = {"min": first + 1, "max": final + 1, "average": (first + final) / 2 + 1}[method]
    found = _taken(tnp.astype(ranks, float), tnp.argsort(order, -1))
    if x.dtype in FLOATS:
        found = tnp.where(tnp.any(tnp.isnan(x), -1, keepdims=True), math.nan, found)
    return found if axis is None else tnp.moveaxis(found, -1, along)


def sem(
    a: ArrayLike,
    axis: SupportsIndex | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """The standard error of the mean: the standard deviation along an axis, or of all, divided by the root of the
    number of elements. `ddof` is subtracted from that number for the variance; "omit" leaves nans out.

    >>> import numpy as np
    >>> sem(np.array([1.0, 2.0, 4.0]))
    Array(0.8819171, dtype=float64)
    """
    _check_policy("sem", nan_policy, "propagate", "omit")
    (x,) = promote_inexact(as_array(a))
    counts = None if nan_policy == "propagate" else ~tnp.isnan(x)
    safe = x if counts is None else tnp.where(counts, x, 0)
    less = integer(ddof, "sem: ddof")
    deviation = tnp.std(safe, axis, ddof=less, keepdims=keepdims, where=counts)
    number = tnp.sum(tnp.ones_like(x), axis, keepdims=keepdims, where=counts)
    return deviation / tnp.sqrt(number)
