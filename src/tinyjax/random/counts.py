"""Samplers of distributions of counts.

Poisson numbers by Knuth's products where few are expected, else by Hörmann's transformed rejection, "The transformed
rejection method for generating Poisson random variables" (1993); binomial ones by the waiting times between successes,
else by his "The generation of binomial random variates" (1993).
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.elementwise import promote_inexact, user_dtype
from tinyjax.errors import ChoiceError, InputError
from tinyjax.ir.dtypes import COMPLEXES, FLOAT32, INTEGERS, DType
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.lax.layouts import OutSharding, laid_out
from tinyjax.prepared.functions import prepared, prepared_with_loops
from tinyjax.random.approximate import Method, approximate_poisson, is_approximate
from tinyjax.random.arguments import ShapeLike, check_shapes, converted, dtype_of, full_shape, halves, number, single
from tinyjax.random.drawing import fractions
from tinyjax.random.keys import clone, split
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

_Counting: TypeAlias = tuple[Array, Array, Array, Array]
#: What Stirling's formula lacks, for k from 0 to 9.
_TAIL: Final = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _dtype_of_counts(name: str, dtype: npt.DTypeLike | None) -> DType:
    found = user_dtype(int if dtype is None else dtype)
    if found not in INTEGERS:
        raise ChoiceError(f"dtype argument to `{name}` must be an int dtype, got {found}")
    return found


def poisson(
    key: ArrayLike,
    lam: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None,
    *,
    method: Method = "exact",
    out_sharding: OutSharding = None,
) -> Array:
    """Numbers of events of which `lam` are expected, with Poisson's distribution. The dtype is int64 unless given.

    The method "approximate" has no loops; its numbers are almost so distributed.

    >>> from tinyjax.random import key
    >>> poisson(key(0), 3.0, (4,))
    Array([0, 0, 4, 4], dtype=int64)
    """
    one, found = single("poisson", key), _dtype_of_counts("poisson", dtype)
    sizes = full_shape("poisson", shape, lam)
    if is_approximate("poisson", method):
        return laid_out(approximate_poisson(one, lam, sizes, found), out_sharding)
    rate = converted(tnp.broadcast_to(as_array(lam), sizes), FLOAT32)
    return laid_out(_events(one, rate, found), out_sharding)


@prepared_with_loops
def _events(key: Array, rate: Array, dtype: DType) -> Array:
    few, sizes = tnp.isnan(rate) | (rate < 10), rate.aval.shape
    most = int(tnp.iinfo(dtype).max)
    # One of both is kept for each number, so they may use the same key.
    by_product = _by_product(clone(key), tnp.where(few, rate, np.float32(0)), sizes, dtype, most)
    by_rejection = _by_rejection(key, tnp.where(few, np.float32(1e5), rate), sizes, dtype, most)
    drawn = tnp.where(few, by_product, by_rejection)
    return tnp.where(rate == 0, number(0, dtype), drawn)


def _by_product(key: Array, rate: Array, shape: Shape, dtype: DType, most: int) -> Array:
    def going_on(carry: _Counting) -> Array:
        return tnp.any(carry[3] > -rate) & (carry[0] < most)

    def step(carry: _Counting) -> _Counting:
        i, k, key, log_product = carry
        key, part = halves(key)
        k = tnp.where(log_product > -rate, k + 1, k)
        return i + 1, k, key, log_product + lax.log(fractions(part, shape, FLOAT32))

    start = (tnp.asarray(np.int64(0)), tnp.zeros(shape, dtype), key, tnp.zeros(shape, FLOAT32))
    return lax.while_loop(going_on, step, start)[1] - number(1, dtype)


def _by_rejection(key: Array, rate: Array, shape: Shape, dtype: DType, most: int) -> Array:
    log_rate = lax.log(rate)
    b = 0.931 + 2.53 * lax.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def going_on(carry: _Counting) -> Array:
        return tnp.any(~carry[2]) & (carry[0] < most)

    def step(carry: _Counting) -> _Counting:
        i, out, accepted, key = carry
        key, first, second = halves(key, 3)
        u, v = fractions(first, shape, FLOAT32) - 0.5, fractions(second, shape, FLOAT32)
        edge = 0.5 - tnp.abs(u)
        k = lax.floor((2 * a / edge + b) * u + rate + 0.43)
        s = lax.log(v * inverse_alpha / (a / (edge * edge) + b))
        bound = -rate + k * log_rate - lax.lgamma(k + 1)
        refused = (k < 0) | ((edge < 0.013) & (v > edge))
        accept = ((edge >= 0.07) & (v <= v_r)) | (~refused & (s <= bound))
        return i + 1, tnp.where(accept, k, out), accepted | accept, key

    start = (tnp.asarray(np.int64(0)), tnp.full(shape, -1, FLOAT32), tnp.zeros(shape, bool), key)
    return lax.while_loop(going_on, step, start)[1].astype(dtype)


def geometric(
    key: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Numbers of trials until the first success, which has probability p each time. The dtype is int64 unless given.

    >>> from tinyjax.random import key
    >>> geometric(key(0), 0.3, (4,))
    Array([3, 5, 1, 2], dtype=int64)
    """
    one, found = single("geometric", key), _dtype_of_counts("geometric", dtype)
    sizes = full_shape("geometric", shape, p)
    (chance,) = promote_inexact(as_array(p))
    if chance.aval.dtype in COMPLEXES:
        raise InputError(f"geometric: p is a real number, got {chance.aval}")
    return laid_out(_geometric(one, chance, sizes, found), out_sharding)


