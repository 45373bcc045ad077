"""The multinomial distribution: how often each of several outcomes of probabilities p is seen in n trials."""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.errors import TypingError
from tinyjax.ir.dtypes import INTEGERS
from tinyjax.scipy.special import entropies
from tinyjax.scipy.special.promoted import prepared_for_numbers
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


@prepared_for_numbers
def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability of the integers along the last axis of x; -inf where they don't add up to n.

    Raises:
      TypingError: x or n are no integers.

    >>> import numpy as np
    >>> logpmf(np.array([1, 2]), 3, np.array([0.25, 0.75]))
    Array(-0.86304622, dtype=float64)
    """
    counts, trials = as_array(x), as_array(n)
    if not {counts.dtype, trials.dtype} <= INTEGERS:
        raise TypingError(f"multinomial: x and n are integers, got {counts.aval} and {trials.aval}")
    (parts,) = promote_inexact(as_array(p))
    seen, total = tnp.astype(counts, parts.dtype), tnp.astype(trials, parts.dtype)
    value = lax.lgamma(total + 1) + tnp.sum(entropies.xlogy(seen, parts) - lax.lgamma(seen + 1), -1)
    return tnp.where(tnp.sum(counts, -1) == trials, value, -math.inf)


@prepared_for_numbers
def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability of x.

    >>> import numpy as np
    >>> pmf(np.array([1, 2]), 3, np.array([0.25, 0.75]))
    Array(0.421875, dtype=float64)
    """
    return lax.exp(logpmf(x, n, p))
