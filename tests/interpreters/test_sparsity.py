"""Patterns of Jacobians: never too small, and exact where they can be; and Jacobians found with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import tinyjax as tj
from tests.interpreters.test_bounds_of_primitives import primitives
from tinyjax import ShapedArray, lax
from tinyjax import numpy as tnp
from tinyjax.control.recursion import Enclosing
from tinyjax.errors import InputError, MissingRuleError
from tinyjax.interpreters import color_columns, jacobian_sparsity, sparse_jacobian
from tinyjax.interpreters.sparsity import RULES

N = 6
X = np.linspace(0.1, 1.0, N)
BAND = np.diag(np.ones(N)) + np.diag(np.ones(N - 1), 1)
Function = Callable[[Any], Any]


@tj.custom_jvp
def special(x: Any) -> Any:
    return x * x


special.defjvp(lambda primals, tangents: (special(primals[0]), 2.0 * primals[0] * tangents[0]))

#: Functions whose pattern is exact at X, and how many colors they need.
EXACT: dict[str, tuple[Function, int]] = {
    "elementwise": (lambda x: tnp.sin(x) * x + 1.0, 1),
    "constant matrix": (lambda x: tnp.sin(BAND @ x) * x, 2),
    "masked": (lambda x: x * np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0]), 1),
    "cumsum": (lambda x: tnp.cumsum(x * x), 6),
    "cumprod": (tnp.cumprod, 6),
    "sum": (lambda x: tnp.sum(x.reshape(2, 3) ** 2, 1), 3),
    "prod": (tnp.prod, 6),
    "flip": (lambda x: x[::-1] * x, 2),
    "gather": (lambda x: x[np.array([0, 0, 5, 1])] ** 2, 1),
    "update": (lambda x: x.at[2].set(5.0).at[0].add(x[1]), 2),
    "shapes": (lambda x: tnp.concatenate([x[1:3], tnp.pad(x[:2], 1)]).reshape(2, 3).T, 1),
    "split": (lambda x: tnp.split(x, 2)[0] * tnp.split(x, 2)[1], 2),
    "steps": (lambda x: tnp.floor(x) + (x > 0.5) + x[0], 1),
    "roll": (lambda x: lax.fori_loop(0, 2, lambda i, c: tnp.roll(c, 1) * x, x), 3),
    "jit": (tj.jit(lambda x: tj.jit(tnp.diff)(x) ** 2), 2),
    "checkpoint": (tj.checkpoint(lambda x: tnp.diff(x) ** 2), 2),
    "custom_jvp": (special, 1),
    "map": (lambda x: lax.map(tnp.sin, x), 1),
    "scan": (lambda x: lax.scan(lambda c, v: (c + v, c * v), 1.0, x)[1], 6),
    "scan of constants": (lambda x: lax.scan(lambda c, i: (c, x[i]), 0.0, np.arange(3))[1], 1),
    "known branch": (lambda x: lax.cond(True, lambda x: x * 2.0, tnp.cumsum, x), 1),
    "known selector": (lambda x: tnp.where(np.arange(N) > 2, x, x[::-1]), 1),
    "while": (lambda x: lax.while_loop(lambda c: c[0] < 2.0, lambda c: (c[0] + 1.0, c[1] * x), (x[0], x))[1], 1),
    "no results": (lambda x: tnp.zeros(0), 0),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact(name: str) -> None:
    f, colors = EXACT[name]
    dense = np.asarray(tj.jacfwd(f)(X))
    pattern = jacobian_sparsity(f, X)
    np.testing.assert_array_equal(pattern, dense.reshape(pattern.shape) != 0)
    found = sparse_jacobian(f)(X)
    np.testing.assert_allclose(found.todense(), dense)
    assert found.num_colors == max(colors, 1)
    assert found.values.size == pattern.sum()


#: Functions where it depends on the values, so that the pattern has to allow for more.
SAFE: dict[str, Function] = {
    "branch": lambda x: lax.cond(x[0] > 3.0, lambda x: x * 2.0, lambda x: x[::-1], x),
    "where": lambda x: tnp.where(x > 0.5, x, x[::-1]),
    "sort": lambda x: tnp.sort(x, axis=0),
    "max": lambda x: tnp.max(x.reshape(2, 3), 1),
    "unknown index": lambda x: x[tnp.argmax(x)] * x[:2],
    "while": lambda x: lax.while_loop(lambda c: c[0] < 5.0, lambda c: tnp.roll(c, 1) + 1.0, x),
    "dynamic slice": lambda x: lax.dynamic_slice(x, (tnp.argmin(x),), (2,)),
}


@pytest.mark.parametrize("name", SAFE)
@pytest.mark.parametrize("seed", range(3))
def test_safe(name: str, seed: int) -> None:
    f = SAFE[name]
    x = np.random.default_rng(seed).uniform(size=N)
    dense = np.asarray(tj.jacfwd(f)(x))
    pattern = jacobian_sparsity(f, ShapedArray((N,), "float64"))
    assert not np.any(dense.reshape(pattern.shape)[~pattern])
    np.testing.assert_allclose(sparse_jacobian(f)(x).todense(), dense)


def test_a_banded_problem_takes_fewer_columns_than_jacfwd() -> None:
    n = 200

    def heat(u: Any) -> Any:
        return tnp.concatenate([u[:1], u[:-2] - 2.0 * u[1:-1] ** 2 + u[2:], u[-1:]])

    u = np.linspace(0.0, 1.0, n)
    assert sparse_jacobian(heat)(u).num_colors == 3
    program = tj.make_jaxpr(lambda u: sparse_jacobian(heat)(u).values)(u)
    full = tj.make_jaxpr(tj.jacfwd(heat))(u)

    def columns(closed: tj.ClosedJaxpr) -> int:
        """The largest batch of tangents, which are the arrays of two axes, one of them as long as a result."""
        shapes = [var.aval.shape for eqn in closed.eqns for var in eqn.outvars if var.aval.ndim == 2]
        return max(min(shape) for shape in shapes)

    assert columns(program) == 3
    assert columns(full) >= n - 2


def test_compositions() -> None:
    def f(x: Any) -> Any:
        return tnp.diff(x) ** 2

    dense = tj.jacfwd(f)
    jacobian = lambda x: sparse_jacobian(f)(x).todense()  # noqa: E731
    np.testing.assert_allclose(tj.jit(jacobian)(X), dense(X), rtol=1e-6)
    np.testing.assert_allclose(tj.vmap(jacobian)(np.stack([X, X + 1])), tj.vmap(dense)(np.stack([X, X + 1])))
    np.testing.assert_allclose(tj.jacfwd(jacobian)(X), tj.jacfwd(dense)(X))


def test_arguments() -> None:
    def f(a: Any, tree: Any) -> Any:
        return {"p": a * tree[0], "q": tree[1][:2]}

    types = (ShapedArray((2,), "float32"), [ShapedArray((), "float32"), ShapedArray((3,), "float32")])
    found = jacobian_sparsity(f, *types, argnums=1)
    np.testing.assert_array_equal(found, [[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
    np.testing.assert_array_equal(jacobian_sparsity(f, *types), [[1, 0], [0, 1], [0, 0], [0, 0]])
    dense = sparse_jacobian(lambda a, b: a * b, argnums=1)(2.0, X).todense()
    np.testing.assert_allclose(dense, 2.0 * np.eye(N))


@settings(max_examples=30, deadline=None)
@given(arrays(np.bool_, st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_colors(pattern: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
    colors = color_columns(pattern)
    for row in pattern:
        assert len(set(colors[row])) == row.sum()
    assert set(colors) == set(range(colors.max(initial=-1) + 1))


def test_python_functions_are_not_run() -> None:
    calls: list[object] = []

    @tj.custom_jvp
    def called(x: Any) -> Any:
        tj.debug.print("x is {}", x)
        return tj.pure_callback(calls.append, ShapedArray((2,), "float64"), x[:2])

    called.defjvp(lambda primals, tangents: (called(*primals), tnp.cos(primals[0][:2]) * tangents[0][:2]))
    np.testing.assert_array_equal(jacobian_sparsity(lambda x: called(x) * x[3], X)[0], [1, 0, 0, 1, 0, 0])
    assert not calls


def test_named_axes() -> None:
    def f(x: Any) -> Any:
        return lax.psum(x, "i")[1:] * x[:-1] + lax.axis_index("i") + lax.pmax(x[0], "i")

    found: list[Any] = []

    def mapped(x: Any) -> Any:
        found.append(jacobian_sparsity(f, x))
        return x

    tj.vmap(mapped, axis_name="i")(np.ones((2, 3)))
    np.testing.assert_array_equal(found[0], [[1, 1, 0], [1, 1, 1]])


def test_every_primitive_has_a_rule() -> None:
    assert [cls.name for cls in primitives() if cls not in RULES] == ["enclosing"]


def test_errors() -> None:
    with pytest.raises(InputError, match="one array as result"):
        sparse_jacobian(lambda x: (x, x))(X)
    with pytest.raises(MissingRuleError, match="'enclosing' not implemented: it stands for the primitive whose rule"):
        raise RULES.missing_rule(Enclosing)
