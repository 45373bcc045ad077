"""The binomial distribution of n trials, the probability of which has the beta distribution of shapes a and b."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special import gammas
from tinyjax.scipy.special.promoted import prepared_for_numbers
from tinyjax.scipy.stats.arguments import counted, outside
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k, -inf where there is none.

    >>> logpmf(2, 5, 2.0, 3.0)
    Array(-1.43508453, dtype=float64, weak_type=True)
    """
    count, trials, first, second = counted("betabinom.logpmf", tnp.floor(k), loc, n, a, b)
    within = (count >= 0) & (count <= trials)
    safe = tnp.where(within, count, 0)
    ways = -lax.log1p(trials) - gammas.betaln(trials - safe + 1, safe + 1)
    value = ways + gammas.betaln(safe + first, trials - safe + second) - gammas.betaln(first, second)
    value = tnp.where(within, value, outside(count, -math.inf))
    return tnp.where((trials < 0) | (first <= 0) | (second <= 0), math.nan, value)


@prepared_for_numbers
def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> pmf(2, 5, 2.0, 3.0)
    Array(0.23809524, dtype=float64, weak_type=True)
    """
    return lax.exp(logpmf(k, n, a, b, loc))
