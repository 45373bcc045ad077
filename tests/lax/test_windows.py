"""Reductions by any function, of axes and of windows, against jax.lax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tests.numpy.oracle import agree, numbers
from tinyjax import lax
from tinyjax.errors import InputError, ParameterError, ShapeError, TinyjaxError, TypingError
from tinyjax.interop.jax import from_jax, to_jax

X, Y = numbers("float64", 4, 5), numbers("float64", 4, 5)
N = (numbers("float64", 4, 5) * 3).astype("int32")
WINDOW: dict[str, Any] = {"window_dimensions": (2, 3), "window_strides": (1, 2), "padding": "SAME"}
EVERY: dict[str, Any] = {
    "window_dimensions": (2, 2), "window_strides": (1, 2), "padding": ((1, 0), (-1, 2)), "base_dilation": (2, 1),
    "window_dilation": (1, 2),
}  # fmt: skip


def _pair(x: Any, y: Any) -> Any:
    return x[0] * y[0], x[1] + y[1]


def _chosen(m: Any) -> Callable[[Any, Any], Any]:
    """Of two pairs the one with the larger first entry."""

    def choose(x: Any, y: Any) -> Any:
        taken = m.ge(x[0], y[0])
        return m.select(taken, x[0], y[0]), m.select(taken, x[1], y[1])

    return choose


#: What is called, with `lax` and an operand as arguments.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda m, x: m.reduce(x, 0.0, m.add, (0,)),
    "sum-from-3": lambda m, x: m.reduce(x, 3.0, m.add, (1, 0)),
    "max": lambda m, x: m.reduce(x, -np.inf, m.max, (1,)),
    "product": lambda m, x: m.reduce(x, 2.0, lambda a, b: m.mul(b, a), (1,)),
    "pair": lambda m, x: m.reduce((x, Y), (1.0, 2.0), _pair, (1,)),
    "odd": lambda m, x: m.reduce(x, 1.5, lambda a, b: a + b + a * b, (0, 1)),
    "chosen": lambda m, x: m.reduce((x, Y), (-np.inf, 0.0), _chosen(m), (0,)),
    "no-axes": lambda m, x: m.reduce(x, 2.0, m.add, ()),
    "windows-sum": lambda m, x: m.reduce_window(x, 0.0, m.add, **WINDOW),
    "windows-sum-from-3": lambda m, x: m.reduce_window(x, 3.0, m.add, **EVERY),
    "windows-max": lambda m, x: m.reduce_window(x, -np.inf, m.max, **WINDOW),
    "windows-min": lambda m, x: m.reduce_window(x, np.inf, m.min, (2, 2)),
    "windows-product": lambda m, x: m.reduce_window(x, 1.0, m.mul, **EVERY),
    "windows-pair": lambda m, x: m.reduce_window((x, Y), (1.0, 2.0), _pair, **EVERY),
    "windows-long": lambda m, x: m.reduce_window(x, 0.5, lambda a, b: a + b + a * b, (4, 5)),
    "windows-none": lambda m, x: m.reduce_window(x, 0.5, m.mul, (5, 1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions(name: str) -> None:
    """Values as JAX's; derivatives as differences, since JAX's count initial values several times, or aren't there."""

    def ours(x: Any) -> Any:
        return CALLS[name](lax, x)

    expected = CALLS[name](jax.lax, X)
    agree(ours(X), expected)
    agree(tj.jit(ours)(X), expected)
    xs = numbers("float64", 4, 3, 5)
    agree(tj.vmap(ours, 1)(xs), jax.vmap(lambda x: CALLS[name](jax.lax, x), 1)(xs))
    t = numbers("float64", 4, 5)[::-1]
    ends = [tj.tree.leaves(ours(X + step * t)) for step in (1e-5, -1e-5)]
    slopes = [(np.asarray(a) - np.asarray(b)) / 2e-5 for a, b in zip(*ends, strict=True)]
    out, tangent = tj.jvp(ours, (X,), (t,))
    for found, slope in zip(tj.tree.leaves(tangent), slopes, strict=True):
        np.testing.assert_allclose(np.asarray(found), slope, 1e-5, 1e-5)
    cotangents = tj.tree.map(lambda y: np.cos(np.asarray(y)), out)
    (pulled,) = tj.vjp(ours, X)[1](cotangents)
    pairs = zip(tj.tree.leaves(tangent), tj.tree.leaves(cotangents), strict=True)
    along = sum(np.sum(np.asarray(a) * b) for a, b in pairs)
    np.testing.assert_allclose(np.sum(np.asarray(pulled) * t), along, 1e-10)