@prepared
def _geometric(key: Array, p: Array, shape: Shape, dtype: DType) -> Array:
    u = fractions(key, shape, p.aval.dtype)
    logs = lax.log(tnp.where(u == 0, number(1, u.aval.dtype), u))
    return (lax.floor(logs / tnp.broadcast_to(lax.log1p(-p), shape)) + 1).astype(dtype)


def binomial(
    key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: ShapeLike | None = None, dtype: npt.DTypeLike | None = None
) -> Array:
    """Numbers of successes in n trials, each with probability p: floats, nan where there are no such n and p.

    >>> from tinyjax.random import key
    >>> binomial(key(0), 10, 0.3, (4,))
    Array([4., 1., 3., 4.], dtype=float64)
    """
    one, found = single("binomial", key), dtype_of("binomial", dtype, float)
    sizes = full_shape("binomial", shape, n, p)
    (chance,) = promote_inexact(as_array(p))
    count = tnp.broadcast_to(converted(n, chance.aval.dtype), sizes)
    return _successes(one, count, tnp.broadcast_to(chance, sizes), found)


@prepared_with_loops
def _successes(key: Array, count: Array, chance: Array, dtype: DType) -> Array:
    own, sizes = chance.aval.dtype, chance.aval.shape
    rare = chance < 0.5
    q = tnp.where(rare, chance, 1.0 - chance)
    wrong_count, infinite = tnp.isnan(count) | (count < 0), tnp.isinf(count)
    wrong = tnp.isnan(q) | (q < 0)
    no_chance = tnp.isnan(q)
    q = tnp.where(wrong, number(0.01, own), q)
    few = wrong_count | (count * q <= 10)
    count = lax.floor(count)
    most = float(tnp.finfo(dtype).max)
    by_waiting = _by_waiting(clone(key), tnp.where(few, count, number(0, own)), q, sizes, dtype, most)
    many, common = tnp.where(few, number(1e4, own), count), tnp.where(few, number(0.5, own), q)
    drawn = tnp.where(few, by_waiting, _by_btrs(key, many, common, sizes, dtype, most))
    invalid = wrong | wrong_count
    drawn = tnp.where(invalid, number(np.nan, dtype), drawn)
    drawn = tnp.where(infinite & ~invalid, number(np.inf, dtype), drawn)
    return tnp.where(rare | wrong_count | no_chance | infinite, drawn, count.astype(dtype) - drawn)


def _by_waiting(key: Array, count: Array, chance: Array, shape: Shape, dtype: DType, most: float) -> Array:
    own, scale = chance.aval.dtype, lax.log1p(-chance)

    def going_on(carry: _Counting) -> Array:
        return tnp.any(carry[2] <= count) & (carry[0] < most)

    def step(carry: _Counting) -> _Counting:
        i, found, waited, key = carry
        part, key = halves(key)
        found = tnp.where(waited <= count, found + 1, found)
        return i + 1, found, waited + lax.ceil(lax.log(fractions(part, shape, own)) / scale), key

    start = (tnp.asarray(np.int64(0)), tnp.zeros(shape, own), tnp.zeros(shape, own), key)
    return (lax.while_loop(going_on, step, start)[1] - 1).astype(dtype)


