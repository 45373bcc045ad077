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
from tinyjax.errors import ForwardModeError, InputError, MissingRuleError
from tinyjax.interpreters import color_columns, jacobian_sparsity, sparse_jacobian
from tinyjax.interpreters.sparse_jacobian import Mode
from tinyjax.interpreters.sparsity import SPARSITY_RULES
from tinyjax.ir.primitive import Primitive

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
    "fft": (lambda x: tnp.real(tnp.fft.rfft(x.reshape(2, 3))) ** 2, 3),
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


def of_trees(a: Any, p: Any, c: Any) -> Any:
    return {"y": tnp.diff(p["w"]) * c, "z": (a * p["b"][:2], p["w"].sum()), "n": p["b"][::2].astype("float32")}


TREES = (np.float64(2.0), {"b": np.arange(1.0, 4.0), "w": np.arange(4.0) ** 2}, np.float64(0.5))


@pytest.mark.parametrize("argnums", [0, 1, 2, (1,), (0, 1), (2, 1), (1, 2, 0), -1])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_trees(argnums: Any, mode: Any) -> None:
    expected = tj.jacfwd(of_trees, argnums)(*TREES)
    found = sparse_jacobian(of_trees, argnums, mode=mode)(*TREES)
    dense = found.todense()
    assert tj.tree.structure(dense) == tj.tree.structure(expected)
    for one, other in zip(tj.tree.leaves(dense), tj.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other)
        assert one.dtype == other.dtype
    assert found.reverse == (mode == "reverse")
    assert len(found.colors) == found.matrix_shape[0 if found.reverse else 1]
    total = sum(float(np.sum(block)) for block in tj.tree.leaves(expected))
    np.testing.assert_allclose(np.sum(found.values), total)


def test_names_and_no_results() -> None:
    dense = sparse_jacobian(lambda x, *, by: x * by)(X, by=3.0).todense()
    np.testing.assert_array_equal(dense, 3.0 * np.eye(N))
    assert sparse_jacobian(lambda x: ())(X).todense() == ()
    assert sparse_jacobian(lambda x: ())(X).num_colors == 1


def test_a_gradient_takes_one_derivative_in_reverse() -> None:
    found = sparse_jacobian(lambda x: tnp.sum(x**2), mode="reverse")(X)
    np.testing.assert_allclose(found.todense(), 2 * X)
    assert found.num_colors == 1


def test_complex() -> None:
    z = np.array([1.0 + 2j, 0.5, -1j])
    modes: tuple[Mode, ...] = ("forward", "reverse")
    for f in (tnp.exp, tnp.diff):
        expected = tj.jacfwd(f, holomorphic=True)(z)
        for mode in modes:
            np.testing.assert_allclose(sparse_jacobian(f, holomorphic=True, mode=mode)(z).todense(), expected)


@tj.custom_vjp
def doubled(x: Any) -> Any:
    return 2.0 * x


doubled.defvjp(lambda x: (doubled(x), None), lambda _, ct: (2.0 * ct,))


@pytest.mark.parametrize(
    "f",
    [
        doubled,
        lambda x: tnp.diff(doubled(x)) ** 2,
        lambda x: lax.scan(lambda c, row: (c, doubled(row) * c), x[0], x)[1],
        lambda x: lax.cond(x[0] > -5.0, doubled, lambda x: x, x),
        tj.jit(lambda x: tnp.diff(doubled(x) * x)),
        lambda x: tj.vmap(doubled)(x.reshape(2, -1)),
    ],
)
def test_functions_with_a_rule_for_reverse_mode(f: Any) -> None:
    x = np.linspace(1.0, 2.0, N)
    found = sparse_jacobian(f)(x)
    assert found.reverse
    np.testing.assert_allclose(found.todense(), tj.jacrev(f)(x))
    jitted = tj.jit(lambda x: sparse_jacobian(f)(x).todense())
    np.testing.assert_allclose(jitted(x), tj.jacrev(f)(x))


@settings(max_examples=30, deadline=None)
@given(arrays(np.bool_, st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_colors(pattern: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
    colors = color_columns(pattern)
    for row in pattern:
        assert len(set(colors[row])) == row.sum()
    assert set(colors) == set(range(int(np.max(colors, initial=-1)) + 1))


def test_python_functions_are_not_run() -> None:
    calls: list[object] = []

    @tj.custom_jvp
    def called(x: Any) -> Any:
        tj.debug.print("x is {}", x)
        return tj.pure_callback(calls.append, ShapedArray((2,), "float64"), x[:2])

    called.defjvp(lambda primals, tangents: (called(*primals), tnp.cos(primals[0][:2]) * tangents[0][:2]))
    np.testing.assert_array_equal(jacobian_sparsity(lambda x: called(x) * x[3], X)[0], [1, 0, 0, 1, 0, 0])
    assert not calls


def test_rules_that_apply_their_own_function() -> None:
    """To tangents or cotangents, in which it is linear."""

    @tj.custom_jvp
    def forwards(x: Any, y: Any) -> Any:
        return tnp.sin(x) * y

    forwards.defjvp(lambda xs, ts: (forwards(*xs), tnp.cos(xs[0]) * xs[1] * ts[0] + forwards(xs[0], ts[1])))

    @tj.custom_vjp
    def backwards(x: Any) -> Any:
        return 3 * x

    backwards.defvjp(lambda x: (backwards(x), None), lambda _, ct: (backwards(ct),))
    for function in (lambda y: forwards(X, y), lambda y: tj.vmap(forwards)(X, y), backwards, tj.vmap(backwards)):
        np.testing.assert_array_equal(jacobian_sparsity(function, X), np.eye(X.size))


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
    opaque = [cls for cls in primitives() if cls.expand is Primitive.expand]
    assert [cls.name for cls in opaque if cls not in SPARSITY_RULES] == ["enclosing"]


def test_errors() -> None:
    with pytest.raises(InputError, match=r"needs arguments of .*, or leave it out of argnums\."):
        sparse_jacobian(lambda x: x * 2)(np.arange(3))
    with pytest.raises(InputError, match="pass holomorphic=True"):
        sparse_jacobian(lambda x: x * 2)(np.ones(3) * 1j)
    with pytest.raises(InputError, match="needs floating-point results; it returned i64"):
        sparse_jacobian(lambda x: np.arange(3))(X)
    with pytest.raises(InputError, match="names an argument twice"):
        sparse_jacobian(lambda x: x * 2, argnums=(0, 0))(X)
    unknown: Any = "both"
    with pytest.raises(InputError, match="mode is 'auto', 'forward' or 'reverse', not 'both'"):
        sparse_jacobian(lambda x: x * 2, mode=unknown)
    with pytest.raises(ForwardModeError, match="'doubled' is for reverse mode"):
        sparse_jacobian(doubled, mode="forward")(X)
    with pytest.raises(MissingRuleError, match="'enclosing' not implemented: it stands for the primitive whose rule"):
        raise SPARSITY_RULES.missing_rule(Enclosing)
