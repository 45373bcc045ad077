"""Sums of what many layers make: each term is added where it is made, and a number they begin with is no exception."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.test_layered import close
from tests.transforms.test_penalties import lines, weights
from tinyjax.ir.program import Jaxpr, Literal
from tinyjax.primitives.elementwise import Add
from tinyjax.transforms.added_on_the_way import added_on_the_way

WIDTH: Final = 4
X: Final = np.linspace(-1.0, 1.0, 2 * WIDTH).reshape(2, WIDTH)


def traced(function: Any, *args: Any) -> Jaxpr:
    return tj.make_jaxpr(function)(*args).jaxpr


def in_the_end(n: int, first: Any = None) -> Any:
    """A function that adds n arrays, each made of the one before, when all are there."""

    def function(x: Any) -> Any:
        made = []
        for _ in range(n):
            x = tnp.sin(x)
            made.append(x)
        total = made[0] if first is None else first + made[0]
        for each in made[1:]:
            total = total + each
        return total

    return function


def additions(jaxpr: Jaxpr) -> list[int]:
    return [i for i, eqn in enumerate(jaxpr.eqns) if isinstance(eqn.primitive, Add)]


def same_values(one: Jaxpr, other: Jaxpr, *args: Any) -> bool:
    a, b = (tj.eval_jaxpr(each, (), *args) for each in (one, other))
    return all(np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(a, b, strict=True))


def test_terms_are_added_where_they_are_made() -> None:
    jaxpr = traced(in_the_end(9), X)
    found = added_on_the_way(jaxpr)
    tj.ir.typecheck(found)
    assert additions(jaxpr) == list(range(9, 17))
    assert additions(found) == list(range(2, 17, 2))
    assert same_values(jaxpr, found, X)
    assert added_on_the_way(found) is found


def test_a_sum_may_begin_with_a_number() -> None:
    jaxpr = traced(in_the_end(9, 0.0), X)
    found = added_on_the_way(jaxpr)
    tj.ir.typecheck(found)
    assert not any(isinstance(atom, Literal) for i in additions(found) for atom in found.eqns[i].invars)
    assert same_values(jaxpr, found, X)
    assert found.out_avals == jaxpr.out_avals


def read_elsewhere(x: Any) -> Any:
    """What is read by others than the next addition is no part of a sum."""
    total, others = x, []
    for _ in range(9):
        total = total + tnp.sin(total)
        others.append(total)
    return others


def backwards(x: Any) -> Any:
    """The last term comes first, so that nothing can be added before all are there."""
    made = [x]
    for _ in range(9):
        made.append(tnp.sin(made[-1]))
    return sum(made[-2::-1], start=made[-1])


def of_inputs(*xs: Any) -> Any:
    return sum(xs[1:], start=xs[0])


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (in_the_end(8), (X,)),  # seven additions
        (in_the_end(9), (np.float64(0.5),)),  # scalars have sums of their own
        (read_elsewhere, (X,)),
        (backwards, (X,)),
        (of_inputs, [X] * 10),
    ],
)
def test_others_stay_as_they_are(function: Any, args: Any) -> None:
    jaxpr = traced(function, *args)
    assert added_on_the_way(jaxpr) is jaxpr


# Models whose layers each give something to the result.


def skips(layers: Any, x: Any) -> Any:
    found = []
    for i in range(len(layers)):
        layer = layers[f"layer_{i}"]
        inner = tnp.tanh(x @ layer["kernel"] + layer["bias"])
        found.append(inner * layer["scale"])
        x = x + inner
    total: Any = 0.0
    for each in found:
        total = total + each
    return tnp.mean(tnp.tanh(total) ** 2)


def heads(layers: Any, x: Any) -> Any:
    """The gradients of biases of all heads are made of one array, and no layer has made it."""
    found = []
    for i in range(len(layers)):
        layer = layers[f"layer_{i}"]
        x = x + tnp.tanh(x @ layer["kernel"])
        found.append(x * layer["scale"] + layer["bias"])
    total: Any = 0.0
    for each in found:
        total = total + each
    return tnp.mean(tnp.tanh(total) ** 2)


def descent(model: Any) -> Any:
    return lambda layers, x: tj.tree.map(lambda w, g: w - 0.1 * g, layers, tj.grad(model)(layers, x))


def momentum(model: Any) -> Any:
    """As a step that is imported whole: its gradient is no loop before derivatives, and all moments come first."""

    def step(layers: Any, moments: Any, x: Any) -> Any:
        grads = tj.jit(tj.grad(model))(layers, x)
        moments = tj.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments, grads)
        squares = tj.tree.map(lambda m: tnp.sqrt(m * m + 1e-6), moments)
        return tj.tree.map(lambda w, m, s: w - 0.1 * m / s, layers, moments, squares), moments

    return lambda layers, x: step(layers, layers, x)


@pytest.mark.parametrize("step", [descent(skips), descent(heads), momentum(heads)])
def test_what_is_compiled_has_one_size(step: Any) -> None:
    assert lines(step, 24) == lines(step, 36)


def test_what_the_first_layer_begins_with_is_not_in_it() -> None:
    n = 8

    def function(x: Any, *layers: Any) -> Any:
        total = tnp.zeros((2, WIDTH))
        for layer in layers:
            x = tnp.tanh(x @ layer)
            total = tnp.flip(total, axis=1) + tnp.cos(x)
        return tnp.sum(total**2)

    gradient = tj.grad(function, argnums=tuple(range(1, n + 1)))
    found = tj.transforms.repeats(tj.make_jaxpr(gradient)(X, *[np.eye(WIDTH)] * n)).found
    # The first and the last layer are otherwise anyway, as the gradient reads something else of them.
    assert [each.count for each in found] == [n - 2, n - 2]


@pytest.mark.parametrize("step", [descent, momentum])
@pytest.mark.parametrize("model", [skips, heads])
def test_results_are_those_of_the_unrolled_step(model: Any, step: Any) -> None:
    layers, x = weights(13), X
    close(tj.jit(step(model), reroll=True)(layers, x), tj.jit(step(model))(layers, x))
