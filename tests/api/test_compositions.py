"""Compositions of transformations, in every order, against jax."""

from __future__ import annotations

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.families import FUNCTIONS, TRANSFORMATIONS, Ours, ours_jvp
from tinyjax import Array, ArrayLike, ir

SINGLES_AND_PAIRS = [(), *product(TRANSFORMATIONS, repeat=1), *product(TRANSFORMATIONS, repeat=2)]
TRIPLES = list(product(TRANSFORMATIONS, repeat=3))
POINT = 0.7


def check(function: str, names: tuple[str, ...]) -> None:
    """Both libraries agree on f, transformed by the names from right to left; and the program of it is well typed."""
    ours, theirs = FUNCTIONS[function]
    for name in reversed(names):
        our_transformation, their_transformation = TRANSFORMATIONS[name]
        ours, theirs = our_transformation(ours), their_transformation(theirs)
    expected = jax.jit(theirs)(jnp.asarray(POINT))
    point = tnp.asarray(np.float64(POINT))
    np.testing.assert_allclose(ours(point), expected, rtol=1e-9, atol=1e-9)
    closed = tj.make_jaxpr(ours)(point)
    ir.typecheck(closed)
    np.testing.assert_allclose(tj.eval_jaxpr(closed, (), point)[0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.sweep
@pytest.mark.parametrize("names", SINGLES_AND_PAIRS, ids=".".join)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_pairs(function: str, names: tuple[str, ...]) -> None:
    check(function, names)


@pytest.mark.parametrize("names", TRIPLES, ids=".".join)
@pytest.mark.parametrize("function", ["mixed", "nested"])
@pytest.mark.sweep
def test_triples(function: str, names: tuple[str, ...]) -> None:
    check(function, names)


def stress(x: Array) -> Array:
    """Calls within calls, with closures over values of every level: Autodidax's test of compositionality."""

    @tj.jit
    def bar(y: Array) -> Array:
        def baz(w: Array) -> Array:
            def second(x: Array) -> Array:
                return y

            def total(y: Array) -> Array:
                return w + y

            def scaled(w: ArrayLike) -> Array:
                return tj.jit(tnp.sin)(x) * y

            q = tj.jit(second)(x)
            q = q + tj.jit(lambda: y)()
            q = q + tj.jit(total)(y)
            return tj.jit(scaled)(1.0) + q

        primal, tangent = tj.jvp(baz, (x + 1.0,), (y,))
        return tangent + x * primal

    return bar(x)


@pytest.mark.sweep
def test_stress() -> None:
    jit, jvp, grad = tj.jit, tj.jvp, tj.grad
    x = tnp.asarray(3.0)
    values = [stress(x), jit(stress)(x), jvp(stress, (x,), (5.0,))[0], jvp(jit(stress), (x,), (5.0,))[0]]
    first = [
        grad(stress)(x),
        grad(jit(stress))(x),
        jit(grad(jit(stress)))(x),
        jvp(stress, (x,), (1.0,))[1],
        jvp(jit(stress), (x,), (1.0,))[1],
    ]
    second = [
        grad(grad(stress))(x),
        grad(grad(jit(stress)))(x),
        grad(jit(grad(stress)))(x),
        jit(grad(grad(stress)))(x),
        jvp(grad(stress), (x,), (1.0,))[1],
        jvp(jit(grad(stress)), (x,), (1.0,))[1],
    ]
    # With s = sin 3 and c = cos 3: the tangent of baz is y + y's share, and the rest is arithmetic.
    for found in (values, first, second):
        for other in found[1:]:
            np.testing.assert_allclose(other, found[0], rtol=1e-12)
    step = 1e-5
    np.testing.assert_allclose((stress(x + step) - stress(x - step)) / (2 * step), first[0], rtol=1e-8)
    np.testing.assert_allclose((grad(stress)(x + step) - grad(stress)(x - step)) / (2 * step), second[0], rtol=1e-8)
    mapped = [tj.vmap(stress)(tnp.arange(3.0)), jit(tj.vmap(stress))(tnp.arange(3.0))]
    np.testing.assert_allclose(mapped[0], mapped[1], rtol=1e-12)
    np.testing.assert_allclose(mapped[0], [stress(tnp.asarray(float(i))) for i in range(3)], rtol=1e-12)


def test_python_control_flow() -> None:
    def power(x: Array) -> Array:
        y = x
        while y < 10.0:
            y = y * x if x > 0 else -y * x
        return y

    derivative = tj.grad(power)
    assert float(derivative(tnp.asarray(3.0))) == 27.0
    assert float(tj.grad(derivative)(tnp.asarray(3.0))) == 18.0
    assert float(tj.jvp(derivative, (3.0,), (1.0,))[1]) == 18.0
    assert float(tj.grad(lambda x: tj.jvp(power, (x,), (1.0,))[1])(tnp.asarray(3.0))) == 18.0
    assert float(tj.linearize(power, 3.0)[1](1.0)) == 27.0


def test_derivatives_of_high_order() -> None:
    def sine(x: Array) -> Array:
        return tnp.sin(x)

    f: Ours = sine
    g: Ours = sine
    for _ in range(6):
        f, g = ours_jvp(f), tj.grad(g)
    np.testing.assert_allclose(f(tnp.asarray(3.0)), -np.sin(3.0))
    np.testing.assert_allclose(g(tnp.asarray(3.0)), -np.sin(3.0))
