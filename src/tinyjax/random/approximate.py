"""Gamma and Poisson numbers without loops: close to their distributions, and quick where many are drawn at once.

A normal number becomes the one of about the same rank. Gamma numbers of a shape of at least 4 come from Goldstein's
series for the quantiles of chi-square ("Algorithm 451: chi-square quantiles", 1973), with 1 as its first term, which is
its limit; others are such numbers times powers of uniform ones, as Stuart has it ("Gamma-distributed products of
independent random variables", 1962). Poisson numbers are found in the sums of their probabilities where few are
expected, else by Peizer and Pratt's "A normal approximation for binomial, F, beta, and other common, related tail
probabilities, I" (1968). The numbers are those of JAX 0.11.
"""

from __future__ import annotations

import math
from typing import Final, Literal, TypeAlias

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import ChoiceError
from tinyjax.ir.dtypes import FLOAT32, FLOAT64, DType
from tinyjax.ir.shapes import Shape
from tinyjax.random.arguments import converted, halves, number
from tinyjax.random.drawing import fractions, gaussian
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

Method: TypeAlias = Literal["exact", "approximate"]

#: How much the shape is raised before the series is used.
_RAISED: Final = 4
#: For each power of a normal number over the root of the degrees of freedom, the factors of powers of their inverse.
_SERIES: Final = (
    (1.0, -0.2237368, -0.01513904),
    (0.4713941, 0.02607083, -0.008986007),
    (0.0001348028, 0.01128186, 0.02277679),
    (-0.008553069, -0.01153761, -0.01323293),
    (0.00312558, 0.005169654, -0.006950356),
    (-0.0008426812, 0.00253001, 0.001060438),
    (0.00009780499, -0.001450117, 0.001565326),
)
#: Up to this mean probabilities are summed, of this many counts.
_FEW: Final = 7.0
_COUNTS: Final = 20


def is_approximate(name: str, method: Method) -> bool:
    """Whether a sampler is asked for approximate numbers; a ChoiceError if it isn't said in these words."""
    given: object = method
    if given not in ("exact", "approximate"):
        raise ChoiceError(f"method argument to `{name}` must be 'exact' or 'approximate', got {given!r}")
    return given == "approximate"


def approximate_gamma(key: Array, a: ArrayLike, shape: Shape, dtype: DType, log_space: bool) -> Array:
    """Gamma numbers of shape a, or their logarithms."""
    within = FLOAT32 if dtype.itemsize < 4 else dtype
    small = tnp.broadcast_to(converted(a, within), shape)
    first, second = halves(key)
    large = small + number(_RAISED, within)
    base = tnp.log(large) + 3 * tnp.log(_cube_root(gaussian(first, shape, within), 2 * large))
    steps = tnp.reshape(tnp.arange(_RAISED, dtype=within), (_RAISED, *[1] * len(shape)))
    waits = -lax.log1p(-fractions(second, (_RAISED, *shape), within))
    logs = base - tnp.sum(waits / (small[None] + steps), 0)
    return converted(logs if log_space else lax.exp(logs), dtype)


def _cube_root(normal: Array, degrees: Array) -> Array:
    """The cube root of a chi-square number, divided by its degrees of freedom."""
    scaled, inverse = normal * lax.rsqrt(degrees), 1 / degrees
    found = number(0, normal.dtype)
    for constant, linear, quadratic in reversed(_SERIES):
        found = found * scaled + (constant + inverse * (linear + inverse * quadratic))
    return tnp.maximum(found, number(tnp.finfo(normal.dtype).tiny, normal.dtype))


def approximate_poisson(key: Array, lam: ArrayLike, shape: Shape, dtype: DType) -> Array:
    """Numbers of events of which lam are expected."""
    rate = as_array(lam)
    # In float32 not all counts above 2**24 exist.
    within = FLOAT64 if dtype.itemsize > 4 or rate.dtype == FLOAT64 else FLOAT32
    mean, normal = tnp.broadcast_to(converted(rate, within), shape), gaussian(key, shape, within)
    few = mean < _FEW
    found = tnp.where(few, _in_sums(normal, tnp.where(few, mean, 1)), _by_rank(normal, tnp.where(few, _FEW, mean)))
    return converted(found, dtype)


def _in_sums(normal: Array, mean: Array) -> Array:
    """The first count whose cumulative probability is that of the normal number."""
    rank = lax.erfc(normal * number(-math.sqrt(0.5), normal.dtype)) * 0.5
    probability = lax.exp(-mean)
    reached, found = probability, (probability < rank).astype(normal.dtype)
    for count in range(1, _COUNTS - 1):
        probability = probability * (mean / count)
        reached = reached + probability
        found = found + (reached < rank).astype(normal.dtype)
    return found


def _by_rank(normal: Array, mean: Array) -> Array:
    """The least count at which Peizer and Pratt's approximation has reached the normal number."""
    root = tnp.sqrt(mean)
    # The first terms of the inverse err by less than 1 around 0.6 above: three counts are tried.
    near = mean + root * normal - 2 / 3 + normal**2 / 6 + normal * (1 - normal**2) / (72 * root)
    middle = tnp.ceil(near + 0.6)
    least = middle + 1
    for count in (middle, middle - 1):
        reached = (count >= 0) & (_rank(tnp.maximum(count, 0), mean) >= normal)
        least = least - reached.astype(normal.dtype)
    return tnp.maximum(least, 0)


def _rank(count: Array, mean: Array) -> Array:
    """The normal number whose rank is about the probability of at most so many."""
    return (count - mean + 2 / 3 + 0.02 / (count + 1)) * tnp.sqrt((1 + _bend((count + 0.5) / mean)) / mean)


def _bend(y: Array) -> Array:
    """(1 - y**2 + 2 * y * log(y)) / (1 - y)**2, by its series where y is almost 1."""
    away = y - 1
    near = tnp.abs(away) < 0.25
    series = tnp.zeros_like(away)
    for power in range(9, 0, -1):
        series = away * (2 * (-1) ** power / ((power + 1) * (power + 2)) + series)
    far, distance = tnp.where(near, 2, y), tnp.where(near, 1, away)
    return tnp.where(near, series, (1 - far**2 + 2 * far * tnp.log(far)) / distance**2)
