"""A step along a line that satisfies the strong Wolfe conditions.

J. Nocedal and S. J. Wright, "Numerical optimization" (2nd edition, 2006), algorithms 3.5 and 3.6, as one loop: the step
grows until an interval is known to contain a good one, and from then on the interval shrinks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.scipy.inner_products import real_inner
from tinyjax.tracing.array import Array

#: From a point to the value there and the gradient.
ValueAndGradient: TypeAlias = Callable[[Array], tuple[Array, Array]]
#: How much of the decrease that the slope promises there must be, and how much of the slope may be left.
_ENOUGH, _FLAT = 1e-4, 0.9


class Step(NamedTuple):
    """How far it goes, and the value and the slope there."""

    size: Array
    value: Array
    slope: Array


class Search(NamedTuple):
    """A step that was tried, and what is known: it is good if `found`, and functions were evaluated `trials` times."""

    size: Array
    value: Array
    gradient: Array
    found: Array
    trials: Array
    low: Step
    high: Step
    older: Step
    zooming: Array


def line_search(f: ValueAndGradient, x: Array, direction: Array, start: Step, first: Array, most: int) -> Search:
    """The search from x in this direction: `start` has the value and the slope there, `first` is the step to try first,
    and `most` the number of trials."""

    def trial(size: Array) -> tuple[Step, Array]:
        value, gradient = f(x + size * direction)
        return Step(size, value, real_inner(gradient, direction)), gradient

    def unfinished(s: Search) -> Array:
        return ~s.found & (s.trials < most)

    def advance(s: Search) -> Search:
        here, gradient = trial(s.size)
        bound = start.value + _ENOUGH * here.size * start.slope
        inside = s.zooming | (s.trials > 0)
        high = ~((here.value <= bound) & ~(inside & (here.value >= s.low.value)))
        found = ~high & (tnp.abs(here.slope) <= -_FLAT * start.slope)
        zooming = s.zooming | high | (here.slope >= 0)
        back = ~s.zooming | (here.slope * (s.high.size - s.low.size) >= 0)
        low = _chosen(high, s.low, here)
        upper = _chosen(high, here, _chosen(back, s.low, s.high))
        older = _chosen(high | back, s.high, s.low)
        size = tnp.where(zooming, _between(low, upper, older, s.zooming), 2 * here.size)
        kept = tnp.where(found, here.size, size)
        return Search(kept, here.value, gradient, found, s.trials + 1, low, upper, older, zooming)

    zero, no = tnp.zeros_like(start.value), tnp.asarray(False)
    begun = Step(zero, start.value, start.slope)
    count = tnp.zeros((), "int64")
    return lax.while_loop(
        unfinished, advance, Search(first, start.value, tnp.zeros_like(x), no, count, begun, begun, begun, no)
    )


def _chosen(which: Array, one: Step, other: Step) -> Step:
    return Step(*(tnp.where(which, a, b) for a, b in zip(one, other, strict=True)))


def _between(low: Step, high: Step, older: Step, twice: Array) -> Array:
    """The minimum of the cubic through three points (if `twice` is true, so that there are three), or of the parabola
    through two, or the middle: what lies well within the interval."""
    width = high.size - low.size
    third = older.size - low.size
    rises = high.value - low.value - low.slope * width, older.value - low.value - low.slope * third
    scale = width**2 * third**2 * (width - third)
    a = (third**2 * rises[0] - width**2 * rises[1]) / scale
    b = (width**3 * rises[1] - third**3 * rises[0]) / scale
    cubic = (-b + tnp.sqrt(b * b - 3 * a * low.slope)) / (3 * a)
    parabola = -low.slope * width**2 / (2 * rises[0])

    def well_within(step: Array, margin: float) -> Array:
        share = step / width
        return (share >= margin) & (share <= 1 - margin)

    step = tnp.where(well_within(parabola, 0.1), parabola, width / 2)
    return low.size + tnp.where(twice & well_within(cubic, 0.2), cubic, step)
