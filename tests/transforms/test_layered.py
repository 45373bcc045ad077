"""Models of layers and steps of their training, as people write them: with loops they compute the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pytest
from attrs import frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.checks import program
from tinyjax import Array, ShapedArray, transforms
from tinyjax.control.scan import Scan
from tinyjax.ir import Atom, Jaxpr, Var
from tinyjax.testing import check_laws

N: Final = 3
few = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
Layers: TypeAlias = Sequence[tuple[Any, Any]]


@frozen
class Model:
    """How layers are put together: each adds to what it is given, reads what an earlier one gave, has the weights of
    the first one; some elements are dropped; the first and the last one are different."""

    depth: int
    residual: bool = True
    skip: int = 0
    shared: bool = False
    dropped: bool = False
    first: bool = False
    last: bool = False

    def layers(self) -> list[tuple[Any, Any]]:
        generator = np.random.default_rng(self.depth)
        count = 1 if self.shared else self.depth
        return [(generator.normal(size=(N, N)) / N, generator.normal(size=N) / N) for _ in range(count)]

    def __call__(self, layers: Layers, x: Array) -> Array:
        key = tj.random.key(1)
        seen = [x]
        if self.first:
            x = tnp.cos(x) + 1.0
        for i in range(self.depth):
            w, b = layers[0 if self.shared else i]
            y = tnp.tanh(x @ w) * 2.0 + b
            if self.dropped:
                kept = tj.random.bernoulli(tj.random.fold_in(key, i), 0.8, (N,))
                y = tnp.where(kept, y / 0.8, 0.0)
            if self.residual:
                y = y + x
            if 0 < self.skip <= i:
                y = y + tnp.sin(seen[-self.skip])
            seen.append(y)
            x = y / (1.0 + tnp.mean(y * y))
        if self.last:
            x = tnp.exp(-x)
        return tnp.sum(x * x)


MODELS: Final = st.builds(
    Model,
    depth=st.integers(2, 5),
    residual=st.booleans(),
    skip=st.integers(0, 2),
    shared=st.booleans(),
    dropped=st.booleans(),
    first=st.booleans(),
    last=st.booleans(),
)
X: Final = np.linspace(-1.0, 1.0, N)
VECTOR: Final = ShapedArray((N,), "float64")


def descent(model: Model, state: Any, x: Any) -> Any:
    gradient = tj.grad(model)(state, x)
    return tj.tree.map(lambda w, g: w - 0.1 * g, state, gradient)


def momentum(model: Model, state: Any, x: Any) -> Any:
    layers, speed = state
    gradient = tj.grad(model)(layers, x)
    speed = tj.tree.map(lambda m, g: 0.9 * m + g, speed, gradient)
    return tj.tree.map(lambda w, m: w - 0.1 * m, layers, speed), speed


def adam(model: Model, state: Any, x: Any) -> Any:
    """With a schedule, decay of weights, and the loss."""
    layers, first, second, count = state
    loss, gradient = tj.value_and_grad(model)(layers, x)
    count = count + 1.0
    rate = 0.01 * tnp.cos(count / 100.0)
    first = tj.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = tj.tree.map(lambda v, g: 0.99 * v + 0.01 * (g * g), second, gradient)
    ahead = tj.tree.map(lambda m: m / (1.0 - 0.9**count), first)
    scale = tj.tree.map(lambda v: tnp.sqrt(v / (1.0 - 0.99**count)) + 1e-8, second)
    layers = tj.tree.map(lambda w, m, s: w - rate * (m / s + 0.001 * w), layers, ahead, scale)
    return (layers, first, second, count), loss


def clipped(model: Model, state: Any, x: Any) -> Any:
    """Each update waits for the whole gradient."""
    gradient = tj.grad(model)(state, x)
    norm = tnp.sqrt(sum(tnp.sum(g * g) for g in tj.tree.leaves(gradient)))
    return tj.tree.map(lambda w, g: w - 0.1 * g / tnp.maximum(norm, 1.0), state, gradient), norm


def reported(model: Model, state: Any, x: Any) -> Any:
    """No update waits for what is said of the gradient."""
    gradient = tj.grad(model)(state, x)
    norm = sum(tnp.sum(g * g) for g in tj.tree.leaves(gradient))
    return tj.tree.map(lambda w, g: w - 0.1 * g, state, gradient), norm


def state_of(step: Callable[..., Any], layers: Layers) -> Any:
    zeros = tj.tree.map(np.zeros_like, layers)
    if step is adam:
        return layers, zeros, zeros, np.float64(0.0)
    return (layers, zeros) if step is momentum else layers


STEPS: Final = [descent, momentum, adam, clipped, reported]


def close(found: Any, expected: Any) -> None:
    for one, other in zip(tj.tree.leaves(found), tj.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def step_of(step: Callable[..., Any], depth: int) -> tuple[Jaxpr, Jaxpr]:
    """The program of a step for so many layers, and the same with loops."""
    model = Model(depth)
    state = state_of(step, model.layers())
    avals = [ShapedArray(np.shape(leaf), "float64") for leaf in tj.tree.leaves(state)]
    tree = tj.tree.structure(state)
    j = program(lambda x, *leaves: tj.tree.leaves(step(model, tj.tree.unflatten(tree, leaves), x)), VECTOR, *avals)
    return j, transforms.reroll(j, at_least=20)


def _bytes(jaxpr: Jaxpr, outputs: bool) -> int:
    """Bytes of the stacks that loops give, which the program returns, or rows of which it does; or of the others."""
    sources: dict[int, Var] = {}
    stacks: list[Var] = []
    for eqn in jaxpr.eqns:
        if isinstance(eqn.primitive, Scan):
            stacks += eqn.outvars[eqn.primitive.num_carry :]
        elif eqn.primitive.name in {"slice", "squeeze", "unstack"} and isinstance(eqn.invars[0], Var):
            sources.update((out.index, eqn.invars[0]) for out in eqn.outvars)
    returned: set[int] = set()
    for out in jaxpr.outvars:
        found: Atom | None = out
        while isinstance(found, Var):
            returned.add(found.index)
            found = sources.get(found.index)
    return sum(var.aval.nbytes for var in stacks if (var.index in returned) is outputs)


@pytest.mark.parametrize("step", [descent, momentum, adam, reported])
def test_updates_are_part_of_the_backward_loop(step: Callable[..., Any]) -> None:
    """No stack of gradients is made, and nothing is stacked but what the backward pass needs, and what is returned."""
    gradient = step_of(lambda model, layers, x: tj.grad(model)(layers, x), 24)[1]
    j, rolled = step_of(step, 24)
    loops = [eqn.primitive for eqn in rolled.eqns if isinstance(eqn.primitive, Scan)]
    loops = [loop for loop in loops if any(aval.shape for aval in loop.jaxpr.out_avals)]  # no sums of scalars
    assert [loop.reverse for loop in loops] == [False, True]
    assert len(rolled.eqns) < len(j.eqns) / 2
    scalars = 24 * 2 * 8 if step is reported else 0
    assert _bytes(rolled, outputs=False) <= _bytes(gradient, outputs=False) + scalars
    assert _bytes(rolled, outputs=True) > 0


def test_updates_that_wait_for_all_gradients() -> None:
    _, rolled = step_of(clipped, 24)
    assert [loop.primitive.reverse for loop in rolled.eqns if isinstance(loop.primitive, Scan)][:2] == [False, True]


@pytest.mark.parametrize("step", STEPS)
def test_steps_compute_the_same(step: Callable[..., Any]) -> None:
    check_laws(step_of(step, 5)[0], laws=["reroll"])


@pytest.mark.sweep
@given(MODELS, st.sampled_from(STEPS))
@few
def test_any_step_computes_the_same(model: Model, step: Callable[..., Any]) -> None:
    """The program of one step, with as many loops as there may be."""
    state = state_of(step, model.layers())
    leaves, tree = tj.tree.flatten(state)
    avals = [ShapedArray(np.shape(leaf), "float64") for leaf in leaves]
    j = program(lambda x, *leaves: tj.tree.leaves(step(model, tj.tree.unflatten(tree, leaves), x)), VECTOR, *avals)
    rolled = transforms.reroll(j)
    close(tj.eval_jaxpr(rolled, (), X, *leaves), tj.eval_jaxpr(j, (), X, *leaves))


@pytest.mark.sweep
@given(MODELS)
@settings(few, max_examples=5)
def test_derivatives_and_batches_of_any_model(model: Model) -> None:
    leaves, tree = tj.tree.flatten(model.layers())
    avals = [ShapedArray(np.shape(leaf), "float64") for leaf in leaves]
    j = program(lambda x, *leaves: model(tj.tree.unflatten(tree, leaves), x), VECTOR, *avals)
    rolled = transforms.reroll(j)

    def function(jaxpr: Jaxpr) -> Callable[..., Any]:
        return lambda *leaves: tj.eval_jaxpr(jaxpr, (), X, *leaves)[0]

    every = tuple(range(len(leaves)))
    two = [np.stack([leaf, leaf * 0.5]) for leaf in leaves]
    for derive, args in (
        (lambda f: tj.grad(f, argnums=every), leaves),
        (lambda f: lambda *leaves: tj.jvp(f, leaves, leaves), leaves),
        (tj.vmap, two),
        (lambda f: tj.vmap(tj.grad(f, argnums=every)), two),
    ):
        close(derive(function(rolled))(*args), derive(function(j))(*args))


@pytest.mark.sweep
@pytest.mark.parametrize("step", STEPS)
def test_compiled_steps(step: Callable[..., Any]) -> None:
    """Several of them, in stacks."""
    model = Model(40)
    rolled, plain = (tj.jit(lambda state, x: step(model, state, x), reroll=choice) for choice in (True, False))
    start = state_of(step, model.layers())
    one = other = start
    for _ in range(3):
        one, other = rolled(one, X), plain(other, X)
        close(one, other)
        if step in (adam, clipped, reported):
            one, other = one[0], other[0]
