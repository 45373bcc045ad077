"""Taylor mode, against derivatives of derivatives along the curve, and against jax's jet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import factorial
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from jax.experimental.jet import jet as jax_jet

import tinyjax as tj
from tinyjax import lax
from tinyjax import numpy as tnp
from tinyjax.errors import InputError
from tinyjax.interpreters import jet

ORDER = 4
RNG = np.random.default_rng(0)
X = RNG.uniform(0.5, 1.5, 4)
SERIES = [RNG.normal(size=4) for _ in range(ORDER)]
Function = Callable[[ModuleType, Any], Any]


def tail(n: ModuleType, x: Any) -> Any:
    """The last two elements, and the first one written over."""
    from_ = jax.lax if n is jnp else lax
    y = from_.dynamic_update_slice(x, x[:1] * x[1:2], (0,))
    return from_.dynamic_slice(y, (2,), (2,)) + from_.lgamma(y[:2]) + from_.erf(y[1:3])


FUNCTIONS: dict[str, Function] = {
    "add": lambda n, x: x + x[::-1] + 2.0,
    "sub": lambda n, x: 1.0 - x - x[0],
    "mul": lambda n, x: x * x[::-1] * 3.0,
    "div": lambda n, x: (1.0 + x) / (x * x),
    "exp": lambda n, x: n.exp(x) + n.expm1(x),
    "log": lambda n, x: n.log(x) * n.log1p(x),
    "sin": lambda n, x: n.sin(x) * n.cos(x * x),
    "hyperbolic": lambda n, x: n.sinh(x) / n.cosh(x) + n.tanh(x),
    "sqrt": lambda n, x: n.sqrt(x) + n.cbrt(x),
    "powers": lambda n, x: x**3 + x**-2 + n.square(x) + x**0 + n.power(x, 2.5) + n.power(x, x),
    "tan": lambda n, x: n.tan(x / 2) + n.arctan(x) + n.arcsin(x / 2),
    "sum": lambda n, x: n.sum(x.reshape(2, 2), 1) ** 2,
    "prod": lambda n, x: n.prod(x) + n.cumprod(x) + n.cumsum(x),
    "dot": lambda n, x: x @ x + (n.outer(x, n.sin(x)) @ x),
    "select": lambda n, x: n.where(x > 1.0, x * x, n.exp(x)),
    "extremes": lambda n, x: n.maximum(x, 1.0) * n.minimum(x, x[::-1]) + n.max(x) - n.min(x * x),
    "abs": lambda n, x: n.abs(x - 1.0),
    "shapes": lambda n, x: n.concatenate([x[1:3], n.flip(x)]) * n.pad(x, (1, 1)),
    "steps": lambda n, x: n.floor(x) * x + n.sign(x),
    "constant": lambda n, x: n.ones(2),
    "gather": lambda n, x: (x * x)[np.array([0, 2, 2])] * n.sin(x)[1:],
    "scatter": lambda n, x: n.exp(x).at[np.array([0, 2, 2])].add(x[1:] ** 2).at[1].set(n.sin(x[0])),
    "scatter extremes": lambda n, x: n.exp(x).at[np.array([0, 2])].max(x[2:] ** 3).at[1].multiply(x[0]),
    "sort": lambda n, x: n.sort(n.sin(3.0 * x)),
    "complex": lambda n, x: n.abs(n.exp(1j * x) * (x + 2j)) + n.real(n.conj(x * 1j) * 1j),
    "more functions": lambda n, x: n.arctan2(x, x * x) + n.logaddexp(x, x[::-1]) + n.exp2(x) + n.arcsinh(x),
    "dynamic": lambda n, x: tail(n, x * x) * n.sin(x[:2]),
}


def along_curve(f: Callable[[Any], Any]) -> list[Any]:
    """The derivatives, of all orders, of f along the curve, found by jax one inside the other."""

    def derivatives(t: Any) -> list[Any]:
        found = []
        curve: Callable[[Any], Any] = lambda t: f(  # noqa: E731
            X + sum(term * t ** (k + 1) / factorial(k + 1) for k, term in enumerate(SERIES))
        )
        for _ in range(ORDER + 1):
            found.append(curve(t))
            curve = partial(lambda g, t: jax.jvp(g, (t,), (1.0,))[1], curve)
        return found

    return list(jax.jit(derivatives)(0.0))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.sweep
def test_functions(name: str) -> None:
    f = FUNCTIONS[name]
    value, terms = jet(lambda x: f(tnp, x), (X,), (SERIES,))
    for found, expected in zip([value, *terms], along_curve(lambda x: f(jnp, x)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["exp", "log", "sin", "div", "dot", "extremes"])
@pytest.mark.parametrize("scaled", [True, False])
def test_as_jax(name: str, scaled: bool) -> None:
    f = FUNCTIONS[name]
    if name == "exp":
        f = lambda n, x: n.exp(x) * x  # noqa: E731 (jax has no expm1 there)
    if name == "log":
        f = lambda n, x: n.log(x) * x  # noqa: E731
    found = jet(lambda x: f(tnp, x), (X,), (SERIES,), factorial_scaled=scaled)
    expected = jax_jet(lambda x: f(jnp, x), (X,), (SERIES,), factorial_scaled=scaled)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), found[0], expected[0])
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_trees_and_several_arguments() -> None:
    def f(x: Any, y: Any) -> Any:
        return {"a": x * y, "b": (y + 1.0,)}

    value, terms = jet(f, (2.0, 3.0), ((1.0, 0.0), (0.5, 0.25)))
    assert float(value["a"]) == 6.0
    np.testing.assert_allclose(terms["a"], [2 * 0.5 + 3.0, 2 * 0.25 + 2 * 0.5])
    np.testing.assert_allclose(terms["b"][0], [0.5, 0.25])


def branch(x: Any) -> Any:
    return lax.cond(x > 1.0, lambda x: x * 3.0, tnp.exp, x)


def whilst(x: Any) -> Any:
    return lax.while_loop(lambda c: c[1] < 10.0, lambda c: (c[0] * x, c[1] * 2.0), (x * 0 + 1.0, x * 0 + 1.0))[0]


def scanned(x: Any) -> Any:
    return lax.scan(lambda c, i: (tnp.sin(c) * i, c), x, tnp.arange(1.0, 4.0))


def started_constant(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, c: c * x + 1.0, 1.0)


@tj.custom_jvp
def special(x: Any) -> Any:
    return tnp.sin(x) * x


special.defjvp(lambda primals, tangents: (special(primals[0]), tangents[0] * tnp.exp(primals[0])))


@jax.custom_jvp
def with_rule(x: Any) -> Any:
    return jnp.sin(x) * x


with_rule.defjvp(lambda primals, tangents: (with_rule(primals[0]), tangents[0] * jnp.exp(primals[0])))


CONTROL: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "jit": (tj.jit(lambda x: tj.jit(tnp.sin)(x) * x), lambda x: jnp.sin(x) * x),
    "cond, true": (lambda x: branch(x + 1.0), lambda x: (x + 1.0) * 3.0),
    "cond, false": (lambda x: branch(x - 1.0), lambda x: jnp.exp(x - 1.0)),
    "while": (whilst, lambda x: x**4),
    "scan": (lambda x: scanned(x)[0], lambda x: jnp.sin(jnp.sin(jnp.sin(x)) * 2.0) * 3.0),
    "a carry that starts constant": (started_constant, lambda x: ((x + 1.0) * x + 1.0) * x + 1.0),
    "custom_jvp": (special, with_rule),
    "checkpoint": (tj.checkpoint(lambda x: tnp.sin(x) * x), lambda x: jnp.sin(x) * x),
}


@pytest.mark.parametrize("name", CONTROL)
@pytest.mark.parametrize("outside", ["", "jit", "vmap", "jvp"])
def test_programs_within(name: str, outside: str) -> None:
    mine, plain = CONTROL[name]
    expected = []
    derivative = plain
    for _ in range(4):
        expected.append(derivative)
        derivative = jax.grad(derivative)

    def derivatives(x: Any) -> Any:
        value, terms = jet(mine, (x,), ((1.0, 0.0, 0.0),))
        return tnp.stack([value, *terms])

    x = 0.7
    wanted = [f(x) for f in expected]
    if outside == "jvp":
        found = tj.jvp(derivatives, (x,), (1.0,))[1]
        wanted = [jax.grad(f)(x) for f in expected]
    elif outside == "vmap":
        found = tj.vmap(derivatives)(np.array([0.6, x]))[1]
    else:
        found = (tj.jit(derivatives) if outside else derivatives)(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_results_that_are_discrete() -> None:
    x, t = np.array([1.0, 3.0, 2.0]), [np.ones(3), np.zeros(3)]
    found, expected = (
        module.jet(lambda x: (x > 2.0, x * x), (x,), (t,)) for module in (tj.experimental.jet, jax.experimental.jet)
    )
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        assert ours.dtype == theirs.dtype
    (_, pivots, _), (_, of_pivots, _) = jet(tj.lax.linalg.lu, (np.eye(2),), ([np.ones((2, 2))],))
    assert pivots.dtype == "int32"
    np.testing.assert_array_equal(of_pivots, [np.zeros(2)])


def test_high_order() -> None:
    _, terms = jet(lambda x: tnp.exp(2.0 * x), (0.0,), ([1.0] + [0.0] * 11,))
    np.testing.assert_allclose(terms, [2.0**k for k in range(1, 13)], rtol=1e-12)


def test_work_grows_slowly_with_the_order() -> None:
    def size(order: int) -> int:
        f = lambda x: jet(lambda x: tnp.sin(tnp.exp(x)), (x,), ([1.0] * order,))  # noqa: E731
        return len(tj.make_jaxpr(f)(0.0).eqns)

    assert size(12) < 8 * size(4)


@pytest.mark.parametrize(
    ("primals", "series", "message"),
    [
        ((1.0, 2.0), ((1.0,),), "one series for each of the 2 primals"),
        ((1.0, 2.0), ((1.0,), (1.0, 2.0)), r"lengths \[1, 2\]"),
        (({"a": 1.0, "b": 2.0},), ((1.0,),), "the primals must be arrays"),
        ((1.0,), ((np.ones(3),),), r"series\[0\]\[0\] must have type"),
    ],
)
def test_errors(primals: Any, series: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        jet(lambda *xs: xs, primals, series)


def test_integers_and_bools_stay_as_they_are() -> None:
    mask, x, y = np.array([True, False]), np.array([1.0, 2.0]), np.array([3.0, 4.0])
    ones, zeros = [np.ones(2)] * 2, [np.zeros(2)] * 2
    cases: tuple[tuple[Callable[..., Any], Any, Any], ...] = (
        (jnp.where, (mask, x, y), (ones, ones, zeros)),
        (jnp.where, (mask, x, y), ([mask, mask], zeros, ones)),
        (lambda n, x: x * n, (np.array([2, 3]), x), (zeros, ones)),
        (lambda n, x: x * n, (2, 3.0), ([0, 0], [1.0, 2.0])),
    )
    for f, primals, series in cases:
        ours: Callable[..., Any] = tnp.where if f is jnp.where else f
        expected = jax_jet(f, primals, series)
        for found in (jet(ours, primals, series), tj.jit(partial(jet, ours))(primals, series)):
            np.testing.assert_allclose(np.asarray(found[0]), expected[0])
            np.testing.assert_allclose(np.stack(list(map(np.asarray, found[1]))), np.stack(expected[1]))
    float0 = [np.zeros(2, tj.dtypes.float0)]
    _, (taken,) = jet(lambda n, x: x[n], (np.array([1, 0]), x), (float0, [y]))
    np.testing.assert_array_equal(np.asarray(taken), y[::-1])
    with pytest.raises(InputError, match=r"series\[0\]\[1\] must be 0, as its primal is of integers"):
        jet(lambda n, x: x * n, (2, 3.0), ([0, 1], [1.0, 2.0]))
    with pytest.raises(InputError, match=r"series\[0\]\[0\] must have shape \(2,\), that of its primal"):
        jet(lambda n, x: x * n, (np.array([2, 3]), x), ([0], [x]))
