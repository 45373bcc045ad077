"""Optimizers for examples, as `jax.example_libraries.optimizers` has them: three functions each.

`init(params)` makes a state, `update(i, gradients, state)` gives that after step i, `params_of(state)` the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce, wraps
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar, final

import tinyjax.numpy as tnp
from tinyjax import tree
from tinyjax.errors import InputError, TreeError
from tinyjax.example_libraries.arguments import checked
from tinyjax.example_libraries.schedules import (
    Number,
    Schedule,
    StepSize,
    constant,
    exponential_decay,
    inverse_time_decay,
    make_schedule,
    piecewise_constant,
    polynomial_decay,
)
from tinyjax.tracebacks import filtered
from tinyjax.tracing.array import Array
from tinyjax.tree_util import register_pytree_node

__all__ = [
    "JoinPoint", "Optimizer", "OptimizerState", "Schedule", "adagrad", "adam", "adamax", "clip_grads", "constant",
    "exponential_decay", "inverse_time_decay", "l2_norm", "make_schedule", "momentum", "nesterov", "optimizer",
    "pack_optimizer_state", "piecewise_constant", "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3",
    "unpack_optimizer_state",
]  # fmt: skip


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


P = ParamSpec("P")
Pair: TypeAlias = tuple[Array, Array]
Three: TypeAlias = tuple[Array, Array, Array]
S = TypeVar("S")
#: For one array: from it to its state, from step, gradient and state to the next state, and from a state to the array.
Rules: TypeAlias = tuple[Callable[[Array], S], Callable[[Any, Array, S], S], Callable[[S], Array]]


class OptimizerState(NamedTuple):
    """The states of all parameters: for each, the leaves of its state; and the trees that these make."""

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda trees, states: OptimizerState(states[0], *trees),
)


class Optimizer(NamedTuple):
    """What an optimizer is: see above."""

    init_fn: Callable[..., Any]
    update_fn: Callable[..., Any]
    params_fn: Callable[..., Any]


def optimizer(opt_maker: Callable[P, Rules[Any]]) -> Callable[P, Optimizer]:
    """Of a function that makes rules for one array, one that makes an optimizer of trees. A decorator.

    >>> @optimizer
    ... def descent(step_size: float):
    ...     return (lambda x: x), (lambda i, g, x: x - step_size * g), (lambda x: x)
    >>> init, update, params = descent(0.5)
    >>> params(update(0, {"w": tnp.ones(2)}, init({"w": tnp.ones(2)})))
    {'w': Array([0.5, 0.5], dtype=float64)}
    """

    rules = checked(opt_maker)

    @wraps(opt_maker)
    def make(*args: P.args, **kwargs: P.kwargs) -> Optimizer:
        init, update, params = rules(*args, **kwargs)

        def init_tree(values: Any) -> OptimizerState:
            leaves, structure = tree.flatten(values)
            return _packed([init(tnp.asarray(leaf)) for leaf in leaves], structure)

        def update_tree(i: Any, gradients: Any, state: OptimizerState) -> OptimizerState:
            leaves, structure = tree.flatten(gradients)
            _check_state(state)
            if structure != state.tree_def:
                raise TreeError(
                    f"the gradients are a tree {structure}, but the parameters, for which the state was made, are "
                    f"{state.tree_def}. Pass a gradient for each parameter."
                )
            found = _packed(list(map(partial(update, i), leaves, _states(state))), structure)
            for new, old in zip(found.subtree_defs, state.subtree_defs, strict=True):
                if new != old:
                    raise TreeError(f"the update of an optimizer returns the tree {new} for the state {old}")
            return found

        def params_tree(state: OptimizerState) -> Any:
            _check_state(state)
            return tree.unflatten(state.tree_def, list(map(params, _states(state))))

        return Optimizer(*[filtered(function, says=True) for function in (init_tree, update_tree, params_tree)])

    return make


def _check_state(state: object) -> None:
    if not isinstance(state, OptimizerState):
        raise InputError(f"the state of an optimizer is what its init_fn and update_fn return, got {state!r}")


def _packed(states: Sequence[Any], structure: Any) -> OptimizerState:
    pairs = [tree.flatten(state) for state in states]
    return OptimizerState([leaves for leaves, _ in pairs], structure, tuple([each for _, each in pairs]))


def _states(state: OptimizerState) -> list[Any]:
    return list(map(tree.unflatten, state.subtree_defs, state.packed_state))


def _first(state: tuple[Array, ...]) -> Array:
    return state[0]


# The optimizers.


@optimizer
def sgd(step_size: StepSize) -> Rules[Array]:
    """Stochastic gradient descent.

    >>> init, update, params = sgd(0.1)
    >>> params(update(0, tnp.ones(2), init(tnp.ones(2))))
    Array([0.9, 0.9], dtype=float64)
    """
    size = make_schedule(step_size)
    return (lambda x: x), (lambda i, g, x: x - size(i) * g), (lambda x: x)


@optimizer
def momentum(step_size: StepSize, mass: Number) -> Rules[Pair]:
    """Gradient descent of a body with a mass: a step is the gradient, and `mass` of the step before.

    >>> init, update, params = momentum(0.1, mass=0.9)
    >>> params(update(0, tnp.ones(2), init(tnp.ones(2)))).round(2)
    Array([0.9, 0.9], dtype=float64)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Array, state: Pair) -> Pair:
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * velocity, velocity

    return _with_zeros_2, update, _first


