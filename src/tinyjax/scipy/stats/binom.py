"""The binomial distribution: how many of n trials of probability p succeed."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special import entropies
from tinyjax.scipy.special.promoted import prepared_for_numbers
from tinyjax.scipy.stats.arguments import counted, outside
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k, -inf where there is none.

    >>> logpmf(2, 5, 0.25)
    Array(-1.33304985, dtype=float64, weak_type=True)
    """
    count, trials, part = counted("binom.logpmf", k, loc, n, p)
    within = (count >= 0) & (count < trials + 1)
    safe = tnp.where(within, count, 0)
    ways = lax.lgamma(trials + 1) - lax.lgamma(safe + 1) - lax.lgamma(trials - safe + 1)
    value = ways + entropies.xlogy(safe, part) + entropies.xlog1py(trials - safe, -part)
    return tnp.where(within, value, outside(count, -math.inf))


@prepared_for_numbers
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> pmf(2, 5, 0.25)
    Array(0.26367187, dtype=float64, weak_type=True)
    """
    return lax.exp(logpmf(k, n, p, loc))
