"""The negative binomial distribution: how many trials fail until n of probability p have succeeded."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special import entropies
from tinyjax.scipy.special.promoted import prepared_for_numbers
from tinyjax.scipy.stats.arguments import counted
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k, -inf where there is none.

    >>> logpmf(2, 3, 0.25)
    Array(-2.94248776, dtype=float64, weak_type=True)
    """
    count, wanted, part = counted("nbinom.logpmf", k, loc, n, p)
    safe = tnp.where(count < 0, 0, count)
    ways = lax.lgamma(safe + wanted) - lax.lgamma(wanted) - lax.lgamma(safe + 1)
    value = ways + entropies.xlogy(wanted, part) + entropies.xlogy(safe, 1 - part)
    return tnp.where(count < 0, -math.inf, value)


@prepared_for_numbers
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> pmf(2, 3, 0.25)
    Array(0.05273438, dtype=float64, weak_type=True)
    """
    return lax.exp(logpmf(k, n, p, loc))
