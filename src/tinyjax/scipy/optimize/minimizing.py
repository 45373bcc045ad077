"""`minimize`, by quasi-Newton methods: the curvature is learnt from the gradients.

J. Nocedal and S. J. Wright, "Numerical optimization" (2nd edition, 2006), algorithms 6.1 (BFGS) and 7.5 (with limited
memory).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.values_and_gradients import value_and_grad
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.errors import ChoiceError, InputError, ShapeError
from tinyjax.ir.dtypes import COMPLEXES
from tinyjax.scipy.inner_products import real_inner
from tinyjax.scipy.optimize.line_search import Step, ValueAndGradient, line_search
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.functions import check_callable

_LIMITED: Final = "l-bfgs-experimental-do-not-rely-on-this"


class OptimizeResults(NamedTuple):
    """What `minimize` found: the point, whether the gradient is as small as it was to be, and how it was found.

    `status` is 0 for success, 1 if there were too many iterations, 2 or 3 too many evaluations of the function or of
    the gradient, 4 if a step changed too little, 5 if no step along a line was good enough. `hess_inv` is the estimate
    of the inverse Hessian, None for limited memory.
    """

    x: Array
    success: Array
    status: Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: Array
    njev: Array
    nit: Array


def minimize(
    fun: Callable[..., ArrayLike],
    x0: ArrayLike,
    args: tuple[object, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A local minimum of `fun(x, *args)`, a number, over vectors x, from x0 on.

    `method` "BFGS" has the options `maxiter`, `norm` (of the gradient, whose limit is `gtol`, or `tol`) and
    `line_search_maxiter`; "l-bfgs-experimental-do-not-rely-on-this", which takes complex vectors too, has `maxiter`,
    `norm`, `maxcor`, `ftol`, `gtol`, `maxfun`, `maxgrad` and `maxls`. It can be compiled, and mapped over batches.

    Raises:
      ChoiceError: there is no such method, or it has no such option.
      ShapeError: x0 is no vector.
      InputError: the arguments are no tuple.

    >>> import numpy as np
    >>> minimize(
    ...     lambda x, y: ((x - y) ** 2).sum(), np.zeros(2), (np.array([1.0, 2.0]),), method="BFGS"
    ... ).x.round(6)
    Array([1., 2.], dtype=float64)
    """
    check_callable("minimize", fun)
    if not isinstance(args, tuple):
        raise InputError(f"minimize: the args argument must be a tuple, got {args!r}. Did you mean ({args!r},)?")
    (start,) = promote_inexact(as_array(x0))
    if start.ndim != 1:
        raise ShapeError(
            f"minimize: x0 must be a vector, got shape {start.shape}; see tinyjax.flatten_util.ravel_pytree"
        )
    solvers: Mapping[str, Callable[..., OptimizeResults]] = {"bfgs": _bfgs, _LIMITED: _limited}
    called: object = method
    solver = solvers.get(called.lower()) if isinstance(called, str) else None
    if solver is None:
        raise ChoiceError(f"minimize: method is 'BFGS' or {_LIMITED!r}, got {method!r}")
    settings: object = options
    if not isinstance(settings, Mapping | None):
        raise InputError(f"minimize: options are a dictionary, got {settings!r}")
    given = dict(settings or {})
    if tol is not None:
        given.setdefault("gtol", tol)
    for name, value in given.items():
        if name != "norm" and value is not None and as_array(value).ndim:
            raise ShapeError(f"minimize: {name} is a number, got {value!r}")
    unknown = given.keys() - _OPTIONS[method.lower()]
    if unknown:
        raise ChoiceError(f"minimize: {method} has no option {', '.join(map(repr, sorted(unknown)))}")
    differentiated = value_and_grad(lambda x: fun(x, *args))

    def value_and_gradient(x: Array) -> tuple[Array, Array]:
        value, gradient = differentiated(x)
        return as_array(value), gradient.conj()  # in whose direction the value increases, if x is complex

    return solver(value_and_gradient, start, **given)


_OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "bfgs": frozenset({"maxiter", "norm", "gtol", "line_search_maxiter"}),
    _LIMITED: frozenset({"maxiter", "norm", "maxcor", "ftol", "gtol", "maxfun", "maxgrad", "maxls"}),
}
#: What has been learnt about the curvature: the inverse Hessian, or the last steps and changes of the gradient.
_Memory: TypeAlias = tuple[Array, ...]


class _State(NamedTuple):
    x: Array
    value: Array
    gradient: Array
    memory: _Memory
    last: Array  # the value before the last step
    iterations: Array
    evaluations: Array
    status: Array  # -1 while it goes on


def _bfgs(
    f: ValueAndGradient,
    x0: Array,
    maxiter: int | None = None,
    norm: float = math.inf,
    gtol: float = 1e-5,
    line_search_maxiter: int = 10,
) -> OptimizeResults:
    if x0.dtype in COMPLEXES:
        raise InputError(f"minimize: BFGS is for real vectors, got {x0.dtype}; use method={_LIMITED!r}")
    n = x0.shape[0]

    def learn(memory: _Memory, step: Array, change: Array) -> _Memory:
        (inverse,) = memory
        rho = 1 / real_inner(change, step)
        left = tnp.eye(n, dtype=x0.dtype) - rho * tnp.outer(step, change)
        found = left @ inverse @ left.T + rho * tnp.outer(step, step)
        return (tnp.where(tnp.isfinite(rho), found, inverse),)

    limit = 200 * n if maxiter is None else maxiter
    state = _minimized(
        f,
        x0,
        (tnp.eye(n, dtype=x0.dtype),),
        lambda memory, gradient: -(memory[0] @ gradient),
        learn,
        lambda s: tnp.where(s.iterations >= limit, 1, -1),
        norm,
        gtol,
        2 * line_search_maxiter,
    )
    return _results(state, state.memory[0])


