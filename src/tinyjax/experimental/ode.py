"""Solutions of ordinary differential equations: `odeint`, as `jax.experimental.ode` has it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import tree
from tinyjax.api.jit import jit
from tinyjax.api.vectorize import vmap
from tinyjax.control.carry import rearranged
from tinyjax.errors import InputError
from tinyjax.experimental.dormand_prince import OdeLimits
from tinyjax.experimental.trajectories import Trajectory
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOATS, INEXACT
from tinyjax.lax.bodies import stage
from tinyjax.tracebacks import filtered
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import check_callable, function_name

__all__ = ["odeint"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


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
    in reverse mode the adjoint equation is solved backwards, so memory doesn't grow with the number of steps; in
    forward mode the equation of the tangents is solved with this one. Both have derivatives again.

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
    state, times = tree.map(_inexact, y0), _strong(times)
    flat, unravel = tree.ravel(state)
    leaves, structure = tree.flatten(args)
    arrays = list(map(as_array, leaves))

    def dynamics(y: Array, time: Array, *leaves: Array) -> Array:
        own: tuple[Any, ...] = tree.unflatten(structure, leaves)
        slopes = tree.map(as_array, func(unravel(y), time, *own))
        if tree.structure(slopes) != tree.structure(state) or [one.shape for one in tree.leaves(slopes)] != [
            other.shape for other in tree.leaves(state)
        ]:
            _check_sizes(slopes, state)
        return tree.ravel(slopes)[0].astype(y.dtype)

    y = _strong(flat)
    types = [y.aval, ShapedArray((), times.aval.dtype), *(x.aval for x in arrays)]
    dynamics.__name__ = function_name(func)
    traced = stage("odeint", dynamics, tree.flatten((tuple(types), {}))[1], types)
    n, more = len(traced.captured), len(arrays)
    program = rearranged(traced.jaxpr, (n, n + 1, *range(n), *range(n + 2, n + 2 + more)))
    solve = Trajectory(program, times.shape[0], OdeLimits(rtol, atol, mxstep, hmax))
    found = jit(lambda *operands: bind(solve, *operands)[0])(y, times, *traced.captured, *arrays)
    return vmap(unravel)(found)


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
