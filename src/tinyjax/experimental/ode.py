"""Solutions of ordinary differential equations: `odeint`, as `jax.experimental.ode` has it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax, tree
from tinyjax.api.autodiff import vjp
from tinyjax.api.closures import closure_convert
from tinyjax.api.jit import jit
from tinyjax.api.rules.custom_vjp import custom_vjp
from tinyjax.api.vectorize import vmap
from tinyjax.errors import InputError
from tinyjax.ir.dtypes import FLOATS, INEXACT
from tinyjax.tracebacks import filtered
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.functions import check_callable

__all__ = ["odeint"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


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


class _Limits(NamedTuple):
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


@filtered
def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: ArrayLike,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = math.inf,
    hmax: float = math.inf,
) -> Any:
    """The solution of `dy/dt = func(y, t, *args)` at the times `t`, with `y = y0` at the first of them.

    Steps are those of Dormand and Prince, as large as the tolerances allow. States are trees of floats or complex
    numbers; each leaf of the result has a new first axis, as long as `t`. The derivative is that of the exact solution:
    the adjoint equation is solved backwards, so memory doesn't grow with the number of steps. It is for reverse mode;
    for second derivatives, differentiate the gradient in forward mode, as `hessian` does.

    Args:
      func: takes a state, a time and `args`, and returns the derivative of the state, a tree like it; for a vector, a
        list of its elements will do. It may close over traced values.
      y0: the state at the first time.
      t: times in increasing order, as an array of floats.
      args: trees of arrays.
      rtol: the error allowed in a step, relative to the state.
      atol: and the absolute one.
      mxstep: how many steps are made at most between two times.
      hmax: how large a step is at most.

    Raises:
      InputError: a time or a state isn't what it must be.

    >>> import tinyjax as tj
    >>> ys = odeint(lambda y, t, rate: -rate * y, 1.0, np.linspace(0.0, 1.0, 3), 2.0)
    >>> bool(tnp.allclose(ys, tnp.exp(-2.0 * np.linspace(0.0, 1.0, 3))))
    True
    >>> slope = tj.grad(
    ...     lambda rate: odeint(lambda y, t, rate: -rate * y, 1.0, np.array([0.0, 1.0]), rate)[-1]
    ... )(2.0)
    >>> bool(tnp.allclose(slope, -tnp.exp(-2.0)))
    True
    """
    check_callable("odeint", func)
    times = as_array(t)
    if times.aval.dtype not in FLOATS or times.aval.ndim != 1 or times.aval.shape[0] < 1:
        raise InputError(f"odeint: t must be a vector of floats, with one time at least, got {times.aval}")
    state = tree.map(_inexact, y0)
    times = _strong(times)
    first = tree.map(lambda leaf: leaf[0], times)
    converted, values = closure_convert(func, state, first, *args)
    slopes = tree.map(as_array, converted(state, first, *args, *values))
    if tree.structure(slopes) != tree.structure(state) or [one.shape for one in tree.leaves(slopes)] != [
        other.shape for other in tree.leaves(state)
    ]:
        _check_sizes(slopes, state)
    flat, unravel = tree.ravel(state)
    leaves, structure = tree.flatten((args, tuple(values)))
    arrays = list(map(as_array, leaves))
    moving = [array for array in arrays if array.aval.dtype in INEXACT]
    fixed = [array for array in arrays if array.aval.dtype not in INEXACT]

    def solved(flat: Array, times: Array, moving: Sequence[Array], fixed: Sequence[Array]) -> Array:
        def dynamics(y: Array, time: Array, moving: Sequence[Array]) -> Array:
            given, others = iter(moving), iter(fixed)
            merged = [next(given) if array.aval.dtype in INEXACT else next(others) for array in arrays]
            own, more = tree.unflatten(structure, merged)
            return tree.ravel(converted(unravel(y), time, *own, *more))[0].astype(y.dtype)

        return _differentiable(jit(dynamics), _Limits(rtol, atol, mxstep, hmax))(flat, times, moving)

    return vmap(unravel)(jit(solved)(_strong(flat), times, moving, fixed))


def _check_sizes(slopes: Any, state: Any) -> None:
    """An InputError unless one of both is a vector, the other as many scalars: `[y[1], -y[0]]` is an array."""
    for one, other in ((slopes, state), (state, slopes)):
        parts = tree.leaves(other)
        if isinstance(one, Array) and one.shape == (len(parts),) and not any(part.ndim for part in parts):
            return
    raise InputError(
        f"odeint: func must return a tree like the state, {tree.map(_type_of, state)}, got {tree.map(_type_of, slopes)}"
    )


def _inexact(leaf: Any) -> Array:
    array = as_array(leaf)
    return array if array.aval.dtype in INEXACT else array.astype(np.dtype(np.float64))


def _strong(array: Array) -> Array:
    """The array with a type of its own, which loops keep."""
    return tnp.asarray(array, dtype=array.aval.dtype)


def _type_of(array: Array) -> str:
    return str(array.aval)


def _differentiable(
    dynamics: Callable[[Array, Array, Sequence[Array]], Array], limits: _Limits
) -> Callable[[Array, Array, Sequence[Array]], Array]:
    """The solver for these dynamics, whose derivative is the solution of the adjoint equation."""

    def solution(y0: Array, times: Array, args: Sequence[Array]) -> Array:
        return _solution(lambda y, time: dynamics(y, time, args), y0, times, limits)

    solve = custom_vjp(solution)

    def forward(y0: Array, times: Array, args: Sequence[Array]) -> tuple[Array, Any]:
        ys = solution(y0, times, args)  # which forward mode may go through
        return ys, (ys, times, args)

    def backward(residuals: Any, ct: Array) -> tuple[Array, Array, Sequence[Array]]:
        ys, times, args = residuals

        def adjoint(state: Any, reversed_time: Array, args: Sequence[Array]) -> Any:
            """The state, back in time, and the cotangents of state, time and arguments."""
            y, y_ct, _, _ = state
            slope, pull = vjp(dynamics, y, -reversed_time, args)
            return (-slope, *pull(y_ct))

        def back(carry: Any, i: Array) -> tuple[Any, Array]:
            y_ct, start_ct, args_ct = carry
            # Moving the time of this result moves the result along its slope; and the way back begins elsewhere.
            moved = tnp.real(tnp.sum(dynamics(ys[i], times[i], args) * ct[i])).astype(times.dtype)
            state = ys[i], y_ct, start_ct - moved, args_ct
            span = tnp.stack([-times[i], -times[i - 1]])
            flat, unravel = tree.ravel(state)

            def flat_adjoint(flat: Array, time: Array) -> Array:
                return tree.ravel(adjoint(unravel(flat), time, args))[0]

            # Without a rule of its own: one for each order would be a program without end.
            found = _solution(flat_adjoint, _strong(flat), span, limits)[1]
            _, y_ct, start_ct, args_ct = unravel(found)
            return (y_ct + ct[i - 1], start_ct, args_ct), moved

        zero = tnp.zeros((), times.dtype)
        carry = ct[-1], zero, tree.map(lambda x: tnp.zeros(x.shape, x.dtype), args)
        (y_ct, start_ct, args_ct), moved = lax.scan(back, carry, tnp.arange(1, len(times)), reverse=True)
        return y_ct, tnp.concatenate([start_ct[None], moved]), args_ct

    solve.defvjp(forward, backward)
    return solve


def _solution(f: Dynamics, y0: Array, times: Array, limits: _Limits) -> Array:
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


def _stepped(f: Dynamics, step: _Step, limits: _Limits) -> _Step:
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


def _first_size(f: Dynamics, y: Array, slope: Array, time: Array, limits: _Limits) -> Array:
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
