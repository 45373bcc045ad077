"""What the first part of a divided program hands to the second: no more than the second part's outputs need."""

from __future__ import annotations

from itertools import compress
from typing import TypeVar

from tinyjax.contexts.partial_eval import Unfinished
from tinyjax.transforms.dce import swept

V = TypeVar("V")


def needed(later: Unfinished[V]) -> Unfinished[V]:
    """The staged program without equations and residuals that no output depends on. Its other inputs stay.

    { lambda ; a:f64[] b:f64[] c:f64[]. let d:f64[] = mul a c; e:f64[] = mul b c in (e,) }    # a and b are residuals
    { lambda ; a:f64[] b:f64[]. let c:f64[] = mul a b in (c,) }

    Derivatives of what is then rounded, compared, or made an index are such equations.
    """
    jaxpr, n = later.jaxpr, len(later.residuals)
    found = swept(jaxpr, (True,) * len(jaxpr.outvars), tuple([i >= n for i in range(len(jaxpr.invars))]))
    if found.jaxpr is jaxpr:
        return later
    return Unfinished(found.jaxpr, tuple(compress(later.residuals, found.used_inputs)))