def _tail(k: Array) -> Array:
    """What Stirling's formula lacks."""
    own = k.aval.dtype
    known = k <= 9
    k = tnp.clip(k, 0.0, 9.0)
    square = (k + 1) * (k + 1)
    further = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
    return tnp.where(known, tnp.asarray(np.asarray(_TAIL, own))[lax.floor(k).astype("int32")], further)


def _by_btrs(key: Array, count: Array, chance: Array, shape: Shape, dtype: DType, most: float) -> Array:
    own = chance.aval.dtype
    deviation = lax.sqrt(count * chance * (1 - chance))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * chance
    c = count * chance + 0.5
    v_r = 0.92 - 4.2 / b
    r = chance / (1 - chance)
    alpha = (2.83 + 5.1 / b) * deviation
    m = lax.floor((count + 1) * chance)

    def going_on(carry: _Counting) -> Array:
        return tnp.any(~carry[2]) & (carry[0] < most)

    def step(carry: _Counting) -> _Counting:
        i, out, accepted, key = carry
        key, first, second = halves(key, 3)
        u, v = fractions(first, shape, own) - 0.5, fractions(second, shape, own)
        edge = 0.5 - tnp.abs(u)
        k = lax.floor((2 * a / edge + b) * u + c)
        refused = (k < 0) | (k > count)
        s = lax.log(v * alpha / (a / (edge * edge) + b))
        bound = (
            (m + 0.5) * lax.log((m + 1) / (r * (count - m + 1)))
            + (count + 1) * lax.log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * lax.log(r * (count - k + 1) / (k + 1))
            + _tail(m) + _tail(count - m) - _tail(k) - _tail(count - k)
        )  # fmt: skip
        accept = ((edge >= 0.07) & (v <= v_r)) | (~refused & (s <= bound))
        return i + 1, tnp.where(accept, k, out), accepted | accept, key

    start = (tnp.asarray(np.int64(0)), tnp.full(shape, -1, own), tnp.zeros(shape, bool), key)
    return lax.while_loop(going_on, step, start)[1].astype(dtype)


def multinomial(
    key: ArrayLike, n: ArrayLike, p: ArrayLike, *, shape: ShapeLike | None = None, dtype: npt.DTypeLike | None = None,
    unroll: int | bool = 1,
) -> Array:  # fmt: skip
    """How often each of several outcomes occurs in n trials: along the last axis, that of their probabilities p.

    >>> from tinyjax.random import key
    >>> multinomial(key(0), 10, [0.2, 0.3, 0.5])
    Array([1., 4., 5.], dtype=float64)
    """
    one, found = single("multinomial", key), dtype_of("multinomial", dtype, float)
    trials, chances = promote_inexact(as_array(n), tnp.asarray(p))
    sizes = chances.aval.shape if shape is None else as_shape(shape)
    check_shapes("multinomial", sizes, [chances.aval.shape])
    return _shares(one, tnp.broadcast_to(trials, sizes[:-1]), tnp.broadcast_to(chances, sizes), found, unroll)


@prepared_with_loops
def _shares(key: Array, trials: Array, chances: Array, dtype: DType, unroll: int | bool) -> Array:
    own, chances = chances.aval.dtype, tnp.moveaxis(chances, -1, 0)
    remaining = lax.cumsum(chances, 0, reverse=True)
    ratios = chances / tnp.where(remaining == 0, number(1, own), remaining)

    def step(rest: Array, each: tuple[Array, Array]) -> tuple[Array, Array]:
        ratio, part = each
        count = binomial(part, rest, tnp.clip(ratio, 0, 1), dtype=own)
        return rest - count, count

    keys = split(key, ratios.aval.shape[0])
    counts = lax.scan(step, trials, (ratios, keys), unroll=unroll)[1]
    return tnp.moveaxis(counts, 0, -1).astype(dtype)
