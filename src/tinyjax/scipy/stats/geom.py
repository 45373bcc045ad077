"""The geometric distribution: how many trials it takes until one of probability p succeeds."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.special import entropies
from tinyjax.scipy.special.promoted import prepared_for_numbers
from tinyjax.scipy.stats.arguments import counted
from tinyjax.tracing.array import Array, ArrayLike


@prepared_for_numbers
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k, -inf where there is none.

    >>> logpmf(2, 0.25)
    Array(-1.67397643, dtype=float64, weak_type=True)
    """
    count, part = counted("geom.logpmf", k, loc, p)
    return tnp.where(count <= 0, -math.inf, entropies.xlog1py(count - 1, -part) + lax.log(part))


@prepared_for_numbers
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> pmf(2, 0.25)
    Array(0.1875, dtype=float64, weak_type=True)
    """
    return lax.exp(logpmf(k, p, loc))
