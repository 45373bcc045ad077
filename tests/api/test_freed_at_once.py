"""What transformations make is freed when nothing holds it any more: it is in no cycle."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array, lax, nn, transforms
from tinyjax.ir import ClosedJaxpr, Eqn, Jaxpr
from tinyjax.ir.value import ConcreteValue

X: Final = tnp.arange(6.0).reshape(2, 3) / 7
Function: TypeAlias = Callable[[Array], Array]


def elementwise(x: Array) -> Array:
    return tnp.sum(tnp.tanh(x) * tnp.where(x > 0.2, x, tnp.sin(x)) / tnp.sum(tnp.exp(x)))


def scanned(x: Array) -> Array:
    return tnp.sum(lax.scan(lambda c, y: (c * y + tnp.sin(c), c), x[0], x)[0])


def chosen(x: Array) -> Array:
    return tnp.sum(lax.cond(x[0, 0] > 0, tnp.sin, tnp.cos, x))


def computed_again(x: Array) -> Array:
    return tj.checkpoint(elementwise)(x)


def called(x: Array) -> Array:
    return tj.jit(elementwise)(x) + tnp.sum(nn.softmax(x)) + tnp.sum(tnp.sort(x))


def layers(x: Array) -> Array:
    for i in range(40):
        x = x + tnp.tanh(x * (1 + 1 / (i + 1)) + tnp.mean(x))
    return tnp.sum(x * x)


FUNCTIONS: Final = [elementwise, scanned, chosen, computed_again, called, layers]
OPERATIONS: Final[dict[str, Callable[[Function], object]]] = {
    "eager": lambda f: f(X),
    "make_jaxpr": lambda f: tj.make_jaxpr(f)(X),
    "jit": lambda f: tj.jit(f)(X),
    "grad": lambda f: tj.grad(f)(X),
    "jit of grad": lambda f: tj.jit(tj.grad(f))(X),
    "jit with loops": lambda f: tj.jit(tj.grad(f), reroll=True)(X),
    "vjp": lambda f: tj.vjp(f, X)[1](tnp.asarray(1.0)),
    "jvp": lambda f: tj.jvp(f, (X,), (X,)),
    "linearize": lambda f: tj.linearize(f, X)[1](X),
    "vmap": lambda f: tj.vmap(f)(tnp.stack([X, X])),
    "hessian": lambda f: tj.hessian(f)(X),
    "reroll": lambda f: transforms.reroll(tj.make_jaxpr(f)(X)),
    "optimize": lambda f: transforms.optimize(tj.make_jaxpr(tj.grad(f))(X)),
}


@pytest.fixture
def garbage() -> Iterator[Callable[[], Counter[str]]]:
    """What the collector finds of ours, which hasn't run since the beginning of the test."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()

    def found() -> Counter[str]:
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = (Eqn, Jaxpr, ClosedJaxpr, ConcreteValue)
        return Counter(type(each).__name__ for each in gc.garbage if isinstance(each, kinds))

    yield found
    gc.set_debug(0)
    gc.garbage.clear()
    if enabled:
        gc.enable()


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_nothing_is_left_to_the_collector(
    function: Function, operation: str, garbage: Callable[[], Counter[str]]
) -> None:
    OPERATIONS[operation](lambda x: function(x) * 1.5)
    assert garbage() == {}


def test_a_cycle_is_found(garbage: Callable[[], Counter[str]]) -> None:
    cycle: list[object] = [ConcreteValue.of(1.0)]
    cycle.append(cycle)
    del cycle
    assert garbage() == {"ConcreteValue": 1}
