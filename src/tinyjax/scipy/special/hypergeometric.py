"""Hypergeometric functions of real numbers: sums of as many terms as they may need, with derivatives in all
arguments, of any order, in both modes."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.checkpointing import checkpoint
from tinyjax.ir.dtypes import FLOAT64
from tinyjax.prepared.functions import prepared_with_loops
from tinyjax.scipy.special.gammas import gammasgn
from tinyjax.scipy.special.promoted import floats
from tinyjax.tracing.array import Array, ArrayLike


def _whole_below_one(x: Array) -> Array:
    """Where the gamma function has its poles, and a series ends."""
    return (x <= 0) & (x == lax.floor(x))


def _gamma_quotient(above: list[Array], below: list[Array]) -> Array:
    """Of gamma functions; 0 where one of those below has a pole."""
    poles = [_whole_below_one(x) for x in below]
    safe = [tnp.where(pole, 1, x) for pole, x in zip(poles, below, strict=True)]
    size, sign = lax.full_like(above[0], 0), lax.full_like(above[0], 1)
    for x in above:
        size, sign = size + lax.lgamma(x), sign * gammasgn(x)
    for x, pole in zip(safe, poles, strict=True):
        size, sign = size - lax.lgamma(x), tnp.where(pole, 0, sign * gammasgn(x))
    return sign * lax.exp(size)


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's function: the sum of (a)ₖ / (b)ₖ xᵏ / k! from k = 0. Where b is 0 it is infinite, but 1 for a = 0.

    Raises:
      TypingError: they are complex.

    >>> hyp1f1(1.0, 2.0, 1.0)
    Array(1.71828183, dtype=float64)
    """
    return _kummer(*tnp.broadcast_arrays(*floats("hyp1f1", a, b, x)))


@prepared_with_loops
def _kummer(first: Array, second: Array, at: Array) -> Array:
    pole = _whole_below_one(second) & ~(_whole_below_one(first) & (first >= second))
    low = tnp.where(pole, 1, second)
    left, size = at < 0, lax.abs(at)
    top = tnp.where(left & ~_whole_below_one(first), low - first, first)  # e⁻ˣ of it, by Kummer's transformation
    turned = left & ~_whole_below_one(first)
    argument = tnp.where(turned, size, at)
    near = (size < (150 if at.dtype == FLOAT64 else 75)) | _whole_below_one(top)
    far = tnp.where(near, 150, size)
    by_power = _power_series(top, low, tnp.where(near, argument, 0)) * tnp.where(turned, lax.exp(at), 1)
    scale = _gamma_quotient([tnp.where(near, 1, low)], [tnp.where(near, 1, top)])
    growth = lax.exp((tnp.where(near, 0, top - low)) * lax.log(far)) * tnp.where(left | near, 1, lax.exp(far))
    value = tnp.where(near, by_power, scale * growth * _descending_series(top, low, far))
    value = tnp.where(pole, tnp.where(first == 0, 1, math.inf), value)
    return tnp.where(tnp.isnan(first) | tnp.isnan(at), math.nan, value)