@pytest.mark.parametrize("name", ["odd", "pair", "windows-pair", "windows-product", "windows-max"])
def test_from_and_to_jax(name: str) -> None:
    program = tj.make_jaxpr(lambda x: CALLS[name](lax, x))(X)
    agree(CALLS[name](lax, X), jax.tree.map(jax.numpy.asarray, jax.jit(to_jax(program))(X)))
    theirs = from_jax(jax.make_jaxpr(lambda x: CALLS[name](jax.lax, x))(X))
    assert theirs.jaxpr.eqns[-1].primitive.name == program.jaxpr.eqns[-1].primitive.name
    assert tj.ir.parse(str(program.jaxpr)) == program.jaxpr
    printed = tj.ir.parse(str(jax.make_jaxpr(lambda x: CALLS[name](jax.lax, x))(X)))
    assert printed.eqns[-1].primitive.name == theirs.jaxpr.eqns[-1].primitive.name  # of strong types


@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_windows_that_do_not_fit(stride: int, dilation: int) -> None:
    """There are none, of any function, with any stride."""
    for size in range(4):
        for start in (2.0, -np.inf, 1.0):
            for ours, theirs in ((lax.max, jax.lax.max), (lax.mul, jax.lax.mul)):
                x = np.arange(float(size))
                given = ((3,), (stride,), "VALID", (1,), (dilation,))
                expected = jax.lax.reduce_window(x, start, theirs, *given)
                agree(lax.reduce_window(x, start, ours, *given), expected)
                agree(tj.jit(lambda x: lax.reduce_window(x, start, ours, *given))(x), expected)  # noqa: B023
                slope = tj.grad(lambda x: lax.reduce_window(x, start, ours, *given).sum())(x)  # noqa: B023
                assert slope.shape == x.shape


def test_integers() -> None:
    for name, start in [("add", 0), ("mul", 1), ("max", -(2**31)), ("min", 2**31 - 1), ("bitwise_and", -1),
                        ("bitwise_or", 0), ("bitwise_xor", 5)]:  # fmt: skip
        ours, theirs = getattr(lax, name), getattr(jax.lax, name)
        agree(lax.reduce(N, np.int32(start), ours, (0,)), jax.lax.reduce(N, np.int32(start), theirs, (0,)))
        expected = jax.lax.reduce_window(N, np.int32(start), theirs, **WINDOW)
        agree(lax.reduce_window(N, np.int32(start), ours, **WINDOW), expected)


def test_known_monoids_are_primitives() -> None:
    def names(f: Callable[[Any], Any]) -> list[str]:
        return [eqn.primitive.name for eqn in tj.make_jaxpr(f)(X).jaxpr.eqns]

    assert names(lambda x: lax.reduce(x, 0.0, lambda a, b: a + b, (0,))) == ["reduce_sum"]
    assert names(lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2))) == ["reduce_window_max"]
    assert names(lambda x: lax.reduce(x, 1.0, lax.add, (0,))) == ["reduce"]
    assert names(lambda x: lax.reduce_window(x, x[0, 0], lax.max, (2, 2)))[-1] == "reduce_window"


def test_what_a_function_closes_over() -> None:
    shift = np.arange(3.0)
    found = lax.reduce(X, 0.0, lambda a, b: a + b + lax.reduce_sum(shift, (0,)) * a * b, (0,))
    expected = lax.reduce(X, 0.0, lambda a, b: a + b + 3.0 * a * b, (0,))
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected))
    with pytest.raises(InputError, match=r"reduce: .* closes over a value that is traced"):
        tj.grad(lambda s: lax.reduce(X, 0.0, lambda a, b: a + b + s * a * b, (0, 1)))(1.0)