@optimizer
def nesterov(step_size: StepSize, mass: Number) -> Rules[Pair]:
    """Nesterov's momentum: the gradient counts where the step leads to.

    >>> init, update, params = nesterov(0.1, mass=0.9)
    >>> params(update(0, tnp.ones(2), init(tnp.ones(2)))).round(2)
    Array([0.81, 0.81], dtype=float64)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Array, state: Pair) -> Pair:
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * (mass * velocity + g), velocity

    return _with_zeros_2, update, _first


@optimizer
def adagrad(step_size: StepSize, momentum: Number = 0.9) -> Rules[Three]:
    """Adagrad (Duchi, Hazan and Singer 2011), with momentum.

    >>> init, update, params = adagrad(0.1)
    >>> params(update(0, tnp.ones(2), init(tnp.ones(2)))).round(2)
    Array([0.99, 0.99], dtype=float64)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Array, state: Three) -> Three:
        x, squares, mean = state
        squares = squares + tnp.square(g)
        mean = (1.0 - momentum) * (g * _inverse_root(squares)) + momentum * mean
        return x - size(i) * mean, squares, mean

    return _with_zeros_3, update, _first


@optimizer
def rmsprop(step_size: StepSize, gamma: Number = 0.9, eps: Number = 1e-8) -> Rules[Pair]:
    """RMSProp: gradients divided by the root of the mean of their squares, of which `gamma` is kept at each step.

    >>> init, update, params = rmsprop(0.1)
    >>> params(update(0, tnp.ones(2), init(tnp.ones(2)))).round(2)
    Array([0.68, 0.68], dtype=float64)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Array, state: Pair) -> Pair:
        x, squares = state
        squares = squares * gamma + tnp.square(g) * (1.0 - gamma)
        return x - size(i) * g / tnp.sqrt(squares + eps), squares

    return _with_zeros_2, update, _first


@optimizer
def rmsprop_momentum(
    step_size: StepSize, gamma: Number = 0.9, eps: Number = 1e-8, momentum: Number = 0.9
) -> Rules[Three]:
    """RMSProp with momentum.

    >>> init, update, params = rmsprop_momentum(0.1)
    >>> params(update(0, tnp.ones(2), init(tnp.ones(2)))).round(2)
    Array([0.68, 0.68], dtype=float64)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Array, state: Three) -> Three:
        x, squares, step = state
        squares = squares * gamma + tnp.square(g) * (1.0 - gamma)
        step = momentum * step + size(i) * g / tnp.sqrt(squares + eps)
        return x - step, squares, step

    return _with_zeros_3, update, _first


@optimizer
def adam(step_size: StepSize, b1: Number = 0.9, b2: Number = 0.999, eps: Number = 1e-8) -> Rules[Three]:
    """Adam (Kingma and Ba 2014): `b1` and `b2` of the means of gradients and of their squares are kept at each step.

    >>> init, update, params = adam(0.1)
    >>> params(update(0, tnp.ones(2), init(tnp.ones(2)))).round(2)
    Array([0.9, 0.9], dtype=float64)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Array, state: Three) -> Three:
        x, mean, squares = state
        mean = (1 - b1) * g + b1 * mean
        squares = (1 - b2) * tnp.square(g) + b2 * squares
        unbiased = mean / (1 - tnp.asarray(b1, mean.dtype) ** (i + 1))
        spread = squares / (1 - tnp.asarray(b2, mean.dtype) ** (i + 1))
        return x - size(i) * unbiased / (tnp.sqrt(spread) + eps), mean, squares

    return _with_zeros_3, update, _first


@optimizer
def adamax(step_size: StepSize, b1: Number = 0.9, b2: Number = 0.999, eps: Number = 1e-8) -> Rules[Three]:
    """Adamax: Adam with the largest gradient in the place of the mean of squares.

    >>> init, update, params = adamax(0.1)
    >>> params(update(0, tnp.ones(2), init(tnp.ones(2)))).round(2)
    Array([0.9, 0.9], dtype=float64)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Array, state: Three) -> Three:
        x, mean, largest = state
        mean = (1 - b1) * g + b1 * mean
        largest = tnp.maximum(b2 * largest, tnp.abs(g))
        now = size(i) / (1 - tnp.asarray(b1, mean.dtype) ** (i + 1))
        return x - now * mean / (largest + eps), mean, largest

    return _with_zeros_3, update, _first


