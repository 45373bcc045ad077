"""Bits, and what is uniformly distributed: floats, integers, true and false."""

from __future__ import annotations

from typing import Final

import numpy.typing as npt

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.elementwise import user_dtype
from tinyjax.errors import ChoiceError, InputError
from tinyjax.ir.dtypes import FLOATS, INT32, INT64, INTEGERS, UINT64, UNSIGNED, DType
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.lax.layouts import OutSharding, laid_out
from tinyjax.prepared.functions import prepared
from tinyjax.primitives.key_generators import WIDTHS
from tinyjax.random.arguments import ShapeLike, check_shapes, dtype_of, full_shape, halves, number, random_bits, single
from tinyjax.random.drawing import fractions
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

_MODES: Final = ("high", "low")


def bits(
    key: ArrayLike, shape: ShapeLike = (), dtype: npt.DTypeLike | None = None, *, out_sharding: OutSharding = None
) -> Array:
    """Random bits, as unsigned integers of this dtype: uint64 unless it is given.

    >>> from tinyjax.random import key
    >>> bits(key(0), (2,), "uint8")
    Array([167, 146], dtype=uint8)
    """
    one = single("bits", key)
    found = UINT64 if dtype is None else user_dtype(dtype)
    if found not in UNSIGNED:
        raise ChoiceError(f"dtype argument to `bits` must be an unsigned int dtype, got {found}")
    return laid_out(random_bits(one, 8 * found.itemsize, as_shape(shape)), out_sharding)


def uniform(
    key: ArrayLike, shape: ShapeLike = (), dtype: npt.DTypeLike | None = None, minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0, *,  out_sharding: OutSharding = None,
) -> Array:  # fmt: skip
    """Floats that are uniformly distributed from `minval`, which may occur, to `maxval`, which doesn't.

    Differentiable in both. The dtype is float64 unless it is given.

    >>> from tinyjax.random import key
    >>> uniform(key(0), (2,))
    Array([0.41845711, 0.21629545], dtype=float64)
    """
    one, found = single("uniform", key), dtype_of("uniform", dtype, float)
    return laid_out(fractions(one, full_shape("uniform", shape, minval, maxval), found, minval, maxval), out_sharding)


def randint(
    key: ArrayLike,
    shape: ShapeLike,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: npt.DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Integers that are uniformly distributed from `minval`, which may occur, to `maxval`, which doesn't.

    The dtype is int64 unless it is given. Where `maxval` isn't above `minval`, that is the result. Numbers of fewer
    than 32 bits are made of 32. If the number of possible results is no power of 2, some are a little more probable;
    it doesn't matter unless there are almost as many as the dtype has.

    >>> from tinyjax.random import key
    >>> randint(key(0), (5,), 0, 10)
    Array([5, 1, 5, 7, 3], dtype=int64)
    """
    one = single("randint", key)
    found = user_dtype(int if dtype is None else dtype)
    if found not in INTEGERS:
        raise InputError(f"randint only accepts integer dtypes, got {found}")
    ends = [_integers(minval), _integers(maxval)]
    sizes = as_shape(shape)
    check_shapes("randint", sizes, [end.aval.shape for end in ends])
    if found.itemsize >= INT32.itemsize:
        return laid_out(_randint(one, sizes, ends[0], ends[1], found), out_sharding)
    info = tnp.iinfo(found)
    low = tnp.clip(ends[0].astype(INT32), int(info.min), int(info.max))
    high = tnp.clip(ends[1].astype(INT32), int(info.min), int(info.max) + 1)
    return laid_out(_randint(one, sizes, low, high, INT32).astype(found), out_sharding)


def _integers(x: ArrayLike) -> Array:
    array = as_array(x)
    return array if array.aval.dtype in INTEGERS else array.astype(INT64)


def _clipped(x: Array, dtype: DType) -> Array:
    """Integers of another dtype: the nearest that it has."""
    own, to = tnp.iinfo(x.aval.dtype), tnp.iinfo(dtype)
    low, high = (number(end, x.aval.dtype) for end in (max(own.min, to.min), min(own.max, to.max)))
    return tnp.clip(x, low, high).astype(dtype)


@prepared
def _randint(key: Array, shape: Shape, minval: Array, maxval: Array, dtype: DType) -> Array:
    last = min(int(tnp.iinfo(dtype).max), int(tnp.iinfo(maxval.aval.dtype).max))
    beyond = maxval > number(last, maxval.aval.dtype)
    low, high = _clipped(minval, dtype), _clipped(maxval, dtype)
    width = 8 * dtype.itemsize
    unsigned = WIDTHS[width]
    higher, lower = (random_bits(part, width, shape) for part in halves(key))
    one = number(1, unsigned)
    span = tnp.where(high <= low, one, (high - low).astype(unsigned))
    # Of all numbers there is one more than fits: then it is 0, and the remainders change nothing.
    span = tnp.broadcast_to(tnp.where(beyond & (high > low), span + one, span), shape)
    # Twice as many bits as the dtype has, so that few results are more probable than others.
    whole = (
        span == 0
    )  # all numbers of the dtype; XLA must not see a division by zero of constants, which ends the process
    divisor = tnp.where(whole, 1, span)

    def within(x: Array) -> Array:
        return tnp.where(whole, x, lax.rem(x, divisor))

    factor = within(tnp.broadcast_to(number(2 ** (width // 2), unsigned), shape))
    factor = within(factor * factor)
    offset = within(within(higher) * factor + within(lower))
    return low + offset.astype(dtype)


def bernoulli(
    key: ArrayLike,
    p: ArrayLike = 0.5,
    shape: ShapeLike | None = None,
    mode: str = "low",
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """True with probability p, which is broadcast to the shape; that of p unless it is given.

    With `mode="high"` twice as many bits are used, for probabilities that are smaller than the numbers between 0 and 1
    are apart.

    >>> from tinyjax.random import key
    >>> bernoulli(key(0), 0.3, (4,))
    Array([False,  True, False, False], dtype=bool)
    """
    if mode not in _MODES:
        raise ChoiceError(f"got mode={mode!r}, expected 'high' or 'low'")
    one, chance = single("bernoulli", key), as_array(p)
    dtype = chance.aval.dtype
    if dtype not in FLOATS:
        raise InputError(f"bernoulli probability `p` must have a floating dtype, got {dtype.name}.")
    sizes = full_shape("bernoulli", shape, chance)
    return laid_out(_bernoulli(one, chance, sizes, mode), out_sharding)


@prepared
def _bernoulli(key: Array, p: Array, shape: Shape, mode: str) -> Array:
    dtype = p.aval.dtype
    if mode == "low":
        return fractions(key, shape, dtype) < p
    first, second = fractions(key, (2, *shape), dtype)
    return second * 2.0 ** -tnp.finfo(dtype).nmant < p - first


def rademacher(
    key: ArrayLike, shape: ShapeLike = (), dtype: npt.DTypeLike | None = None, *, out_sharding: OutSharding = None
) -> Array:
    """-1 or 1, each with probability 1/2. The dtype is int64 unless it is given.

    >>> from tinyjax.random import key
    >>> rademacher(key(0), (4,))
    Array([ 1,  1, -1, -1], dtype=int64)
    """
    one, found = single("rademacher", key), user_dtype(int if dtype is None else dtype)
    assert found is not None
    return laid_out(_signs(one, as_shape(shape), found), out_sharding)


@prepared
def _signs(key: Array, shape: Shape, dtype: DType) -> Array:
    return (2 * bernoulli(key, 0.5, shape).astype(dtype) - 1).astype(dtype)
