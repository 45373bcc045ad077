"""Random orders, and random choices of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.arrays.shaping import canonical_axis
from tinyjax.errors import InputError, ShapeError
from tinyjax.ir.dtypes import INT64, INTEGERS
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.lax.layouts import OutSharding, laid_out
from tinyjax.prepared.functions import prepared
from tinyjax.random.arguments import ShapeLike, check_shapes, halves, random_bits, single
from tinyjax.random.drawing import fractions
from tinyjax.random.gumbels import gumbel
from tinyjax.random.uniform import randint
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def permutation(
    key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False, *, out_sharding: OutSharding = None
) -> Array:
    """The slices of x along an axis in random order; for an integer x, the numbers from 0 to x - 1.

    If `independent`, the elements along the axis are put in another order for each place along the others.

    >>> from tinyjax.random import key
    >>> permutation(key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int64)
    """
    one, array = single("permutation", key), as_array(x)
    if not array.aval.shape:
        if array.aval.dtype not in INTEGERS:
            raise InputError("x must be an integer or at least 1-dimensional")
        canonical_axis(axis, 1, "permutation")
        return laid_out(_shuffled(one, tnp.arange(int(array)), 0), out_sharding)
    at = canonical_axis(axis, array.ndim, "permutation")
    if independent or array.ndim == 1:
        return laid_out(_shuffled(one, array, at), out_sharding)
    order = _shuffled(one, tnp.arange(array.aval.shape[at]), 0)
    return laid_out(tnp.take(array, order, axis=at, mode="clip"), out_sharding)


@prepared
def _shuffled(key: Array, x: Array, axis: int) -> Array:
    """Sorted by random numbers, often enough that equal ones leave no trace."""
    size = max(1, x.aval.size)
    for _ in range(math.ceil(3 * np.log(size) / np.log(2**32 - 1))):
        key, part = halves(key)
        x = lax.sort((random_bits(part, 32, x.aval.shape), x), dimension=axis, num_keys=1)[1]
    return x


def choice(
    key: ArrayLike, a: ArrayLike, shape: Sequence[int] = (), replace: bool = True, p: ArrayLike | None = None,
    axis: int = 0, mode: str | None = None,
) -> Array:  # fmt: skip
    """Slices of a along an axis, or for an integer a numbers from 0 to a - 1, each chosen with probability p.

    Without `replace`, none is chosen twice. `mode` is that of `gumbel`, which is used for choosing without replacement
    by p.

    Raises:
      ShapeError: more are to be chosen than there are, or p isn't a vector with a probability for each.

    >>> from tinyjax.random import key
    >>> choice(key(0), 10, (3,), replace=False)
    Array([0, 1, 8], dtype=int64)
    """
    one, array = single("choice", key), as_array(a)
    if not isinstance(shape, Sequence):
        raise InputError(f"shape argument of choice must be a sequence, got {shape}")
    sizes, at = as_shape(shape), 0
    if array.ndim:
        at = canonical_axis(axis, array.ndim, "choice")
        there = array.aval.shape[at]
    else:
        if array.aval.dtype not in INTEGERS:
            raise InputError(f"choice: a is an array or an integer, got {array.aval}")
        there = int(array)
    chosen = math.prod(sizes)
    if not chosen:
        return tnp.zeros(sizes, array.aval.dtype)
    if there <= 0:
        raise ShapeError("a must be greater than 0 unless no samples are taken")
    if not replace and chosen > there:
        raise ShapeError(
            f"Cannot take a larger sample (size {chosen}) than population (size {there}) when 'replace=False'"
        )
    if p is None and not replace:
        order = permutation(one, array if array.ndim else there, at)
        found = order[(slice(None),) * at + (slice(chosen),)]
    else:
        places = randint(one, sizes, 0, there) if p is None else _by_chance(one, there, sizes, replace, p, mode)
        found = tnp.take(array, places, axis=at, mode="clip") if array.ndim else places
    return found.reshape((*array.aval.shape[:at], *sizes, *array.aval.shape[at + 1 :]) if array.ndim else sizes)


def _by_chance(key: Array, there: int, shape: tuple[int, ...], replace: bool, p: ArrayLike, mode: str | None) -> Array:
    (chance,) = promote_inexact(as_array(p))
    if chance.aval.shape != (there,):
        raise ShapeError(
            "p must be None or a 1D vector with the same size as a.shape[axis]. "
            f"p has shape {chance.aval.shape} and a.shape[axis] is {there}."
        )
    dtype = chance.aval.dtype
    if not replace:
        score = gumbel(key, (there,), dtype, mode) + tnp.log(chance)
        return lax.top_k(score, math.prod(shape))[1].astype(INT64)
    below = tnp.cumsum(chance)
    return tnp.searchsorted(below, below[-1] * (1 - fractions(key, shape, dtype))).astype(INT64)


def categorical(
    key: ArrayLike, logits: ArrayLike, axis: SupportsIndex = -1, shape: ShapeLike | None = None, replace: bool = True,
    mode: str | None = None, *,  out_sharding: OutSharding = None,
) -> Array:  # fmt: skip
    """Positions along an axis, each with a probability that is proportional to the exponential of its logit.

    The shape ends with that of the logits without the axis, which it is unless it is given. Without `replace`, none of
    the positions that the other axes of the shape have is chosen twice. `mode` is that of `gumbel`.

    >>> import numpy as np
    >>> from tinyjax.random import key
    >>> categorical(key(0), np.log([0.1, 0.2, 0.7]), shape=(5,))
    Array([2, 2, 2, 1, 1], dtype=int64)
    """
    one, array = single("categorical", key), as_array(logits)
    at = canonical_axis(axis, array.ndim, "categorical")
    own = array.aval.shape
    batch = own[:at] + own[at + 1 :]
    sizes = batch if shape is None else as_shape(shape)
    check_shapes("categorical", sizes, [batch])
    before = sizes[: len(sizes) - len(batch)]
    if replace:
        inner = list(sizes[len(before) :])
        inner.insert(at, own[at])
        return laid_out(_largest(one, array, (*before, *inner), at - array.ndim, mode), out_sharding)
    count = math.prod(before)
    if count > own[at]:
        raise ShapeError(
            f"Number of samples without replacement ({count}) cannot exceed number of categories ({own[at]})."
        )
    scores = array + gumbel(one, own, array.aval.dtype, mode)
    places = lax.top_k(tnp.moveaxis(scores, at, -1), count)[1]
    return laid_out(tnp.moveaxis(places, -1, 0).reshape(sizes), out_sharding)


@prepared
def _largest(key: Array, logits: Array, shape: Shape, axis: int, mode: str | None) -> Array:
    return tnp.argmax(gumbel(key, shape, logits.aval.dtype, mode) + logits, axis=axis)
