"""Steps along the solution of an ordinary differential equation: the method of Dormand and Prince, of order 5."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, final

from attrs import frozen

import tinyjax.numpy as tnp
from tinyjax import lax, tree
from tinyjax.tracing.array import Array

#: The method of Dormand and Prince, of order 5 with an estimate of order 4: at which times it evaluates, what it adds
#: up to get there (the last row is the step itself), and what differs from the step of order 4.
_TIMES: Final = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES: Final = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR: Final = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
#: The same for the middle of a step, of order 4 (Shampine 1986).
_MIDDLE: Final = (
    6025192743 / 60171106304,
    0.0,
    51252292925 / 130801643596,
    -2691868925 / 90256657458,
    187940372067 / 3189068634112,
    -1776094331 / 39487288512,
    11237099 / 470086768,
)
#: A step that is as large as the error allows is made a bit smaller; how much smaller or larger the next one may be.
_SAFETY: Final = 0.9
_LEAST, _GREATEST = 0.2, 10.0

#: The derivative of a flat state, at a time.
Dynamics = Callable[[Array, Array], Array]


@final
@frozen
class OdeLimits:
    """The errors allowed in a step, relative and absolute, how many steps are tried, and how large they are."""

    rtol: float
    atol: float
    mxstep: float
    hmax: float


class _Step(NamedTuple):
    """Where the solver is, and the step that has brought it there: by what it can be interpolated."""

    tried: Array
    y: Array
    slope: Array
    time: Array
    size: Array
    #: Of the last step: where it began, its values there and in the middle, its first slope, and its size.
    start: Array
    first: Array
    middle: Array
    first_slope: Array


def solution(f: Dynamics, y0: Array, times: Array, limits: OdeLimits) -> Array:
    """The states at all times."""
    slope = f(y0, times[0])
    size = tnp.clip(_first_size(f, y0, slope, times[0], limits), 0.0, limits.hmax).astype(times.dtype)
    begin = _Step(tnp.asarray(0), y0, slope, times[0], size, times[0], y0, y0, slope)

    def until(step: _Step, time: Array) -> tuple[_Step, Array]:
        def going(step: _Step) -> Array:
            more = (step.time < time) & (step.size > 0)
            return more if math.isinf(limits.mxstep) else more & (step.tried < limits.mxstep)

        step = lax.while_loop(going, lambda step: _stepped(f, step, limits), step._replace(tried=tnp.asarray(0)))
        return step, _interpolated(step, time)

    return tnp.concatenate([y0[None], lax.scan(until, begin, times[1:])[1]])


def _sum(weights: Sequence[float], slopes: Sequence[Array]) -> Array:
    terms = [slope * weight for weight, slope in zip(weights, slopes, strict=True) if weight]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _stepped(f: Dynamics, step: _Step, limits: OdeLimits) -> _Step:
    """After a step that was tried: further, if the error is small enough; with another size in any case."""
    y, time, size = step.y, step.time, step.size
    h = size.astype(y.dtype)
    slopes, arrived = [step.slope], y
    for at, weights in zip(_TIMES, _STAGES, strict=True):
        arrived = y + h * _sum(weights, slopes)
        slopes.append(f(arrived, time + size * at))
    scale = limits.atol + limits.rtol * tnp.maximum(tnp.abs(y), tnp.abs(arrived))
    error = tnp.sqrt(tnp.mean(tnp.abs(h * _sum(_ERROR, slopes) / scale) ** 2)).astype(size.dtype)
    least = tnp.where(error < 1, 1.0, _LEAST)
    factor = tnp.where(error == 0, _GREATEST, tnp.clip(_SAFETY * error ** (-1 / 5), least, _GREATEST))
    next_size = tnp.clip(size * factor, 0.0, limits.hmax).astype(size.dtype)
    taken = step._replace(
        y=arrived, slope=slopes[-1], time=time + size, start=time, first=y, middle=y + h * _sum(_MIDDLE, slopes),
        first_slope=step.slope,
    )  # fmt: skip
    chosen = tree.map(lambda new, old: tnp.where(error <= 1, new, old), taken, step)
    return chosen._replace(tried=step.tried + 1, size=next_size)


def _interpolated(step: _Step, time: Array) -> Array:
    """The state within the last step: by the polynomial through both ends, with their slopes, and the middle."""
    size = step.time - step.start
    h = size.astype(step.y.dtype)
    s = tnp.where(size > 0, (time - step.start) / tnp.where(size > 0, size, 1.0), 0.0).astype(step.y.dtype)
    first, last = h * step.first_slope, h * step.slope
    rise = step.y - step.first - first
    turn = last - first
    bulge = 16.0 * (step.middle - step.first - first / 2)
    fourth = bulge - 8.0 * rise + 2.0 * turn
    third = turn - 2.0 * rise - 2.0 * fourth
    second = rise - third - fourth
    return step.first + s * (first + s * (second + s * (third + s * fourth)))


def _first_size(f: Dynamics, y: Array, slope: Array, time: Array, limits: OdeLimits) -> Array:
    """A first size for a method whose error is of order 5 (Hairer, Nørsett and Wanner, II.4)."""

    def norm(x: Array) -> Array:
        return tnp.linalg.norm(x / (limits.atol + limits.rtol * tnp.abs(y)))

    value, rise = norm(y), norm(slope)
    small = (value < 1e-5) | (rise < 1e-5)
    guess = tnp.where(small, 1e-6, 0.01 * value / tnp.where(small, 1.0, rise)).astype(time.dtype)
    after = f(y + guess.astype(y.dtype) * slope, time + guess)
    bend = norm(after - slope) / guess
    largest = tnp.maximum(rise, bend)
    flat = largest <= 1e-15
    size = tnp.where(flat, tnp.maximum(1e-6, guess * 1e-3), (0.01 / tnp.where(flat, 1.0, largest)) ** (1 / 5))
    return tnp.minimum(100.0 * guess, size)
