"""The Poisson distribution of mean mu."""

from __future__ import annotations

import math
from typing import Final

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special import entropies
from tinyjax.scipy.special.promoted import floats, prepared_for_numbers
from tinyjax.scipy.stats.arguments import counted
from tinyjax.tracing.array import Array, ArrayLike

#: From which mean on the entropy is an asymptotic series; below, a sum.
_LARGE: Final = 100


@prepared_for_numbers
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k, -inf where there is none.

    >>> logpmf(2, 1.5)
    Array(-1.38221696, dtype=float64, weak_type=True)
    """
    count, mean = counted("poisson.logpmf", k, loc, mu)
    below = count < 0
    safe = tnp.where(below, 0, count)
    value = entropies.xlogy(safe, mean) - lax.lgamma(safe + 1) - mean
    return tnp.where(below | (lax.round(count) != count), -math.inf, value)


@prepared_for_numbers
def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> pmf(2, 1.5)
    Array(0.25102143, dtype=float64, weak_type=True)
    """
    return lax.exp(logpmf(k, mu, loc))


@prepared_for_numbers
def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of at most k.

    >>> cdf(2, 1.5)
    Array(0.80884683, dtype=float64, weak_type=True)
    """
    count, mean = counted("poisson.cdf", k, loc, mu)
    below = count < 0
    return tnp.where(below, 0, lax.igammac(lax.floor(1 + tnp.where(below, 0, count)), mean))


@prepared_for_numbers
def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The entropy, in natural units.

    >>> entropy(1.5)
    Array(1.53940465, dtype=float64)
    """
    mean, place = floats("poisson.entropy", mu, loc)
    mean = tnp.broadcast_to(mean, tnp.broadcast_shapes(mean.shape, place.shape))
    small, count = tnp.where((mean < _LARGE) & (mean != 0), mean, 1), tnp.arange(3 * _LARGE, dtype=mean.dtype)
    logarithm = logpmf(count, small[..., None])  # finite, also where the probability is no number but zero
    total = tnp.where(mean == 0, entropies.entr(mean), -tnp.sum(lax.exp(logarithm) * logarithm, -1))
    far = tnp.where(mean < _LARGE, _LARGE, mean)
    series = (1 + lax.log(2 * math.pi * far)) / 2 - (1 / 12 + (1 / 24 + 19 / 360 / far) / far) / far
    return tnp.where(mean < _LARGE, total, series)
