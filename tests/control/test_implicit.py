"""Solutions of equations: values and derivatives against jax's, whatever function computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import InputError, ParameterError, ShapeError, TinyjaxError, TreeError
from tinyjax.interop.jax import from_jax, to_jax
from tinyjax.ir.dtypes import HostArray
from tinyjax.testing import check_laws

_RNG = np.random.default_rng(0)
A = _RNG.normal(size=(3, 3)) + 4 * np.eye(3)
B = _RNG.normal(size=3)


def solver(lax: Any, np_: Any) -> Callable[..., Any]:  # jax's modules, or ours
    """The solution of linear equations, by factors that have no derivatives."""

    def solved(factors: Any, order: Any, b: Any, transpose: bool) -> Any:
        solve = lax.linalg.triangular_solve
        if transpose:
            x = solve(factors, b, left_side=True, transpose_a=True)
            x = solve(factors, x, left_side=True, lower=True, unit_diagonal=True, transpose_a=True)
            return x[np_.argsort(order)]
        x = solve(factors, b[order], left_side=True, lower=True, unit_diagonal=True)
        return solve(factors, x, left_side=True)

    def solve(a: Any, b: Any) -> Any:
        factors, _, order = lax.linalg.lu(lax.stop_gradient(a))
        return lax.custom_linear_solve(
            lambda x: a @ x, b,
            lambda _, y: solved(factors, order, y, False), lambda _, y: solved(factors, order, y, True),
        )  # fmt: skip

    return solve


def rooter(lax: Any, np_: Any) -> Callable[..., Any]:
    """The cubic root, by a loop without derivatives in reverse mode."""

    def newton(f: Callable[[Any], Any], x: Any) -> Any:
        def step(state: Any) -> Any:
            return state[0] - f(state[0]) / (3 * state[0] ** 2), abs(f(state[0]))

        return lax.while_loop(lambda state: state[1] > 1e-14, step, (x, np_.asarray(1.0)))[0]

    def root(a: Any) -> Any:
        return lax.custom_root(lambda x: x**3 - a, np_.asarray(1.0), newton, lambda g, y: y / g(1.0))

    return root


SOLVE, THEIR_SOLVE = solver(lax, tnp), solver(jax.lax, jnp)
ROOT, THEIR_ROOT = rooter(lax, tnp), rooter(jax.lax, jnp)


def close(found: object, expected: object) -> None:
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-8, 1e-9)


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: (f(*args) ** 2).sum()


@pytest.mark.sweep
def test_linear_equations() -> None:
    both = (0, 1)
    close(SOLVE(A, B), THEIR_SOLVE(A, B))
    close(tj.jvp(SOLVE, (A, B), (A * 0.1, B)), jax.jvp(THEIR_SOLVE, (A, B), (A * 0.1, B)))
    expected = jax.grad(total(THEIR_SOLVE), both)(A, B)
    close(tj.grad(total(SOLVE), both)(A, B), expected)
    close(tj.jit(tj.grad(total(SOLVE), both))(A, B), expected)


@pytest.mark.sweep
def test_second_derivatives() -> None:
    both = (0, 1)
    close(tj.hessian(total(SOLVE), both)(A, B), jax.hessian(total(THEIR_SOLVE), both)(A, B))


@pytest.mark.sweep
@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)])
def test_batches_of_linear_equations(axes: tuple[int | None, int | None]) -> None:
    args = [x if axis is None else np.stack([x, x + 1]) for x, axis in zip((A, B), axes, strict=True)]
    close(tj.vmap(SOLVE, axes)(*args), jax.vmap(THEIR_SOLVE, axes)(*args))
    gradients = (tj.grad(total(SOLVE), (0, 1)), jax.grad(total(THEIR_SOLVE), (0, 1)))
    close(tj.vmap(gradients[0], axes)(*args), jax.vmap(gradients[1], axes)(*args))


@pytest.mark.sweep
def test_roots() -> None:
    close(ROOT(8.0), 2.0)
    close(tj.grad(ROOT)(8.0), jax.grad(THEIR_ROOT)(8.0))
    close(tj.grad(tj.grad(ROOT))(8.0), jax.grad(jax.grad(THEIR_ROOT))(8.0))
    close(tj.jit(tj.jacfwd(ROOT))(8.0), jax.grad(THEIR_ROOT)(8.0))
    many = np.array([1.0, 8.0])
    close(tj.vmap(tj.grad(ROOT))(many), jax.vmap(jax.grad(THEIR_ROOT))(many))


def test_trees_and_what_else_is_found() -> None:
    tree = {"x": np.ones(2), "y": np.float64(3.0)}
    diagonal = {"x": np.array([2.0, 4.0]), "y": np.float64(5.0)}

    def times(d: Any, x: Any) -> Any:
        return tj.tree.map(lambda a, b: a * b, d, x)

    def f(d: Any, b: Any) -> Any:
        def solve(_: object, y: Any) -> Any:
            return tj.tree.map(lambda a, b: b / a, d, y), {"steps": 7}

        return lax.custom_linear_solve(lambda x: times(d, x), b, solve, symmetric=True, has_aux=True)

    x, aux = f(diagonal, tree)
    close((x, aux["steps"]), ({"x": np.array([0.5, 0.25]), "y": 0.6}, 7))
    gradient = tj.grad(lambda d: f(d, tree)[0]["x"].sum())(diagonal)
    close(gradient, {"x": np.array([-0.25, -0.0625]), "y": 0.0})

    def root(a: Any) -> Any:
        return lax.custom_root(
            lambda x: {"x": x["x"] ** 2 - a}, {"x": 1.0}, lambda _, x: ({"x": a**0.5}, 3),
            lambda g, y: {"x": y["x"] / g({"x": 1.0})["x"]}, has_aux=True,
        )  # fmt: skip

    close(root(4.0), ({"x": 2.0}, 3))
    close(tj.grad(lambda a: root(a)[0]["x"])(4.0), 0.25)


@pytest.mark.sweep
def test_laws_and_jax() -> None:
    cases: list[tuple[Callable[..., Any], Callable[..., Any], tuple[HostArray, ...]]] = [
        (SOLVE, THEIR_SOLVE, (A, B)), (ROOT, THEIR_ROOT, (np.asarray(8.0),)),
    ]  # fmt: skip
    for ours, theirs, args in cases:
        program = tj.make_jaxpr(ours)(*args)
        check_laws(program, args)
        given = to_jax(program)
        close(given(*args), theirs(*args))
        close(jax.grad(total(given))(*args), jax.grad(total(theirs))(*args))
        for f in (theirs, jax.grad(total(theirs))):
            taken = from_jax(jax.make_jaxpr(f)(*args))
            close(tj.eval_jaxpr(taken.jaxpr, taken.consts, *args)[0], f(*args))


def twice(x: Any) -> Any:
    return x, x


def alone(_: object, y: Any) -> Any:
    return y


def test_text_of_jax() -> None:
    text = str(jax.make_jaxpr(lambda d, b: jax.lax.custom_linear_solve(
        lambda x: d * x, b, lambda _, y: y / d, lambda _, y: y / d))(B, B))  # fmt: skip
    program = tj.ir.parse(text)
    assert tj.ir.parse(str(program)) == program
    close(tj.eval_jaxpr(program, (), B, B), [B / B])


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda: lax.custom_linear_solve(lambda x: x[:1], B, alone), ShapeError, "match b, which is f64.3.; .* f64.1."),
        (lambda: lax.custom_linear_solve(twice, B, lambda _, y: y), TreeError, "what .* returns"),
        (lambda: lax.custom_linear_solve(lambda x: x, B, alone, has_aux=True), InputError, "a pair"),
        (lambda: lax.custom_linear_solve(lambda x: x, np.ones(2, int), lambda _, y: y), InputError, "must be floating"),
        (
            lambda: tj.grad(lambda b: lax.custom_linear_solve(lambda x: 2.0 * x, b, lambda _, y: y / 2).sum())(B),
            ParameterError, "transpose_solve required .* symmetric=True",
        ),
        (lambda: lax.custom_root(lambda x: x[:2], B, lambda _, x: x, lambda g, y: y), ShapeError, "f64.3.; .* f64.2."),
    ],
)  # fmt: skip
def test_errors(f: Callable[[], object], error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        f()