def _limited(
    f: ValueAndGradient,
    x0: Array,
    maxiter: int | None = None,
    norm: float = math.inf,
    maxcor: int = 10,
    ftol: float = 2.220446049250313e-09,
    gtol: float = 1e-05,
    maxfun: float | None = None,
    maxgrad: float | None = None,
    maxls: int = 20,
) -> OptimizeResults:
    n = x0.shape[0]
    none = tnp.zeros((maxcor, n), x0.dtype)

    def learn(memory: _Memory, step: Array, change: Array) -> _Memory:
        """The latest comes last; a step without curvature is left out."""
        later = tuple(tnp.concatenate([kept[1:], new[None]]) for kept, new in zip(memory, (step, change), strict=True))
        curved = real_inner(step, change) > 0
        return tuple(tnp.where(curved, new, kept) for new, kept in zip(later, memory, strict=True))

    def direction(memory: _Memory, gradient: Array) -> Array:
        steps, changes = memory
        products = real_inner(steps, changes, 1)
        rhos = tnp.where(products > 0, 1 / tnp.where(products > 0, products, 1), 0)  # what isn't there yet is zero

        def back(q: Array, kept: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            step, change, rho = kept
            share = rho * real_inner(step, q)
            return q - share * change, share

        def forth(r: Array, kept: tuple[Array, Array, Array, Array]) -> tuple[Array, None]:
            step, change, rho, share = kept
            return r + step * (share - rho * real_inner(change, r)), None

        q, shares = lax.scan(back, gradient, (steps, changes, rhos), reverse=True)
        size = real_inner(changes[-1], changes[-1])
        scale = tnp.where(size > 0, products[-1] / tnp.where(size > 0, size, 1), 1)
        r, _ = lax.scan(forth, scale * q, (steps, changes, rhos, shares))
        return -r

    most = {1: math.inf if maxiter is None else maxiter, 2: maxfun or math.inf, 3: maxgrad or math.inf}

    def ended(s: _State) -> Array:
        size = tnp.maximum(tnp.maximum(tnp.abs(s.value), tnp.abs(s.last)), 1)
        status = tnp.where((s.iterations > 0) & (s.last - s.value <= ftol * size), 4, -1)
        for code, count in ((3, s.evaluations), (2, s.evaluations), (1, s.iterations)):
            status = tnp.where(count >= most[code], code, status)
        return status

    return _results(_minimized(f, x0, (none, none), direction, learn, ended, norm, gtol, maxls), None)


def _minimized(
    f: ValueAndGradient,
    x0: Array,
    memory: _Memory,
    direction: Callable[[_Memory, Array], Array],
    learn: Callable[[_Memory, Array, Array], _Memory],
    ended: Callable[[_State], Array],
    norm: float,
    gtol: float,
    trials: int,
) -> _State:
    """From the direction that `memory` makes of the gradient one step after the other, of which `memory` learns."""

    def status(s: _State) -> _State:
        small = _norm(s.gradient, norm) < gtol
        return s._replace(status=tnp.where(small, 0, ended(s)).astype("int64"))

    def advance(s: _State) -> _State:
        along = direction(s.memory, s.gradient)
        slope = real_inner(s.gradient, along)
        guess = 2.02 * (s.value - s.last) / slope
        first = tnp.where(guess > 0, tnp.minimum(guess, 1), 1)
        search = line_search(f, s.x, along, Step(tnp.zeros_like(slope), s.value, slope), first, trials)
        step = search.size * along
        done = s.evaluations + search.trials
        found = _State(
            s.x + step,
            search.value,
            search.gradient,
            learn(s.memory, step, search.gradient - s.gradient),
            s.value,
            s.iterations + 1,
            done,
            s.status,
        )
        stuck = s._replace(evaluations=done, status=tnp.asarray(5, "int64"))
        return _either(search.found, status(found), stuck)

    value, gradient = f(x0)
    count = tnp.zeros((), "int64")
    before = value + tnp.sqrt(real_inner(gradient, gradient)) / 2  # so that the first step has about length 1
    begun = _State(x0, value, gradient, memory, before, count, count + 1, count)
    return lax.while_loop(lambda s: s.status == -1, advance, status(begun))


def _either(which: Array, one: _State, other: _State) -> _State:
    memory = tuple(tnp.where(which, a, b) for a, b in zip(one.memory, other.memory, strict=True))
    rest = (tnp.where(which, a, b) for a, b in zip(one[:3] + one[4:], other[:3] + other[4:], strict=True))
    x, value, gradient, *counts = rest
    return _State(x, value, gradient, memory, *counts)


def _norm(x: Array, order: float) -> Array:
    sizes = tnp.abs(x)
    return tnp.max(sizes, initial=0) if order == math.inf else tnp.sum(sizes**order) ** (1 / order)


def _results(s: _State, inverse: Array | None) -> OptimizeResults:
    counts = s.evaluations, s.evaluations, s.iterations
    return OptimizeResults(s.x, s.status == 0, s.status, s.value, s.gradient.conj(), inverse, *counts)
