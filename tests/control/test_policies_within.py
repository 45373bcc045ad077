"""What policies of `checkpoint` keep within loops and branches isn't computed again, and derivatives are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import Array, checkpoint_policies, lax
from tinyjax import numpy as tnp

Function: TypeAlias = Callable[[Array], Array]
MATRIX = tnp.asarray(np.random.default_rng(0).standard_normal((4, 4)) / 2)
START = np.linspace(-1.0, 1.0, 4)


def layers(w: Array, x: Array) -> Array:
    for _ in range(3):
        x = tnp.sin(x @ w)
    return x


def scanned(w: Array, reverse: bool = False) -> Array:
    def body(x: Array, row: Array) -> tuple[Array, Array]:
        x = layers(w, x + row)
        return x, x.sum()

    x, sums = lax.scan(body, tnp.asarray(START), np.eye(4), reverse=reverse)
    return tnp.sum(x) + tnp.sum(sums * np.arange(4.0))


def chosen(w: Array) -> Array:
    def times(n: int) -> Callable[[Array], Array]:
        def branch(x: Array) -> Array:
            for _ in range(n):
                x = tnp.cos(x @ w)
            return x

        return branch

    index = tnp.astype(tnp.sum(w) > 0, "int32") + 1
    return tnp.sum(lax.switch(index, [lambda x: x, times(1), times(2)], tnp.asarray(START)))


def nested(w: Array) -> Array:
    def inner(x: Array, i: Array) -> tuple[Array, Array]:
        x = lax.cond(i > 0, lambda y: tnp.sin(y @ w), lambda y: tj.jit(tnp.cos)(y) * (y @ w), x)
        return x, tnp.exp(x @ x)

    def outer(x: Array, _: None) -> tuple[Array, Array]:
        y, ys = lax.scan(inner, x, np.arange(3))
        return tnp.tanh(y), tnp.sum(ys)

    return tnp.sum(lax.scan(outer, tnp.asarray(START), None, length=2)[1])


def mapped(w: Array) -> Array:
    return tnp.sum(tj.vmap(lambda s: scanned(s * w))(np.array([0.5, 1.0])))


def dots(program: object) -> int:
    return str(program).count(" dot_general")


KEEPING = checkpoint_policies.dots_saveable


def of_derivative(f: Function, policy: checkpoint_policies.AnyPolicy | None) -> str:
    _, pullback = tj.vjp(tj.checkpoint(f, policy=policy), MATRIX)
    return str(tj.make_jaxpr(pullback)(1.0))


@pytest.mark.parametrize("f", [scanned, chosen, nested], ids=lambda f: f.__name__)
def test_dots_that_are_kept_are_not_computed_again(f: Function) -> None:
    free, kept, again = (
        of_derivative(f, policy) for policy in (checkpoint_policies.everything_saveable, KEEPING, None)
    )
    assert dots(kept) == dots(free) < dots(again)


def test_what_is_not_kept_is_computed_again() -> None:
    kept, free = of_derivative(scanned, KEEPING), of_derivative(scanned, checkpoint_policies.everything_saveable)
    assert kept.count(" cos ") == 3
    assert free.count(" cos ") == 0


def test_names_within_loops() -> None:
    def named(w: Array) -> Array:
        def body(x: Array, _: None) -> tuple[Array, None]:
            return tnp.sin(tj.checkpoint_name(tnp.exp(x @ w / 9), "mine")), None

        return tnp.sum(lax.scan(body, tnp.asarray(START), None, length=3)[0])

    kept = of_derivative(named, checkpoint_policies.save_only_these_names("mine"))
    assert "exp" not in kept
    assert dots(kept) < dots(of_derivative(named, checkpoint_policies.save_only_these_names("other")))


def test_gradients_are_the_same() -> None:
    expected = tj.grad(scanned)(MATRIX)
    np.testing.assert_allclose(
        np.asarray(tj.grad(tj.checkpoint(scanned, policy=KEEPING))(MATRIX)), np.asarray(expected)
    )


@pytest.mark.sweep
@pytest.mark.parametrize("f", [scanned, lambda w: scanned(w, True), chosen, nested, mapped])
@pytest.mark.parametrize("policy", [KEEPING, lambda primitive, *_, **__: primitive.name in ("cos", "exp")])
def test_derivatives_are_the_same(f: Function, policy: checkpoint_policies.AnyPolicy) -> None:
    expected = tj.jit(tj.grad(f))(MATRIX)
    kept = tj.checkpoint(f, policy=policy)
    np.testing.assert_allclose(np.asarray(tj.grad(kept)(MATRIX)), np.asarray(expected), rtol=1e-9)
    np.testing.assert_allclose(np.asarray(tj.jit(tj.grad(kept))(MATRIX)), np.asarray(expected), rtol=1e-9)


@pytest.mark.sweep
@pytest.mark.parametrize("f", [scanned, chosen, nested])
def test_second_derivatives_are_the_same(f: Function) -> None:
    direction = np.ones((4, 4))

    def along(g: Function) -> Array:
        slope = tj.grad(lambda v: tnp.sum(tj.grad(g)(v) * direction))
        found: Array = tj.jit(slope)(MATRIX)
        return found

    found = along(tj.checkpoint(f, policy=KEEPING))
    np.testing.assert_allclose(np.asarray(found), np.asarray(along(f)), rtol=1e-8, atol=1e-9)