@optimizer
def sm3(step_size: StepSize, momentum: Number = 0.9) -> Rules[tuple[Array, Array, list[Array], Any]]:
    """SM3 (Anil, Gupta, Koren and Singer 2019): Adagrad that keeps a vector for each axis, with momentum.

    >>> init, update, params = sm3(0.1)
    >>> params(update(0, tnp.ones(2), init(tnp.ones(2)))).round(2)
    Array([0.99, 0.99], dtype=float64)
    """
    size = make_schedule(step_size)

    def init(x: Array) -> tuple[Array, Array, list[Array], Any]:
        array = x.reshape(1) if x.ndim == 0 else x
        return array, tnp.zeros_like(array), [tnp.zeros(n, array.dtype) for n in array.shape], tnp.shape(x)

    def update(i: Any, g: Array, state: tuple[Array, Array, list[Array], Any]) -> tuple[Array, Array, list[Array], Any]:
        x, mean, bounds, shape = state
        ndim = x.ndim
        wide = [v.reshape([1] * axis + [-1] + [1] * (ndim - axis - 1)) for axis, v in enumerate(bounds)]
        squares = reduce(tnp.minimum, wide) + tnp.square(g)
        mean = (1.0 - momentum) * (g * _inverse_root(squares)) + momentum * mean
        bounds = [squares.max(axis=tuple(j for j in range(ndim) if j != axis)) for axis in range(ndim)]
        return x - size(i) * mean, mean, bounds, shape

    return init, update, lambda state: state[0].reshape(state[3])


def _with_zeros_2(x: Array) -> Pair:
    return x, tnp.zeros_like(x)


def _with_zeros_3(x: Array) -> Three:
    return x, tnp.zeros_like(x), tnp.zeros_like(x)


def _inverse_root(x: Array) -> Array:
    return tnp.where(x > 0, 1.0 / tnp.sqrt(x), 0.0)


# What one does with trees.


def l2_norm(tree: Any) -> Array:
    """The Euclidean norm of all numbers in a tree.

    >>> l2_norm({"a": 3.0, "b": tnp.asarray([4.0])})
    Array(5., dtype=float64)
    """
    total: Array | float = 0.0
    for leaf in _leaves(tree):
        total = tnp.vdot(leaf, leaf) + total
    return tnp.sqrt(total)


def clip_grads(grad_tree: Any, max_norm: Number) -> Any:
    """Gradients, made smaller together where their norm is greater.

    >>> clip_grads({"a": tnp.asarray([3.0, 4.0])}, 1.0)
    {'a': Array([0.6, 0.8], dtype=float64)}
    """
    norm = l2_norm(grad_tree)
    return tree.map(lambda g: tnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


def _leaves(values: Any) -> list[Array]:
    return [tnp.asarray(leaf) for leaf in tree.leaves(values)]


# States to be saved.


@final
class JoinPoint:
    """Where the state of a parameter stands in the tree of the parameters."""

    def __init__(self, subtree: Any) -> None:
        self.subtree: Any = subtree

    def __iter__(self) -> Iterator[Any]:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """The tree of the parameters, with a JoinPoint for each that holds its state.

    >>> state = momentum(0.1, mass=0.9).init_fn({"w": tnp.ones(1)})
    >>> unpack_optimizer_state(state)["w"].subtree
    (Array([1.], dtype=float64), Array([0.], dtype=float64))
    """
    _check_state(opt_state)
    return tree.unflatten(opt_state.tree_def, list(map(JoinPoint, _states(opt_state))))


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The state that `unpack_optimizer_state` has made such a tree of. An InputError for other leaves.

    >>> state = sgd(0.1).init_fn({"w": tnp.ones(1)})
    >>> pack_optimizer_state(unpack_optimizer_state(state)).packed_state
    [[Array([1.], dtype=float64)]]
    """
    leaves, structure = tree.flatten(marked_pytree)
    for leaf in leaves:
        if not isinstance(leaf, JoinPoint):
            raise InputError(f"pack_optimizer_state takes a tree of JoinPoints, got {leaf!r} in it")
    return _packed([leaf.subtree for leaf in leaves if isinstance(leaf, JoinPoint)], structure)