@pytest.mark.parametrize("scatter", ["add", "mul", "max", "min"])
def test_select_and_scatter(scatter: str) -> None:
    source = numbers("float64", 4, 3)
    padding = ((1, 0), (2, 1))

    def ours(x: Any, s: Any) -> Any:
        return lax.select_and_scatter(x, lax.ge, (2, 3), (1, 2), padding, s, 0.5, getattr(lax, scatter))

    np.testing.assert_allclose(np.asarray(ours(X, source)), np.asarray(tj.jit(ours)(X, source)))
    if scatter == "add":
        expected = lax.select_and_scatter_add(source, X, "ge", (2, 3), (1, 2), padding) + 0.5
        np.testing.assert_allclose(np.asarray(ours(X, source)), np.asarray(expected))


@pytest.mark.parametrize("padding", ["VALID", ((1, 0), (2, 1))])
def test_any_function_combines_what_is_scattered(padding: Any) -> None:
    """On the host one after the other, in the order that XLA has."""
    source = numbers("float64", *lax.reduce_window(X, 0.0, lax.add, (2, 3), (1, 2), padding).shape)

    def ours(s: Any) -> Any:
        return lax.select_and_scatter(X, lax.ge, (2, 3), (1, 2), padding, s, 0.5, lambda a, b: a + 0.5 * b * b)

    np.testing.assert_allclose(np.asarray(ours(source)), np.asarray(tj.jit(ours)(source)), rtol=1e-12)
    direction = np.ones_like(source)
    (pulled,) = tj.vjp(ours, source)[1](np.ones_like(X))
    steps = [np.asarray(ours(source + h * direction)).sum() for h in (1e-5, -1e-5)]
    np.testing.assert_allclose(np.asarray(pulled).sum(), (steps[0] - steps[1]) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize("function", ["add", "mul", "max"])
@pytest.mark.parametrize("weak", [False, True])
@pytest.mark.parametrize("neutral", [False, True])
def test_reduced_as_weakly_as_both(function: str, weak: bool, neutral: bool) -> None:
    """The result is weakly typed where the operand and the initial value are, as in jax, eagerly and compiled."""
    start = {"add": 0, "mul": 1, "max": np.iinfo(np.int64).min}[function] if neutral else 3
    for operand in (lax.full((4,), 2), tj.numpy.arange(4)):
        first = start if weak else np.int64(start)
        theirs = jax.lax.full((4,), 2) if operand.weak_type else jax.numpy.arange(4)
        expected = jax.lax.reduce(theirs, first, getattr(jax.lax, function), (0,))

        def reduced(x: Any, y: Any) -> Any:
            return lax.reduce(x, y, getattr(lax, function), (0,))

        for found in (reduced(operand, first), tj.jit(reduced)(operand, first)):
            assert (found.weak_type, int(found)) == (expected.weak_type, int(expected))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: lax.reduce(X, np.float32(0), lax.add, (0,)), TypingError, "initial value of operand f64.* got f32"),
        (lambda: lax.reduce(X, np.zeros(2), lax.sub, (0,)), ShapeError, "must be a scalar"),
        (lambda: lax.reduce(X, 0.0, lax.sub, (2,)), ShapeError, r"axes \(2,\) are not distinct axes"),
        (lambda: lax.reduce((X, X[0]), (0.0, 0.0), _pair, (0,)), ShapeError, "must have one shape"),
        (lambda: lax.reduce(X, 0.0, lax.lt, (0,)), TypingError, r"reduce: .* must return \(f64\[\]\), got \(bool"),
        (lambda: lax.reduce((), (), lax.lt, (0,)), InputError, "at least one operand"),
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2,)), ShapeError, "need a number for each of the 2 axes"),
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 0)), ShapeError, "window_dimensions must be at least 1"),
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2, -1)), ShapeError, r"at least 1, got \(2, -1\)"),
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (1, 0)), ShapeError, "window_strides must be at least 1"),
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), None, "FULL"), InputError, "padding is 'VALID'"),
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), None, [(0, -9), (0, 0)]), ShapeError, "removes more"),
        (lambda: lax.select_and_gather_add(X, X, "gt", (2, 2)), ParameterError, "select_prim is 'ge' .* got 'gt'"),
        (lambda: lax.select_and_gather_add(X[0], X, "ge", (2, 2)), ShapeError, "must have one shape"),
        (lambda: lax.select_and_scatter_add(X, X, "ge", (2, 2)), ShapeError, "needs an element for each window"),
    ],
)
def test_errors(call: Callable[[], object], error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