def _power_series(a: Array, b: Array, x: Array) -> Array:
    def step(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        term, total = state
        i = k.astype(x.dtype)
        below = tnp.where(b + i == 0, 1, b + i)
        term = term * ((a + i) / below * (x / (i + 1)))
        return term, total + term

    one = lax.full_like(x, 1)
    return lax.fori_loop(0, 500, step, (one, one))[1]


def _descending_series(a: Array, b: Array, x: Array) -> Array:
    """In powers of 1 / x, as long as terms become less."""
    turn = tnp.maximum(lax.abs(1 - a), lax.abs(b - a))

    def step(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        term, total = state
        i = k.astype(x.dtype)
        ratio = (b - a + i) * (1 - a + i) / ((i + 1) * x)
        term = tnp.where((lax.abs(ratio) < 1) | (i < turn), term * ratio, 0)
        return term, total + term

    one = lax.full_like(x, 1)
    return lax.fori_loop(0, 100, step, (one, one))[1]


def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's function: the sum of (a)ₖ (b)ₖ / (c)ₖ xᵏ / k! from k = 0, and what continues it to x < -1. It is infinite
    where x is more than 1, unless the sum ends.

    Raises:
      TypingError: they are complex.

    >>> import numpy as np
    >>> hyp2f1(1.0, 1.0, 2.0, np.array([-1.0, 0.5]))
    Array([0.69314718, 1.38629436], dtype=float64)
    """
    return _gauss(*tnp.broadcast_arrays(*floats("hyp2f1", a, b, c, x)))


@prepared_with_loops
def _gauss(p: Array, q: Array, low: Array, at: Array) -> Array:
    small, large = tnp.where(p < q, p, q), tnp.where(p < q, q, p)
    ends = _whole_below_one(small) | _whole_below_one(large)
    last = tnp.where(_whole_below_one(large), large, small)  # the sum has terms up to k = -last
    pole = _whole_below_one(low) & ~(ends & (last >= low))
    beyond = (at > 1) & ~ends
    edge = (at == 1) & ~ends
    rest = low - p - q
    # Pfaff's transformation takes negative x to numbers between 0 and 1.
    turned = (at < 0) & ~ends
    left = tnp.where(turned, at, 0)
    to_go = tnp.where(turned, 1 / (1 - left), tnp.where(ends | beyond | edge, 1, 1 - at))  # 1 less the argument
    argument = tnp.where(turned, left / (left - 1), tnp.where(beyond | edge, 0, at))
    safe = tnp.where(_whole_below_one(low) & ~ends, 1, low)
    away = (to_go < 0.5) & ~ends
    # Of the two forms of it that is taken that has no terms of great size and either sign, and otherwise the one that
    # stays finite. Without it, Euler's transformation makes a large value near 1 of one that is finite.
    steep = away & ~turned & (rest < -1)
    first = turned & (low - large > -2)
    one, other = tnp.where(first, small, large), tnp.where(first, large, small)
    power = tnp.where(turned, one, tnp.where(steep, rest, 0))
    one, other = tnp.where(steep, safe - one, one), tnp.where(turned | steep, safe - other, other)
    value, slope = _gauss_series(one, other, safe, tnp.where(away, 0.5, argument))
    value = _continued(one, other, safe, value, slope, away, to_go)
    value = value * tnp.where(turned | steep, lax.exp(power * lax.log(tnp.where(turned | steep, to_go, 1))), 1)
    inside = edge & (rest > 0)
    at_one = _gamma_quotient(
        [tnp.where(inside, v, 1) for v in (safe, rest)], [tnp.where(inside, v, 1) for v in (safe - p, safe - q)]
    )
    value = tnp.where(edge, tnp.where(rest > 0, at_one, math.inf), tnp.where(beyond, math.inf, value))
    value = tnp.where(pole & (at != 0), math.inf, value)
    return tnp.where(tnp.isnan(p) | tnp.isnan(q) | tnp.isnan(at), math.nan, value)


def _gauss_series(a: Array, b: Array, c: Array, x: Array) -> tuple[Array, Array]:
    """Its sum, and that of its derivative times x."""

    def step(k: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        term, total, slope = state
        i = k.astype(x.dtype)
        below = tnp.where(c + i == 0, 1, c + i)
        term = term * ((a + i) / below * ((b + i) / (i + 1) * x))
        return term, total + term, slope + (i + 1) * term

    one = lax.full_like(x, 1)
    _, total, slope = lax.fori_loop(0, 250, step, (one, one, lax.full_like(x, 0)))
    return total, slope


def _continued(a: Array, b: Array, c: Array, value: Array, slope: Array, away: Array, target: Array) -> Array:
    """The function at 1 - target, from its value and derivative (times 1/2) at 1/2: by series of its differential
    equation, half the way to 1 again and again. nan where that isn't enough."""
    double = value.dtype == FLOAT64
    terms, steps = (72, 128) if double else (36, 128)

    def go_on(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        value, slope, distance = state
        half = distance / 2
        reached = tnp.where(half > target, half, target)  # a maximum, but differentiable where they are equal
        h = tnp.where(away, distance - reached, 0)
        place = 1 - distance
        shape, linear = place * distance, c - (a + b + 1) * place

        def add(k: Array, inner: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
            last, now, total, change = inner
            n = k.astype(value.dtype)
            new = (n + a) * (n + b) * h * h * last - (n + 1) * ((2 * distance - 1) * n + linear) * h * now
            new = new / (shape * (n + 2) * (n + 1))
            return now, new, total + new, change + (n + 2) * new

        first = slope * h
        _, _, total, change = lax.fori_loop(0, terms, add, (value, first, value + first, first))
        moved = h > 0
        return (
            tnp.where(moved, total, value),
            tnp.where(moved, change / tnp.where(moved, h, 1), slope),
            tnp.where(moved, reached, distance),
        )

    def step(_: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        short = tnp.any(away & (state[2] > target))
        return lax.cond(short, checkpoint(go_on), lambda s: s, state)

    start = (value, tnp.where(away, 2 * slope, 0), lax.full_like(value, 0.5))
    found, _, distance = lax.fori_loop(0, steps, step, start)
    return tnp.where(away & (distance > target), math.nan, found)
