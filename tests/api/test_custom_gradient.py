"""`custom_gradient`, and the small functions of `custom_derivatives`, compared with jax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import custom_derivatives
from tinyjax.errors import ForwardModeError, InputError, TinyjaxError, TreeError

F = TypeVar("F")
X = np.array([0.5, -1.0, 2.0], np.float32)


def functions(lib: Any, xp: Any) -> dict[str, Callable[..., Any]]:
    """Functions of an array, in this library or in jax."""

    def custom_gradient(fun: F) -> F:
        made: F = lib.custom_gradient(fun)
        return made

    @custom_gradient
    def log1pexp(x: Any) -> Any:
        e = xp.exp(x)
        return xp.log1p(e), lambda ct: ct * (1 - 1 / (1 + e))

    @custom_gradient
    def pair(x: Any, y: Any) -> Any:
        return (x * y, {"s": xp.sin(y)}), lambda ct: (3.0 * ct[0] * y, ct[0] * x + 5.0 * ct[1]["s"] * xp.cos(y))

    @custom_gradient
    def of_tree(p: Any) -> Any:
        return p["w"] * p["b"], lambda ct: ({"w": 2.0 * ct * p["b"], "b": ct},)

    @custom_gradient
    def wrong(x: Any) -> Any:  # so that it is this rule that is seen
        return xp.sin(x), lambda ct: 7.0 * ct

    @custom_gradient
    def through_integers(x: Any) -> Any:
        return (x * 2.0, xp.argmax(x)), lambda ct: ct[0] * 11.0

    def loss_of_pair(x: Any) -> Any:
        product, more = pair(x, y=x**2) if lib is tj else pair(x, x**2)
        return product + more["s"]

    outer = xp.asarray(X) * 3.0

    @custom_gradient
    def closing(x: Any) -> Any:
        return x * outer, lambda ct: ct * outer * 2.0

    return {
        "log1pexp": log1pexp,
        "pair": loss_of_pair,
        "tree": lambda x: of_tree({"w": x, "b": x + 1.0}),
        "wrong": wrong,
        "integers": lambda x: through_integers(x)[0],
        "closing": closing,
        "nested": lambda x: wrong(log1pexp(x)) * x,
        "scan": lambda x: lib.lax.scan(lambda c, row: (wrong(c) * row, c), xp.sum(x), x)[1],
    }


OURS, JAX = functions(tj, tnp), functions(jax, jnp)

TRANSFORMED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "value": lambda lib, xp, f: f(X),
    "grad": lambda lib, xp, f: lib.grad(lambda x: xp.sum(f(x)))(X),
    "jit": lambda lib, xp, f: lib.jit(f)(X),
    "jit of grad": lambda lib, xp, f: lib.jit(lib.grad(lambda x: xp.sum(f(x))))(X),
    "grad of jit": lambda lib, xp, f: lib.grad(lib.jit(lambda x: xp.sum(f(x))))(X),
    "vmap of grad": lambda lib, xp, f: lib.vmap(lib.grad(lambda x: xp.sum(f(x))))(np.stack([X, 2 * X])),
    "grad of vmap": lambda lib, xp, f: lib.grad(lambda x: xp.sum(lib.vmap(f)(x)))(np.stack([X, 2 * X])),
    "grad of grad": lambda lib, xp, f: lib.grad(lambda x: xp.sum(lib.grad(lambda x: xp.sum(f(x)))(x)))(X),
    "checkpoint": lambda lib, xp, f: lib.grad(lambda x: xp.sum(lib.checkpoint(f)(x)))(X),
}


@pytest.mark.sweep
@pytest.mark.parametrize("transformed", TRANSFORMED)
@pytest.mark.parametrize("name", OURS)
def test_as_in_jax(name: str, transformed: str) -> None:
    apply = TRANSFORMED[transformed]
    found, expected = apply(tj, tnp, OURS[name]), apply(jax, jnp, JAX[name])
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=2e-5, atol=1e-6)


def test_integer_arguments_and_none() -> None:
    @tj.custom_gradient
    def scaled(x: Any, n: Any, y: Any) -> Any:
        return x * n, lambda ct: (ct * 4.0, None, None)

    assert tj.grad(scaled, argnums=(0, 2))(2.0, 3, 1.0) == (4.0, 0.0)


def test_it_is_called_by_name() -> None:
    @tj.custom_gradient
    def f(x: Any, by: Any = 2.0) -> Any:
        """Scales."""
        return x * by, lambda ct: (ct * by, ct * x)

    assert f.__doc__ == "Scales."
    assert f(by=5.0, x=3.0) == 15.0
    assert tj.grad(lambda y: f(3.0, by=y))(5.0) == 3.0


def test_forward_mode_says_why_not() -> None:
    with pytest.raises(ForwardModeError, match="'log1pexp' is for reverse mode"):
        tj.jvp(OURS["log1pexp"], (X,), (X,))


@pytest.mark.parametrize("pair", [1.0, (1.0,), (1.0, 2.0), [1.0, lambda ct: ct], None])
def test_errors_of_pairs(pair: Any) -> None:
    def bad(x: Any) -> Any:
        return pair

    for call in (tj.custom_gradient(bad), tj.grad(tj.custom_gradient(bad))):
        with pytest.raises(
            InputError, match=r"custom_gradient of bad .*must return a pair: its results, and a function"
        ):
            call(1.0)


@pytest.mark.parametrize("returned", [(1.0, 2.0), {"x": 1.0}, np.ones(3)])
def test_errors_of_cotangents(returned: Any) -> None:
    f = tj.custom_gradient(lambda x: (x * 2.0, lambda ct: returned))
    with pytest.raises(TinyjaxError):
        tj.grad(f)(1.0)


def test_no_function() -> None:
    not_callable: Any = 3
    with pytest.raises(InputError):
        tj.custom_gradient(not_callable)


def test_zeros_from_primals() -> None:
    primals = {"x": X, "n": np.arange(3), "z": (1.0, np.complex64(1j))}
    ours = custom_derivatives.zero_from_primal(primals)
    theirs = jax.custom_derivatives.zero_from_primal(primals)
    assert tj.tree.structure(ours) == jax.tree.structure(theirs)
    for found, expected in zip(tj.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert found.shape == expected.shape
        assert (found.dtype == tj.float0) == (expected.dtype == jax.dtypes.float0)
        assert found.dtype == tj.float0 or not np.any(np.asarray(found))
    symbolic = custom_derivatives.zero_from_primal(primals, symbolic_zeros=True)
    assert all(isinstance(leaf, tj.SymbolicZero) for leaf in tj.tree.leaves(symbolic))
    assert symbolic["x"].aval == ours["x"].aval
    assert symbolic["n"].dtype == tj.float0


def test_rules_with_symbolic_zeros_use_them() -> None:
    marks: list[Any] = []

    @tj.custom_vjp
    def f(p: Any, y: Any) -> Any:
        return p["w"] * y

    def fwd(*primals: Any) -> Any:
        marks.append(tj.tree.map(lambda x: x.perturbed, primals))
        p, y = custom_derivatives.custom_vjp_primal_tree_values(primals)
        return f(p, y), (p, y)

    def bwd(residuals: Any, ct: Any) -> Any:
        _, y = residuals
        return {"w": ct * y}, custom_derivatives.zero_from_primal(y)

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    assert tj.grad(f)({"w": 2.0}, 3.0) == {"w": 3.0}
    assert marks == [({"w": True}, False)]
    assert tj.grad(f, argnums=1)({"w": 2.0}, 3.0) == 0.0


def test_trees_must_be_those_of_the_arguments() -> None:
    f = tj.custom_gradient(lambda p: (p["w"], lambda ct: ({"v": ct},)))
    with pytest.raises(TreeError, match="custom_vjp function <lambda>"):
        tj.grad(f)({"w": 1.0})


def test_public_names() -> None:
    for name in custom_derivatives.__all__:
        assert hasattr(jax.custom_derivatives, name) or hasattr(jax, name)
        assert getattr(tj, name, getattr(custom_derivatives, name)) is getattr(custom_derivatives, name)
