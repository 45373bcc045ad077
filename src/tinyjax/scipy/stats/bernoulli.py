"""The Bernoulli distribution: 1 with probability p, else 0."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special import entropies
from tinyjax.scipy.special.promoted import floats, prepared_for_numbers
from tinyjax.scipy.stats.arguments import counted
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k, -inf where there is none.

    >>> logpmf(1, 0.25)
    Array(-1.38629436, dtype=float64, weak_type=True)
    """
    count, part = counted("bernoulli.logpmf", k, loc, p)
    value = entropies.xlogy(count, part) + entropies.xlog1py(1 - count, -part)
    return tnp.where((count < 0) | (count > 1), -math.inf, value)


@prepared_for_numbers
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> pmf(1, 0.25)
    Array(0.25, dtype=float64, weak_type=True)
    """
    return lax.exp(logpmf(k, p, loc))


@prepared_for_numbers
def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """The probability of at most k.

    >>> cdf(1, 0.25)
    Array(1., dtype=float64, weak_type=True)
    """
    count, part = floats("bernoulli.cdf", k, p)
    value = tnp.where(count < 0, 0, tnp.where(count < 1, 1 - part, 1))
    return tnp.where(tnp.isnan(count) | ~((part >= 0) & (part <= 1)), math.nan, value)


@prepared_for_numbers
def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """The point below which the part q of the distribution is; nan unless that is between 0 and 1.

    >>> ppf(0.5, 0.25)
    Array(0., dtype=float64, weak_type=True)
    """
    level, part = floats("bernoulli.ppf", q, p)
    defined = (part >= 0) & (part <= 1) & (level >= 0) & (level <= 1)
    return tnp.where(defined, tnp.where(level <= 1 - part, 0, lax.full_like(part, 1)), math.nan)
