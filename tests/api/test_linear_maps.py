"""The functions that `linearize`, `vjp` and `linear_transpose` return are nodes of trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax, tree
from tinyjax.api.linear_maps import NotSaved
from tinyjax.errors import InputError, TreeError


def f(p: dict[str, tj.Array], x: tj.Array) -> tuple[tj.Array, dict[str, tj.Array]]:
    return tnp.sin(p["a"] * x), {"sum": (x * x).sum()}


P: dict[str, tj.Array] = {"a": tnp.asarray(0.5)}
X = tnp.asarray(np.arange(3.0))
MADE: dict[str, Callable[[dict[str, tj.Array], tj.Array], Any]] = {
    "vjp": lambda p, x: tj.vjp(f, p, x)[1],
    "linearize": lambda p, x: tj.linearize(f, p, x)[1],
    "linear_transpose": lambda p, x: tj.linear_transpose(lambda y: p["a"] * y * x, x),
}
GIVEN: dict[str, tuple[object, ...]] = {
    "vjp": ((tnp.ones(3), {"sum": 2.0}),),
    "linearize": ({"a": 1.0}, tnp.ones(3)),
    "linear_transpose": (tnp.ones(3),),
}


def assert_same(x: object, y: object) -> None:
    assert tj.tree.structure(x) == tj.tree.structure(y)
    for a, b in zip(tj.tree.leaves(x), tj.tree.leaves(y), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("name", MADE)
def test_compiled_functions_return_and_take_them(name: str) -> None:
    make, given = MADE[name], GIVEN[name]
    expected = make(P, X)(*given)
    compiled = tj.jit(make)(P, X)
    assert_same(compiled(*given), expected)
    assert_same(tj.jit(lambda linear, *args: linear(*args))(compiled, *given), expected)
    assert_same(tj.jit(tj.checkpoint(make))(P, X)(*given), expected)


@pytest.mark.parametrize("name", MADE)
def test_mapped_and_differentiated(name: str) -> None:
    make, given = MADE[name], GIVEN[name]
    batch = tnp.stack([X, 2 * X, 3 * X])
    stacked = tj.vmap(make, in_axes=(None, 0))(P, batch)
    each = [make(P, x)(*given) for x in batch]
    found = tj.vmap(lambda linear: linear(*given))(stacked)
    assert_same(found, tj.tree.map(lambda *xs: tnp.stack(xs), *each))

    def total(make: Callable[..., Any]) -> Callable[[tj.Array], tj.Array]:
        return lambda x: sum((leaf.sum() for leaf in tj.tree.leaves(make(P, x)(*given))), tnp.asarray(0.0))

    assert_same(tj.grad(total(tj.jit(make)))(X), tj.grad(total(make))(X))


def test_residuals_of_rules() -> None:
    """As a rule of reverse mode that asks another function for its derivative."""

    @tj.custom_vjp
    def g(x: tj.Array) -> tj.Array:
        return tnp.sin(x)

    def fwd(x: tj.Array) -> tuple[tj.Array, Any]:
        return tj.vjp(tnp.sin, x)

    g.defvjp(fwd, lambda pull, ct: pull(ct))
    for transformed in (tj.grad(g), tj.jit(tj.grad(g)), tj.grad(tj.jit(g))):
        np.testing.assert_allclose(transformed(tnp.asarray(0.7)), np.cos(0.7))
    np.testing.assert_allclose(tj.grad(tj.grad(g))(tnp.asarray(0.7)), -np.sin(0.7))


def test_leaves_are_what_is_kept() -> None:
    _, pull = tj.vjp(lambda x: tnp.sin(x) * 2.0, X)
    assert (3,) in [leaf.shape for leaf in tj.tree.leaves(pull)]
    zero = tj.tree.map(tnp.zeros_like, pull)
    np.testing.assert_array_equal(zero(tnp.ones(3))[0], np.zeros(3))
    assert tj.tree.structure(pull) == tj.tree.structure(tj.vjp(lambda x: tnp.sin(x) * 2.0, X)[1])


def test_caches_may_be_cleared() -> None:
    tj.clear_caches()
    assert_same(tj.vjp(tnp.sin, X)[1](tnp.ones(3)), (tnp.cos(X),))


def test_mistakes() -> None:
    pull: Any = tj.vjp(f, P, X)[1]
    with pytest.raises(InputError, match="vjp of f: the function takes one argument, a tree of cotangents"):
        pull(1.0, 2.0)
    with pytest.raises(TreeError, match="vjp: the result of f and the cotangent must have the same structure"):
        pull(1.0)


def test_jacfwd_of_complex_arguments() -> None:
    z = tnp.asarray(1 + 2j)
    with pytest.raises(InputError, match="needs real arguments; x is ~c128"):
        tj.jacfwd(lambda x: x * x)(z)
    np.testing.assert_allclose(tj.jacfwd(lambda x: x * x, holomorphic=True)(z), 2 + 4j)


def layer(w: Any, x: Any) -> Any:
    return tnp.tanh(x @ w["kernel"]) + w["bias"]


WEIGHTS: Final = {"kernel": np.cos(np.arange(6.0)).reshape(3, 2), "bias": np.ones(2)}
ROWS: Final = np.sin(np.arange(12.0)).reshape(4, 3)
CT: Final = np.arange(8.0).reshape(4, 2)


def test_arguments_that_are_kept_can_be_seen() -> None:
    pull: Any = tj.vjp(layer, WEIGHTS, ROWS)[1]
    weights, rows = pull.args_res
    assert repr(weights["bias"]) == "NotNeeded()"
    np.testing.assert_array_equal(weights["kernel"], WEIGHTS["kernel"])
    np.testing.assert_array_equal(rows, ROWS)
    pull = tj.vjp(tnp.exp, 1.0)[1]  # which keeps its result
    assert repr(pull.args_res) == "(NotNeeded(),)"


def test_arguments_that_are_kept_are_the_arrays_that_were_given() -> None:
    rows = tnp.asarray(ROWS)

    def products(rows: Any) -> Any:
        return lax.scan(lambda state, row: (row * state, state), tnp.ones(3), rows)

    for function in (products, tj.checkpoint(products), lambda rows: rows * rows):
        (kept,) = tj.vjp(function, rows)[1].args_res
        assert kept is rows


@pytest.mark.parametrize(
    "saveable", [False, (False, True), (True, False), ((True, False), False), [[False, False], True]]
)
@pytest.mark.parametrize("jitted", [False, True])
def test_arguments_that_are_not_kept_are_put_back(saveable: object, jitted: bool) -> None:
    expected = tj.vjp(layer, WEIGHTS, ROWS)[1](CT)
    whole = len(tree.leaves(tj.vjp(layer, WEIGHTS, ROWS)[1]))

    def forward(w: Any, x: Any) -> Any:
        return tj.vjp(layer, w, x, saveable_args=saveable)

    def backward(pull: Any, w: Any, x: Any, ct: Any) -> Any:
        return pull.replace(args_res=[w, x])(ct)

    if jitted:
        forward, backward = tj.jit(forward), tj.jit(backward)
    y, pull = forward(WEIGHTS, ROWS)
    np.testing.assert_allclose(y, layer(WEIGHTS, ROWS), rtol=1e-9)
    missing = sum(isinstance(leaf, NotSaved) for leaf in tree.leaves(pull.args_res))
    assert missing > 0
    assert len(tree.leaves(pull)) == whole - missing
    assert_same(backward(pull, WEIGHTS, ROWS, CT), expected)
    with pytest.raises(
        InputError, match=r"vjp of layer: the function was told by saveable_args not to keep (w|x).*args_r"
    ):
        pull(CT)
    with pytest.raises(InputError, match=r"vjp of layer: args_res: \w+(\['kernel'\])? must have type f64"):
        pull.replace(args_res=({**WEIGHTS, "kernel": ROWS.T}, ROWS.T))
    with pytest.raises(TreeError, match="args_res"):
        pull.replace(args_res=(WEIGHTS,))


def test_what_is_put_back_has_derivatives() -> None:
    def loss(w: Any) -> Any:
        _, pull = tj.vjp(layer, w, ROWS, saveable_args=(False, True))
        return tnp.sum(pull.replace(args_res=(w, *pull.args_res[1:]))(CT)[1] ** 2)

    def plain(w: Any) -> Any:
        return tnp.sum(tj.vjp(layer, w, ROWS)[1](CT)[1] ** 2)

    assert_same(tj.grad(loss)(WEIGHTS), tj.grad(plain)(WEIGHTS))
    many = tree.map(lambda x: np.stack([x, 2 * x]), WEIGHTS)
    assert_same(tj.vmap(tj.grad(loss))(many), tj.vmap(tj.grad(plain))(many))


def test_what_saveable_args_must_be() -> None:
    for wrong in (None, (True,), (True, (True, True)), ((True, True, False), True), "no"):
        with pytest.raises(InputError, match=r"vjp: saveable_args says .* it must be True or False, or a tuple"):
            tj.vjp(layer, WEIGHTS, ROWS, saveable_args=wrong)
